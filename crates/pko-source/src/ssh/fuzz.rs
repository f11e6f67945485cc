//! Entry points for fuzzing of `known_hosts` files and private keys.
//!
//! No input may panic, and the assertions hold for every input.

use pko_auth::Redacted;

use super::{
    host_key::HostKey,
    known_hosts::{HostKeyVerdict, KnownHosts},
    private_key,
};
use crate::git::SshKey;

/// A key that random text does not contain.
const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIO3jzfR9wNyDQggE4yRdZ/l9Q/yDbgEP9idvZ+G4/BIE";

/// Parses a `known_hosts` text and looks up a server in it.
pub fn known_hosts(text: &str, host: &str, port: u16) {
    let Some(key) = HostKey::parse("ssh-ed25519", KEY) else {
        return;
    };
    let hosts = KnownHosts::empty().with_text("text", text);
    let lines = text.lines().count();
    assert!(hosts.warnings().len() <= lines, "a line is skipped once");
    let verdict = hosts.verify(host, port, &key);
    if verdict == HostKeyVerdict::Trusted {
        assert!(text.contains(KEY), "only what was written is known");
        assert!(hosts.algorithms(host, port).contains(&"ssh-ed25519"));
    }
    // The line that an error suggests must work.
    let line = key.known_hosts_line(host, port);
    let sane = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
    if !host.is_empty() && host.bytes().all(sane) {
        let hosts = KnownHosts::empty().with_text("line", &line);
        let hosts = hosts.with_text("text", text);
        let verdict = hosts.verify(host, port, &key);
        let expected = matches!(
            verdict,
            HostKeyVerdict::Trusted | HostKeyVerdict::Revoked(_)
        );
        assert!(expected, "{line:?} makes the server known: {verdict:?}");
    }
}

/// Parses a private key. Errors must not quote it.
pub fn private_key(text: &str, passphrase: &str) {
    let key = SshKey {
        private_key: Redacted::new(text.to_owned()),
        passphrase: Some(Redacted::new(passphrase.to_owned())),
    };
    if let Err(error) = private_key::read(&key) {
        let shown = format!("{error} {error:?}");
        let mut words = text.split_whitespace().filter(|word| word.len() > 40);
        assert!(!words.any(|word| shown.contains(word)), "{shown}");
    }
}
