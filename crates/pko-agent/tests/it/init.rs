//! `agent init`, with a server of one file.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

use pko_testkit::skip;

/// A gzipped tar file with `Pulumi.yaml` and `inner/Main.yaml` in it.
fn archive() -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    for (name, text) in [
        ("Pulumi.yaml", "name: demo\n"),
        ("inner/Main.yaml", "x: 1\n"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        builder
            .append_data(&mut header, name, text.as_bytes())
            .unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn digest(bytes: &[u8]) -> String {
    use sha2::Digest;
    let hash = sha2::Sha256::digest(bytes);
    let hex: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", hex.concat())
}

/// Answers each request with the status and the body; its address.
pub(crate) fn server(status: &'static str, body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            connection.write_all(head.as_bytes()).unwrap();
            connection.write_all(&body).unwrap();
        }
    });
    format!("http://{address}/artifact.tar.gz")
}

fn init(target: &Path, flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_agent"))
        .args(["init", "--target-dir"])
        .arg(target)
        .args(flags)
        .env_remove("FLUX_MAX_UNTAR_SIZE_BYTES")
        .output()
        .unwrap()
}

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn artifact_is_fetched_linked_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (
        folder.path().join("source"),
        folder.path().join("workspace"),
    );
    let bytes = archive();
    let (digest, url) = (digest(&bytes), server("200 OK", bytes));
    let link_text = link.to_str().unwrap();
    let flags = [
        "--flux-url",
        &url,
        "--flux-digest",
        &digest,
        "--workspace-link",
        link_text,
        "--source-dir",
        "inner",
    ];
    for _ in 0..2 {
        let output = init(&target, &flags);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            fs::read_to_string(link.join("Main.yaml")).unwrap(),
            "x: 1\n"
        );
        // The second time, what was left there is gone.
        assert!(!target.join("stale").exists());
        fs::write(target.join("stale"), "").unwrap();
    }
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn artifact_with_wrong_digest_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("source");
    let url = server("200 OK", archive());
    let wrong = digest(b"something else");
    let text = error(&init(
        &target,
        &["--flux-url", &url, "--flux-digest", &wrong],
    ));
    assert!(text.contains("unable to fetch flux artifact"), "{text}");
    assert!(
        text.contains("computed digest doesn't match provided"),
        "{text}"
    );
    assert!(!target.exists());
}

#[test]
fn oversized_or_missing_artifact_fails() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("source");
    let bytes = archive();
    let (digest, url) = (digest(&bytes), server("200 OK", bytes));
    let flags = [
        "--flux-url",
        &url,
        "--flux-digest",
        &digest,
        "--flux-max-untar-size-bytes",
        "3",
    ];
    let text = error(&init(&target, &flags));
    assert!(
        text.contains("bigger than max archive size of 3 bytes"),
        "{text}"
    );
    let gone = server("404 Not Found", Vec::new());
    let text = error(&init(
        &target,
        &["--flux-url", &gone, "--flux-digest", &digest],
    ));
    assert!(
        text.contains("unable to fetch flux artifact: file not found"),
        "{text}"
    );
    assert!(!target.exists());
}

#[test]
fn project_without_program_gets_project_file() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("workspace");
    let output = init(
        &target,
        &["--project-name", "myproject", "--project-runtime", "yaml"],
    );
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(target.join("Pulumi.yaml")).unwrap();
    assert_eq!(text, "name: myproject\nruntime: yaml\n");
}

#[test]
fn init_with_bootstrap_dir_copies_agent() {
    let folder = tempfile::tempdir().unwrap();
    let share = folder.path().join("share");
    let flags = ["--project-name", "demo", "--project-runtime", "yaml"];
    let flags = [&flags[..], &["--bootstrap-dir", share.to_str().unwrap()]].concat();
    let output = init(&share.join("workspace"), &flags);
    assert!(output.status.success(), "{output:?}");
    assert!(share.join("workspace/Pulumi.yaml").is_file());
    let version = Command::new(share.join("agent")).arg("version").output();
    assert!(version.unwrap().status.success());
}

#[test]
fn local_dir_is_linked() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("workspace");
    let run = |local: &str| {
        Command::new(env!("CARGO_BIN_EXE_agent"))
            .args(["init", "--local-dir", local, "--workspace-link"])
            .arg(&link)
            .output()
            .unwrap()
    };
    // It need not be in this image.
    for local in ["/not/here", "/app", "/app"] {
        let output = run(local);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(local));
    }
    fs::remove_file(&link).unwrap();
    fs::create_dir(&link).unwrap();
    fs::write(link.join("precious"), "").unwrap();
    let text = error(&run("/app"));
    assert!(text.contains("which is not replaced"), "{text}");
    assert!(link.join("precious").exists());
}

