//! Sessions with OpenSSH's server.

use std::{
    io::{Read as _, Write as _},
    process::Command,
    thread,
};

use pko_auth::Redacted;
use pko_source::ssh::{self, KnownHosts, PrivateKeyError, SshError};
use pko_testkit::git_server::sshd::{KeyPair, Sshd};

use crate::ssh_harness::{
    ED25519, command, error_of, key_of, known, output, run, soon, upload_pack, usual,
};

fn git(folder: &std::path::Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]);
    let status = git.arg("-C").arg(folder).args(arguments).status();
    assert!(status.expect("git is missing: install git").success());
}

fn make_repository(server: &Sshd, name: &str) -> String {
    let folder = server.folder().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    git(&folder, &["init", "-q", "-b", "main"]);
    git(&folder, &["commit", "-q", "--allow-empty", "-m", "first"]);
    folder.to_str().unwrap().to_owned()
}

#[test]
fn ssh_each_key_type_authenticates() {
    let Some(server) = Sshd::start_default_or_skip().unwrap() else {
        return;
    };
    let known = known(&server);
    for arguments in [
        ED25519,
        &["-t", "ecdsa", "-b", "256"],
        &["-t", "ecdsa", "-b", "384"],
        &["-t", "ecdsa", "-b", "521"],
        &["-t", "rsa", "-b", "2048"],
        &["-t", "rsa", "-b", "4096", "-m", "PEM"],
        // Too few bits for ring, but not for the server.
        &["-t", "rsa", "-b", "1024"],
        &["-t", "ecdsa", "-b", "256", "-m", "PKCS8"],
    ] {
        let target = command(&server, "echo hello");
        let right = KeyPair::generate(arguments, "").unwrap();
        let refused = error_of(ssh::connect(&target, &key_of(&right), &known, soon()));
        let SshError::AuthenticationFailed(refused) = refused else {
            panic!("{arguments:?}: {refused}");
        };
        let kind = right.public.split(' ').next().unwrap();
        assert_eq!(refused.key.algorithm(), kind);
        assert!(!refused.partial_success);
        server.authorize(&right.public).unwrap();
        let session = ssh::connect(&target, &key_of(&right), &known, soon());
        let session =
            session.unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}", server.log()));
        assert_eq!(output(session), "hello\n", "{arguments:?}");
    }
}

#[test]
fn ssh_encrypted_key_authenticates_with_passphrase() {
    let Some(server) = Sshd::start_default_or_skip().unwrap() else {
        return;
    };
    for arguments in [ED25519, &["-t", "rsa", "-b", "2048", "-m", "PEM"]] {
        let pair = KeyPair::generate(arguments, "correct horse").unwrap();
        server.authorize(&pair.public).unwrap();
        let mut key = key_of(&pair);
        let error = error_of(run(&server, &key, "true"));
        assert_eq!(error, SshError::Key(PrivateKeyError::NoPassphrase));
        key.passphrase = Some(Redacted::new("wrong".to_owned()));
        let error = error_of(run(&server, &key, "true"));
        assert_eq!(error, SshError::Key(PrivateKeyError::WrongPassphrase));
        key.passphrase = Some(Redacted::new("correct horse".to_owned()));
        assert_eq!(output(run(&server, &key, "echo hello").unwrap()), "hello\n");
    }
}

/// An invalid key fails before connecting.
#[test]
fn ssh_invalid_key_fails_before_connecting() {
    let Some((server, mut key)) = usual() else {
        return;
    };
    key.private_key = Redacted::new("ssh-ed25519 AAAA me".to_owned());
    let error = error_of(run(&server, &key, "true"));
    assert_eq!(error, SshError::Key(PrivateKeyError::PublicKey));
    assert_eq!(server.connections(), 0);
}

/// The server advertises better signatures but does not accept them.
#[test]
fn ssh_rsa_key_never_signs_with_sha1() {
    let lines = ["PubkeyAcceptedAlgorithms ssh-rsa"];
    let Some(server) = Sshd::start_or_skip(&[ED25519], &lines).unwrap() else {
        return;
    };
    let pair = KeyPair::generate(&["-t", "rsa", "-b", "2048"], "").unwrap();
    server.authorize(&pair.public).unwrap();
    let error = error_of(run(&server, &key_of(&pair), "true"));
    assert!(
        matches!(error, SshError::AuthenticationFailed(_)),
        "{error}"
    );
}

