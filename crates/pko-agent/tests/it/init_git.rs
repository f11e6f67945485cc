//! `agent init` with git, from git's own server and from OpenSSH's.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use pko_testkit::git_server::{
    GitServer, TestFile, TestRepository,
    sshd::{KeyPair, Sshd},
};
use tempfile::TempDir;

use crate::init::server;

const CANARY: &str = "canary-b9c4e7";

/// A repository with two commits, and a share to fetch into.
struct Scene {
    folder: TempDir,
    repository: TestRepository,
    server: GitServer,
    commits: [String; 2],
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let served = folder.path().join("served");
        let repository = TestRepository::create(&served, "app.git").unwrap();
        let commit = |name: &str| {
            let files = [
                TestFile::plain("infra/Pulumi.yaml", "name: demo\n"),
                TestFile::plain(name, name),
            ];
            repository.commit("main", &files).unwrap()
        };
        let commits = [commit("one"), commit("two")];
        Self {
            server: GitServer::start(&served).unwrap(),
            folder,
            repository,
            commits,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("share").join(name)
    }

    /// As the container `fetch` runs it: `GIT_DIR` is the project's folder, whatever git makes of
    /// that name.
    fn init(&self, url: &str, revision: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command
            .arg("init")
            .arg("-t")
            .arg(self.path("source"))
            .args(["--git-url", url, "--git-revision", revision])
            .arg("--workspace-link")
            .arg(self.path("workspace"))
            .args(["--source-dir", "infra/"])
            .env("GIT_DIR", "infra/")
            .env("HOME", self.folder.path())
            .env("RUST_LOG", "debug")
            .env_remove("SSH_KNOWN_HOSTS")
            .envs(variables.iter().copied());
        command.output().unwrap()
    }

    fn succeeds(&self, url: &str, revision: &str, variables: &[(&str, &str)]) -> String {
        let output = self.init(url, revision, variables);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{log}");
        let project = fs::read_to_string(self.path("workspace/Pulumi.yaml"));
        assert_eq!(project.unwrap(), "name: demo\n");
        log
    }

    fn fails(&self, url: &str, revision: &str, variables: &[(&str, &str)]) -> String {
        let output = self.init(url, revision, variables);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{log}");
        assert!(!log.contains(CANARY), "{log}");
        log
    }
}

#[test]
fn commit_is_fetched_reused_and_replaced() {
    let scene = Scene::new();
    let url = scene.server.url("app.git");
    let [one, two] = &scene.commits;
    let log = scene.succeeds(&url, one, &[]);
    assert!(log.contains("git artifact fetched"), "{log}");
    assert!(scene.path("source/one").exists());
    let _ = scene.server.take_requests();
    let log = scene.succeeds(&url, one, &[("GIT_SHALLOW", "false")]);
    assert!(
        log.contains("repository was previously checked out"),
        "{log}"
    );
    assert!(scene.server.take_requests().is_empty(), "nobody was asked");
    scene.succeeds(&url, two, &[]);
    assert!(scene.path("source/two").exists());
    assert!(!scene.path("source/one").exists());
}

#[test]
fn branch_and_tag_revisions_are_fetched() {
    let scene = Scene::new();
    let url = scene.server.url("app.git");
    let [one, _] = &scene.commits;
    scene
        .repository
        .git(&["tag", "-a", "v1", "-m", "first", one])
        .unwrap();
    scene.succeeds(&url, "v1", &[("GIT_SHALLOW", "true")]);
    assert!(scene.path("source/one").exists());
    scene.succeeds(&url, "refs/heads/main", &[]);
    assert!(scene.path("source/two").exists());
    let log = scene.fails(&url, "refs/head/main", &[]);
    assert!(log.contains("refs/heads/main"), "{log}");
    assert!(scene.path("source/two").exists(), "what was there stays");
}

#[test]
fn git_http_credentials_are_used() {
    let scene = Scene::new();
    let url = scene.server.url("app.git");
    let [one, _] = &scene.commits;
    scene.server.require("git", CANARY);
    let log = scene.succeeds(&url, one, &[("GIT_TOKEN", CANARY)]);
    assert!(!log.contains(CANARY), "{log}");
    fs::remove_dir_all(scene.path("source")).unwrap();
    scene.succeeds(
        &url,
        one,
        &[("GIT_USERNAME", "git"), ("GIT_PASSWORD", CANARY)],
    );
    fs::remove_dir_all(scene.path("source")).unwrap();
    let log = scene.succeeds(&scene.server.url_with("git", CANARY, "app.git"), one, &[]);
    assert!(!log.contains(CANARY), "{log}");
    let config = fs::read_to_string(scene.path("source/.git/config")).unwrap();
    assert!(!config.contains(CANARY), "{config}");
    fs::remove_dir_all(scene.path("source")).unwrap();
    for variables in [
        &[][..],
        &[("GIT_TOKEN", "wrong-canary-b9c4e7")],
        &[
            ("GIT_USERNAME", "git"),
            ("GIT_PASSWORD", "wrong-canary-b9c4e7"),
        ],
    ] {
        let log = scene.fails(&url, one, variables);
        let text = "unable to fetch git source: failed to create workspace, unable to enlist in git repo: \
                    authentication required";
        assert!(log.contains(text), "{log}");
    }
    let both = [
        ("GIT_TOKEN", CANARY),
        ("GIT_USERNAME", "git"),
        ("GIT_PASSWORD", CANARY),
    ];
    let log = scene.fails(&url, one, &both);
    assert!(
        log.contains("please specify one authentication option"),
        "{log}"
    );
}

