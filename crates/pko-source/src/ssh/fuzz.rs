//! Where text from outside comes in, for whoever tries strange ones: none may end the process, and some things hold
//! for all of them.

use super::{
    host_key::HostKey,
    known_hosts::{KnownHosts, Verdict},
    private_key,
};
use crate::{Redacted, git::SshKey};

/// A key that no random text has by chance.
const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIO3jzfR9wNyDQggE4yRdZ/l9Q/yDbgEP9idvZ+G4/BIE";

/// A `known_hosts` text, and a server that is looked for in it.
pub fn known_hosts(text: &str, host: &str, port: u16) {
    let Some(key) = HostKey::parse("ssh-ed25519", KEY) else {
        return;
    };
    let hosts = KnownHosts::none().with_text("text", text);
    let lines = text.lines().count();
    assert!(hosts.warnings().len() <= lines, "a line is skipped once");
    let verdict = hosts.judge(host, port, &key);
    if verdict == Verdict::Known {
        assert!(text.contains(KEY), "only what was written is known");
        assert!(hosts.algorithms(host, port).contains(&"ssh-ed25519"));
    }
    // What an error tells the user to add must work, whatever else is there.
    let line = key.known_hosts_line(host, port);
    let sane = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
    if !host.is_empty() && host.bytes().all(sane) {
        let hosts = KnownHosts::none().with_text("line", &line);
        let hosts = hosts.with_text("text", text);
        let verdict = hosts.judge(host, port, &key);
        let expected = matches!(verdict, Verdict::Known | Verdict::Revoked(_));
        assert!(expected, "{line:?} makes the server known: {verdict:?}");
    }
}

/// A private key, and what should open it.
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