#[test]
fn ssh_git_uses_protocol_version_2() {
    let Some((server, key)) = usual() else {
        return;
    };
    let path = make_repository(&server, "it's a 'repository'");
    let target = upload_pack(&server, &path);
    let mut session = ssh::connect(&target, &key, &known(&server), soon()).unwrap();
    let mut first = [0; 14];
    session.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"000eversion 2\n");
    // Requests the references and reads until git ends.
    session.write_all(b"0014command=ls-refs\n0000").unwrap();
    let (mut reader, mut writer) = session.split();
    writer.write_all(b"0000").unwrap();
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("refs/heads/main"), "{rest}");
}

#[test]
fn ssh_server_without_env_uses_protocol_version_0() {
    let Some(server) = Sshd::start_or_skip(&[ED25519], &[]).unwrap() else {
        return;
    };
    let pair = KeyPair::generate(ED25519, "").unwrap();
    server.authorize(&pair.public).unwrap();
    let target = upload_pack(&server, &make_repository(&server, "old"));
    let mut session = ssh::connect(&target, &key_of(&pair), &known(&server), soon()).unwrap();
    session.write_all(b"0000").unwrap();
    let text = output(session);
    assert!(text.contains(" HEAD\0"), "{text}");
}

#[test]
fn ssh_missing_repository_error_has_server_message() {
    let Some((server, key)) = usual() else {
        return;
    };
    let target = upload_pack(&server, "/nowhere/app.git");
    let mut session = ssh::connect(&target, &key, &known(&server), soon()).unwrap();
    let error = session.read_to_end(&mut Vec::new()).unwrap_err();
    let Some(SshError::CommandFailed {
        status, message, ..
    }) = SshError::of(&error)
    else {
        panic!("{error}");
    };
    assert_eq!(*status, Some(128));
    assert!(
        message.contains("'/nowhere/app.git' does not appear to be a git repository"),
        "{message}"
    );
    assert!(
        error
            .to_string()
            .starts_with("git-upload-pack failed on the SSH server 127.0.0.1:")
    );
    assert!(session.messages().contains("does not appear"));
}

#[test]
fn ssh_error_contains_forge_message() {
    let Some((server, key)) = usual() else {
        return;
    };
    let session = run(
        &server,
        &key,
        "echo 'ERROR: Repository not found.' >&2; exit 1",
    );
    let error = session.unwrap().read(&mut [0; 10]).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with(": ERROR: Repository not found."),
        "{error}"
    );
    let session = run(&server, &key, "kill -9 $$");
    let error = session.unwrap().read(&mut [0; 10]).unwrap_err();
    assert!(
        matches!(
            SshError::of(&error),
            Some(SshError::CommandFailed { status: None, .. })
        ),
        "{error}"
    );
}

#[test]
fn ssh_session_transfers_much_in_both_directions() {
    let Some((server, key)) = usual() else {
        return;
    };
    let session = run(&server, &key, "cat").unwrap();
    let (mut reader, mut writer) = session.split();
    let sent: Vec<u8> = (0..=250).cycle().take(20 * 1024 * 1024).collect();
    let data = sent.clone();
    let sending = thread::spawn(move || writer.write_all(&data));
    let mut received = Vec::new();
    reader.read_to_end(&mut received).unwrap();
    sending.join().unwrap().unwrap();
    assert!(received == sent);
}

#[test]
fn ssh_ended_command_rejects_writes() {
    let Some((server, key)) = usual() else {
        return;
    };
    let mut session = run(&server, &key, "exit 3").unwrap();
    let part = [0; 10_000];
    let mut failed = (0..10_000).filter_map(|_| session.write_all(&part).err());
    let error = failed.next().unwrap();
    assert!(
        matches!(
            SshError::of(&error),
            Some(SshError::CommandFailed {
                status: Some(3),
                ..
            })
        ),
        "{error}"
    );
}

#[test]
fn ssh_errors_contain_no_key() {
    let Some(server) = Sshd::start_default_or_skip().unwrap() else {
        return;
    };
    let pair = KeyPair::generate(ED25519, "").unwrap();
    let secret = pair.private.lines().nth(2).unwrap().to_owned();
    let key = key_of(&pair);
    for known in [known(&server), KnownHosts::empty()] {
        let error = error_of(ssh::connect(
            &command(&server, "true"),
            &key,
            &known,
            soon(),
        ));
        let shown = format!("{error} {error:?} {key:?}");
        assert!(!shown.contains(&secret), "{shown}");
    }
}
