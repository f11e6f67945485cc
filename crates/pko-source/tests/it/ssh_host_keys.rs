//! Servers with known, unknown and changed host keys.

use pko_source::ssh::{self, KnownHosts, SshError};
use pko_testkit::git_server::sshd::{KeyPair, Sshd};

use crate::ssh_harness::{ED25519, command, error_of, key_of, output, soon, usual};

#[test]
fn ssh_unknown_server_error_has_line_to_add() {
    let Some((server, key)) = usual() else {
        return;
    };
    let target = command(&server, "echo hello");
    let error = error_of(ssh::connect(&target, &key, &KnownHosts::built_in(), soon()));
    let message = error.to_string();
    let SshError::UnknownHost(unknown) = error else {
        panic!("{message}");
    };
    let address = format!("127.0.0.1:{}", server.port());
    assert_eq!(unknown.address, address);
    let line = server.known_hosts();
    assert_eq!(unknown.line, line.trim());
    for part in [
        address.as_str(),
        "ssh-ed25519 SHA256:",
        line.trim(),
        "`knownHosts` in the git auth Secret",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // The suggested line works.
    let known = KnownHosts::built_in().with_text("test", &unknown.line);
    assert_eq!(
        output(ssh::connect(&target, &key, &known, soon()).unwrap()),
        "hello\n"
    );
}

#[test]
fn ssh_changed_host_key_is_rejected() {
    let Some((server, key)) = usual() else {
        return;
    };
    let other = KeyPair::generate(ED25519, "").unwrap();
    let name = format!("[127.0.0.1]:{}", server.port());
    let known = KnownHosts::empty().with_text("the list", &format!("{name} {}", other.public));
    let target = command(&server, "true");
    let error = error_of(ssh::connect(&target, &key, &known, soon()));
    let message = error.to_string();
    assert!(matches!(error, SshError::HostKeyChanged(_)), "{message}");
    assert!(message.contains("HAS CHANGED"), "{message}");
    assert!(message.contains("the list, line 1"), "{message}");

    let line = server.known_hosts();
    let known = KnownHosts::empty().with_text("test", &format!("{line}@revoked {line}"));
    let error = error_of(ssh::connect(&target, &key, &known, soon()));
    assert!(matches!(error, SshError::HostKeyRevoked { .. }), "{error}");
    assert!(
        !server.log().contains("Accepted publickey"),
        "nothing was shown to it"
    );
}

/// The server is asked for the key that is known.
#[test]
fn ssh_requests_the_known_host_key() {
    let kinds: [&[&str]; 4] = [
        ED25519,
        &["-t", "ecdsa", "-b", "256"],
        &["-t", "ecdsa", "-b", "384"],
        &["-t", "rsa", "-b", "2048"],
    ];
    let Some(server) = Sshd::start_or_skip(&kinds, &[]).unwrap() else {
        return;
    };
    let pair = KeyPair::generate(ED25519, "").unwrap();
    server.authorize(&pair.public).unwrap();
    for line in server.known_hosts().lines() {
        let known = KnownHosts::empty().with_text("test", line);
        let session = ssh::connect(
            &command(&server, "echo hello"),
            &key_of(&pair),
            &known,
            soon(),
        );
        let session = session.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(output(session), "hello\n");
    }
}