#[test]
fn github_app_requests_installation_token() {
    let scene = Scene::new();
    scene.server.require("git", CANARY);
    let pair = KeyPair::generate(&["-t", "rsa", "-b", "2048", "-m", "PEM"], "").unwrap();
    let body = format!(r#"{{"token": "{CANARY}", "expires_at": "2099-01-01T00:00:00Z"}}"#);
    let api = server("201 Created", body.into_bytes());
    let variables = [
        ("GIT_GITHUB_APP_ID", "12"),
        ("GIT_GITHUB_APP_INSTALLATION_ID", "34"),
        ("GIT_GITHUB_APP_PRIVATE_KEY", pair.private.as_str()),
        (
            "GIT_GITHUB_API_URL",
            api.strip_suffix("/artifact.tar.gz").unwrap(),
        ),
    ];
    let (url, [one, two]) = (scene.server.url("app.git"), &scene.commits);
    let log = scene.succeeds(&url, one, &variables);
    assert!(!log.contains(CANARY), "{log}");
    let refusing = server("401 Unauthorized", b"{}".to_vec());
    let refused = (
        "GIT_GITHUB_API_URL",
        refusing.strip_suffix("/artifact.tar.gz").unwrap(),
    );
    let [id, installation, key, _] = variables;
    let log = scene.fails(&url, two, &[id, installation, key, refused]);
    let text = "getting GitHub App installation token: GitHub API returned status 401";
    assert!(log.contains(text), "{log}");
}

#[test]
fn git_ssh_checks_key_and_known_hosts() {
    let Some(sshd) = Sshd::start_default_or_skip().unwrap() else {
        return;
    };
    let scene = Scene::new();
    let pair = KeyPair::generate(&["-t", "ed25519"], CANARY).unwrap();
    sshd.authorize(&pair.public).unwrap();
    let path = scene.repository.path().display();
    let url = format!("ssh://{}@127.0.0.1:{}{path}", Sshd::user(), sshd.port());
    let [one, two] = &scene.commits;
    let known = sshd.known_hosts();
    let key = ("GIT_SSH_PRIVATE_KEY", pair.private.as_str());
    let (password, hosts) = (
        ("GIT_PASSWORD", CANARY),
        ("GIT_KNOWN_HOSTS", known.as_str()),
    );
    scene.succeeds(&url, one, &[key, password, hosts]);
    scene.succeeds(
        &url,
        "main",
        &[key, password, hosts, ("GIT_SHALLOW", "true")],
    );
    assert!(scene.path("source/two").exists(), "{two}");
    let file = scene.folder.path().join("hosts");
    fs::write(&file, &known).unwrap();
    let files = ("SSH_KNOWN_HOSTS", file.to_str().unwrap());
    scene.succeeds(&url, one, &[key, password, files]);
    let log = scene.fails(&url, two, &[key, password]);
    assert!(log.contains("is unknown and presents the key"), "{log}");
    assert!(log.contains("knownHosts"), "{log}");
    let log = scene.fails(&url, two, &[key, hosts]);
    assert!(log.contains("passphrase"), "{log}");
    let log = scene.fails(&url, two, &[("GIT_TOKEN", CANARY), hosts]);
    assert!(log.contains("SSH needs a private key"), "{log}");
    assert!(scene.path("source/one").exists(), "what was there stays");
}

#[test]
fn invalid_git_url_fails() {
    let scene = Scene::new();
    for url in [
        "file:///etc",
        "ext::sh -c id",
        "--upload-pack=id",
        "-x",
        "ftp://a.test/b",
    ] {
        let url = format!("--git-url={url}");
        let output = Command::new(env!("CARGO_BIN_EXE_agent"))
            .args(["init", "-t"])
            .arg(scene.path("source"))
            .args([&url, "--git-revision=main"])
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{url}: {log}");
        assert!(log.contains("unable to fetch git source"), "{url}: {log}");
        assert!(!scene.path("source").exists());
    }
}
