//! Servers, keys and targets for SSH tests.

use std::{io::Read as _, time::Duration};

use pko_auth::Redacted;
use pko_source::{
    Deadline,
    git::SshKey,
    ssh::{self, KnownHosts, SshError, SshSession, SshTarget},
};
use pko_testkit::git_server::sshd::{KeyPair, Sshd};

pub(crate) const ED25519: &[&str] = &["-t", "ed25519"];

pub(crate) fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

pub(crate) fn key_of(pair: &KeyPair) -> SshKey {
    SshKey {
        private_key: Redacted::new(pair.private.clone()),
        passphrase: None,
    }
}

pub(crate) fn known(server: &Sshd) -> KnownHosts {
    KnownHosts::empty().with_text("test", &server.known_hosts())
}

pub(crate) fn command(server: &Sshd, command: &str) -> SshTarget {
    SshTarget {
        host: "127.0.0.1".to_owned(),
        port: server.port(),
        user: Sshd::user(),
        command: command.to_owned(),
    }
}

pub(crate) fn upload_pack(server: &Sshd, path: &str) -> SshTarget {
    let user = Sshd::user();
    SshTarget::upload_pack("127.0.0.1", Some(server.port()), Some(&user), path).unwrap()
}

/// A server that accepts a key, and the key. Without `sshd` the test is skipped.
pub(crate) fn usual() -> Option<(Sshd, SshKey)> {
    let server = Sshd::start_default_or_skip().unwrap()?;
    let pair = KeyPair::generate(ED25519, "").unwrap();
    server.authorize(&pair.public).unwrap();
    Some((server, key_of(&pair)))
}

pub(crate) fn run(server: &Sshd, key: &SshKey, text: &str) -> Result<SshSession, SshError> {
    ssh::connect(&command(server, text), key, &known(server), soon())
}

pub(crate) fn error_of(outcome: Result<SshSession, SshError>) -> SshError {
    match outcome {
        Ok(_) => panic!("there is a session"),
        Err(error) => error,
    }
}

pub(crate) fn output(mut session: SshSession) -> String {
    let mut text = String::new();
    session.read_to_string(&mut text).unwrap();
    text
}
