//! Known hosts and private keys.

use std::process::Command;

use pko_source::ssh::fuzz;
use pko_testkit::fuzz_timed;
use proptest::prelude::*;

#[test]
fn lists_of_known_hosts() {
    let key = "AAAAC3NzaC1lZDI1NTE5AAAAIO3jzfR9wNyDQggE4yRdZ/l9Q/yDbgEP9idvZ+G4/BIE";
    let names = prop_oneof![
        "!?\\[?[a-c*?.]{1,6}(\\]:22{1,3})?(,!?[a-c*?.]{0,4}){0,3}",
        Just("|1|azuujmUqTE1Ovk0PtN98ZV3z6sQ=|rWmK/lmEyOUyAYRpTwg9hPeiHpI=".to_owned()),
        "\\|1\\|[A-Za-z0-9+/=|]{0,30}",
    ];
    let line = prop_oneof![
        4 => (
            prop_oneof![3 => Just(""), 1 => Just("@revoked "), 1 => Just("@cert-authority ")],
            names,
            prop_oneof![Just("ssh-ed25519"), Just("ssh-rsa")],
            prop_oneof![Just(key.to_owned()), "[A-Za-z0-9+/=]{0,40}"],
        ).prop_map(|(marker, names, kind, key)| format!("{marker}{names} {kind} {key}")),
        1 => any::<String>(),
    ];
    let text = prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"));
    let host = prop_oneof!["[a-c.]{1,6}", any::<String>()];
    let port = prop_oneof![Just(22), Just(222), any::<u16>()];
    fuzz_timed(&(text, host, port), |(text, host, port)| {
        fuzz::known_hosts(&text, &host, port);
    });
}

/// Real keys with a few bytes changed, and texts that look like keys.
#[test]
fn private_keys() {
    let keys: Vec<String> = [
        &["-t", "ed25519", "-N", ""][..],
        &["-t", "ed25519", "-N", "passphrase", "-a", "1"],
        &["-t", "ecdsa", "-m", "PEM", "-N", ""],
        &["-t", "ecdsa", "-m", "PKCS8", "-N", "passphrase"],
        &["-t", "rsa", "-b", "1024", "-m", "PEM", "-N", "passphrase"],
        &["-t", "rsa", "-b", "1024", "-m", "PKCS8", "-N", ""],
    ]
    .into_iter()
    .map(generate)
    .collect();
    let damaged = (
        prop::sample::select(keys),
        prop::collection::vec((any::<prop::sample::Index>(), "[A-Za-z0-9+/=\n-]"), 0..6),
    );
    let damaged = damaged.prop_map(|(key, changes)| {
        let mut characters: Vec<char> = key.chars().collect();
        for (at, change) in changes {
            let at = at.index(characters.len());
            characters[at] = change.chars().next().unwrap();
        }
        characters.into_iter().collect::<String>()
    });
    let text = prop_oneof![
        8 => damaged,
        2 => "-----BEGIN (OPENSSH |RSA |EC |ENCRYPTED |)PRIVATE KEY-----\n[A-Za-z0-9+/\n]{0,200}\n-----END (OPENSSH |RSA |EC |ENCRYPTED |)PRIVATE KEY-----",
        1 => any::<String>(),
    ];
    fuzz_timed(&text, |text| fuzz::private_key(&text, "passphrase"));
}

fn generate(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-C", ""]).args(arguments);
    let status = command.arg("-f").arg(&file).status();
    let status = status.expect("ssh-keygen is missing: install openssh-client");
    assert!(status.success(), "{arguments:?}");
    std::fs::read_to_string(file).unwrap()
}
