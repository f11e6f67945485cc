//! Git over a byte stream, as SSH provides it, with `git-upload-pack` at the other end.

use std::{
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use pko_source::{
    Deadline,
    git::{
        Address, Credentials, DuplexStream, FetchOptions, GitClient, GitError, Remote, Revision,
        SshConnector,
    },
};
use pko_testkit::git_server::TestFile;

use crate::git_harness::{GitFixture, LONG};

/// Starts `git-upload-pack` locally.
struct LocalConnector {
    folder: std::path::PathBuf,
    version: &'static str,
    children: Mutex<Vec<Child>>,
}

impl SshConnector for LocalConnector {
    fn upload_pack(
        &self,
        address: &Address,
        _: &Credentials,
        _: Deadline,
    ) -> Result<DuplexStream, GitError> {
        let mut child = Command::new("git")
            .args(["-c", "safe.directory=*", "upload-pack", address.path()])
            .current_dir(&self.folder)
            .env("GIT_PROTOCOL", format!("version={}", self.version))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", &self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("git could not be started; install git");
        let duplex = DuplexStream {
            reader: Box::new(child.stdout.take().unwrap()),
            writer: Box::new(child.stdin.take().unwrap()),
        };
        self.children.lock().unwrap().push(child);
        Ok(duplex)
    }
}

#[test]
fn stream_fetch_matches_http_in_each_version() {
    for version in ["0", "1", "2"] {
        let scene = GitFixture::new();
        let first = scene
            .repository
            .commit("main", &[TestFile::plain("a", "1")])
            .unwrap();
        scene
            .repository
            .commit("main", &[TestFile::plain("a", "2")])
            .unwrap();
        scene
            .repository
            .git(&["tag", "--annotate", "--message=x", "v1", &first])
            .unwrap();
        let local = Arc::new(LocalConnector {
            folder: scene.served(),
            version,
            children: Mutex::default(),
        });
        let ssh: Arc<dyn SshConnector> = Arc::<LocalConnector>::clone(&local);
        let client: GitClient = scene.client.clone().with_ssh(ssh);
        let remote = Remote {
            client: &client,
            address: &Address::parse("git@host:repository.git").unwrap(),
            credentials: &Credentials::Anonymous,
            deadline: Deadline::after(LONG),
            limits: scene.limits,
        };
        for (shallow, named) in [(true, "0"), (false, "2")] {
            for revision in ["main", "v1"] {
                let revision = Revision::parse(revision).unwrap();
                let options = FetchOptions {
                    revision: &revision,
                    shallow,
                    submodules: false,
                };
                remote.fetch(&options, &scene.target()).unwrap();
                assert_eq!(scene.git(&["status", "--porcelain"]), "");
            }
            assert_eq!(
                scene.git(&["rev-list", "--branches", "--remotes", "--tags", "--count"]),
                named
            );
            assert_eq!(scene.git(&["rev-list", "--count", "HEAD"]), "1");
            assert_eq!(scene.git(&["rev-parse", "HEAD"]), first);
            assert_eq!(
                scene.git(&["remote", "get-url", "origin"]),
                "git@host:repository.git"
            );
        }
        for mut child in local.children.lock().unwrap().drain(..) {
            assert!(
                child.wait().unwrap().success(),
                "a conversation ends as it should"
            );
        }
    }
}