#[test]
fn missing_or_outside_source_dir_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (
        folder.path().join("source"),
        folder.path().join("workspace"),
    );
    let bytes = archive();
    let (digest, url) = (digest(&bytes), server("200 OK", bytes));
    let with = |inner: &str| {
        let link = link.to_str().unwrap();
        let source = ["--flux-url", &url, "--flux-digest", &digest];
        let dir = ["--workspace-link", link, "--source-dir", inner];
        init(&target, &[source, dir].concat())
    };
    let text = error(&with("infra"));
    assert!(
        text.contains("the source has no folder `infra`; it has `inner`"),
        "{text}"
    );
    let text = error(&with("../source"));
    assert!(text.contains("leads out of the source"), "{text}");
    assert!(!link.is_symlink());
    // Upstream's way to say "none", and other spellings.
    for inner in ["", "./", "inner/"] {
        let output = with(inner);
        assert!(output.status.success(), "{output:?}");
        assert!(link.is_dir());
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs the script, and after it `init` twice, in a world of its own where mounting is allowed. The
/// script is given a folder, and leaves the target in `$target`. Then the target has what it
/// should, and nothing else.
fn init_in_own_world(script: &str) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = archive();
    let (digest, url) = (digest(&bytes), server("200 OK", bytes));
    let script = format!(
        "cd \"$1\" || exit 1; {script} || exit 1; touch \"$target/stale\"; for turn in 1 2; do
        \"$2\" init -t \"$target\" --flux-url \"$3\" --flux-digest \"$4\" >&2 || exit 3; done; ls -A \"$target\""
    );
    let user = ["--map-root-user"];
    let user = if is_root() { &[][..] } else { &user };
    let output = Command::new("unshare")
        .args(user)
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(folder.path())
        .args([env!("CARGO_BIN_EXE_agent"), &url, &digest])
        .output()
        .unwrap_or_else(|error| panic!("`unshare` is needed, of util-linux: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    // The unit tests of the strategy are all there is then.
    if said.contains("unshare: ") || said.contains("mount: ") {
        return skip("this machine lets nobody mount in a namespace of their own");
    }
    assert!(output.status.success(), "{output:?}");
    let names = String::from_utf8_lossy(&output.stdout);
    assert_eq!(names, "Pulumi.yaml\ninner\n", "{output:?}");
}

#[test]
fn target_may_be_a_mounted_volume() {
    init_in_own_world("target=$PWD/source; mkdir source; mount -t tmpfs none source");
}

#[test]
fn target_may_be_a_mounted_subfolder() {
    // The same device as what is around it.
    init_in_own_world("target=$PWD/source; mkdir source other; mount --bind other source");
}

#[test]
fn target_may_come_with_the_image() {
    if !is_root() {
        return skip("only root can remove what is below an overlay");
    }
    // Its folders are in a layer below, from where they can't be moved.
    init_in_own_world(
        "mount -t tmpfs none . && cd \"$PWD\" && mkdir -p lower/source/old upper work whole &&
        mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work whole && target=$PWD/whole/source",
    );
}

#[test]
fn init_removes_remains_of_killed_init() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("source");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let bytes = archive();
    let digest = digest(&bytes);
    let mut killed = Command::new(env!("CARGO_BIN_EXE_agent"))
        .args(["init", "--flux-digest", &digest, "--flux-url"])
        .arg(format!("http://{address}/x"))
        .arg("-t")
        .arg(&target)
        .spawn()
        .unwrap();
    // It sends a request and gets no response.
    let _asked = silent.accept().unwrap();
    let left = || fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left(), 1, "where it would have put it");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(left(), 1, "nobody was there to remove it");
    let url = server("200 OK", bytes);
    let flags = ["--flux-url", &url, "--flux-digest", &digest];
    let output = init(&target, &flags);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(left(), 1);
    assert!(target.join("Pulumi.yaml").is_file());
}

#[test]
fn conflicting_git_credentials_fail() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_agent"))
        .args(["init", "--git-url", "https://me:canary@example.com/x.git"])
        .args(["--git-revision", "0", "-t"])
        .arg(folder.path().join("source"))
        .env("GIT_TOKEN", "canary")
        .env("GIT_USERNAME", "me")
        .output()
        .unwrap();
    let text = error(&output);
    assert!(
        text.contains("unable to fetch git source: please specify one authentication option of `Personal Access Token`"),
        "{text}"
    );
    assert!(!text.contains("canary"), "{text}");
}

/// The program without the superuser's right to ignore modes, if that is who runs the tests.
fn without_privileges(program: &str) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let rights = "-dac_override,-dac_read_search";
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set", rights, "--inh-caps", rights])
        .arg(program);
    command
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn init_replaces_read_only_target() {
    let folder = tempfile::tempdir().unwrap();
    let above = folder.path().join("above");
    let target = above.join("source");
    let locked = target.join("a/locked");
    fs::create_dir_all(locked.join("b")).unwrap();
    for path in [&locked.join("b"), &locked, &target.join("a"), &target] {
        set_mode(path, 0o000);
    }
    let listed = without_privileges("ls").arg(&target).output();
    let listed = listed.expect("`setpriv` is needed for this test: apt-get install util-linux");
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(said.contains("denied"), "modes must hold here: {listed:?}");

    let bytes = archive();
    let (digest, url) = (digest(&bytes), server("200 OK", bytes));
    let init = || {
        let output = without_privileges(env!("CARGO_BIN_EXE_agent"))
            .args(["init", "--flux-url", &url, "--flux-digest", &digest, "-t"])
            .arg(&target)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut names: Vec<_> = fs::read_dir(&target)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["Pulumi.yaml", "inner"]);
    };
    init();
    // Nothing is left beside it, and the folder above need not be ours to write.
    assert_eq!(fs::read_dir(&above).unwrap().count(), 1);
    fs::write(target.join("stale"), "").unwrap();
    set_mode(&target.join("inner"), 0o500);
    set_mode(&above, 0o555);
    init();
    set_mode(&above, 0o755);
    assert_eq!(fs::read_dir(&above).unwrap().count(), 1);
}

#[test]
fn url_password_is_not_logged() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("source");
    let bytes = archive();
    let digest = digest(&bytes);
    for url in [
        server("200 OK", bytes),
        server("404 Not Found", Vec::new()),
        server("403 Forbidden", Vec::new()),
    ] {
        let url = url.replace("http://", "http://me:canary@") + "?signature=canary";
        let output = init(
            &target,
            &["-v", "--flux-url", &url, "--flux-digest", &digest],
        );
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("flux artifact fetching"), "{said}");
        assert!(!said.contains("canary"), "{said}");
    }
}
