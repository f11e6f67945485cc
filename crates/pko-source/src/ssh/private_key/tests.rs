use std::{fs, process::Command};

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::*;

/// Runs `ssh-keygen` and returns the private and the public key.
fn generate(arguments: &[&str], passphrase: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-C", "", "-N", passphrase])
        .args(arguments);
    let status = command.arg("-f").arg(&file).status();
    let status = status.expect("ssh-keygen is missing: install openssh-client");
    assert!(status.success(), "{arguments:?}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    (read("key"), read("key.pub"))
}

fn key(text: &str, passphrase: Option<&str>) -> SshKey {
    SshKey {
        private_key: Redacted::new(text.to_owned()),
        passphrase: passphrase.map(|text| Redacted::new(text.to_owned())),
    }
}

fn public_of(text: &str, passphrase: Option<&str>) -> Result<String, PrivateKeyError> {
    let key = read(&key(text, passphrase))?;
    Ok(key.public_key().to_openssh().unwrap())
}

fn error_of(text: &str, passphrase: Option<&str>) -> PrivateKeyError {
    public_of(text, passphrase).unwrap_err()
}

/// The algorithms and formats that `ssh-keygen` writes.
const KINDS: [&[&str]; 11] = [
    &["-t", "ed25519"],
    &["-t", "ecdsa", "-b", "256"],
    &["-t", "ecdsa", "-b", "384"],
    &["-t", "ecdsa", "-b", "521"],
    &["-t", "rsa", "-b", "2048"],
    &["-t", "rsa", "-b", "2048", "-m", "PEM"],
    &["-t", "rsa", "-b", "2048", "-m", "PKCS8"],
    &["-t", "ecdsa", "-b", "256", "-m", "PEM"],
    &["-t", "ecdsa", "-b", "384", "-m", "PKCS8"],
    &["-t", "ecdsa", "-b", "521", "-m", "PEM"],
    &["-t", "ecdsa", "-b", "521", "-m", "PKCS8"],
];

#[test]
fn private_key_all_algorithms_and_formats_are_read() {
    for arguments in KINDS {
        let (private, public) = generate(arguments, "");
        let expected = Ok(public.trim().to_owned());
        assert_eq!(public_of(&private, None), expected, "{arguments:?}");
        // `GIT_PASSWORD` may be set for another reason.
        assert_eq!(
            public_of(&private, Some("unused")),
            expected,
            "{arguments:?}"
        );
    }
}

#[test]
fn private_key_encrypted_requires_passphrase() {
    for arguments in [
        &["-t", "ed25519"][..],
        &["-t", "ed25519", "-Z", "aes256-gcm@openssh.com"],
        &["-t", "ed25519", "-Z", "chacha20-poly1305@openssh.com"],
        &["-t", "ecdsa", "-b", "256", "-Z", "aes256-cbc"],
        &["-t", "rsa", "-b", "2048"],
        &["-t", "rsa", "-b", "2048", "-m", "PEM"],
        &["-t", "rsa", "-b", "2048", "-m", "PKCS8"],
        &["-t", "ecdsa", "-b", "256", "-m", "PKCS8"],
    ] {
        let (private, public) = generate(arguments, "correct horse");
        let opened = public_of(&private, Some("correct horse"));
        assert_eq!(opened, Ok(public.trim().to_owned()), "{arguments:?}");
        let wrong = error_of(&private, Some("battery staple"));
        assert_eq!(wrong, PrivateKeyError::WrongPassphrase, "{arguments:?}");
        assert_eq!(
            error_of(&private, None),
            PrivateKeyError::NoPassphrase,
            "{arguments:?}"
        );
        assert_eq!(
            error_of(&private, Some("")),
            PrivateKeyError::NoPassphrase,
            "{arguments:?}"
        );
    }
}

#[test]
fn private_key_legacy_encryption_suggests_conversion() {
    let (private, _) = generate(&["-t", "ecdsa", "-b", "256", "-m", "PEM"], "correct horse");
    let error = error_of(&private, Some("correct horse"));
    assert_eq!(
        error,
        PrivateKeyError::Encryption("EC in AES-128-CBC".to_owned())
    );
    assert!(error.to_string().contains("ssh-keygen -p"), "{error}");
    let (private, _) = generate(&["-t", "rsa", "-b", "2048", "-m", "PEM"], "correct horse");
    let other = private.replace("AES-128-CBC", "DES-EDE3-CBC");
    let error = error_of(&other, Some("correct horse"));
    assert_eq!(
        error,
        PrivateKeyError::Encryption("DES-EDE3-CBC".to_owned())
    );
}

#[test]
fn private_key_excessive_kdf_cost_is_rejected() {
    let (private, _) = generate(&["-t", "ed25519"], "correct horse");
    let section = PemSection::first(&private, &[]).unwrap_or_else(|error| panic!("{error:?}"));
    let mut body = section.body;
    // The name of the KDF, then its options: a salt of 16 bytes and the rounds.
    let name = body.windows(6).position(|part| part == b"bcrypt").unwrap();
    body[name + 30..name + 34].copy_from_slice(&2000_u32.to_be_bytes());
    let body = BASE64_STANDARD.encode(body);
    let private = private.split_inclusive('\n').next().unwrap().to_owned()
        + &body
        + "-----END OPENSSH PRIVATE KEY-----";
    let error = error_of(&private, Some("correct horse"));
    assert_eq!(
        error,
        PrivateKeyError::Encryption("2000 rounds of bcrypt".to_owned())
    );
}

/// The key of RFC 8410, section 10.3: Ed25519 in PKCS#8, without and with its public part.
#[test]
fn private_key_ed25519_pkcs8_is_read() {
    let short = "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC";
    let long = "MHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
oB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB
Z9w7lshQhqowtrbLDFw4rXAxZuE=";
    for body in [short, long] {
        let text = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
        let public = public_of(&text, None).unwrap();
        assert_eq!(
            public,
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBm/RAlphM3+hUG6wWfcO5bIUIaqMLa2ywxcOK1wMWbh"
        );
    }
}

#[test]
fn private_key_formatting_is_tolerated() {
    let (private, public) = generate(&["-t", "ed25519"], "");
    let expected = Ok(public.trim().to_owned());
    let indented: Vec<_> = private.lines().map(|line| format!("    {line}")).collect();
    for text in [
        private.replace('\n', "\r\n"),
        private.trim_end().to_owned(),
        format!("\n \t{private}\n\n  "),
        indented.join("\n"),
        private.replace('\n', "\\n"),
        private.replace('\n', " "),
        format!("\u{feff}{private}"),
        format!("# deploy key\n{private}"),
    ] {
        assert_eq!(public_of(&text, None), expected, "{text:?}");
    }
}

#[test]
fn private_key_error_names_what_was_pasted() {
    let (private, public) = generate(&["-t", "ed25519"], "");
    let cut: String = private.lines().take(3).collect::<Vec<_>>().join("\n");
    let section = |label: &str, body: &str| {
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    };
    let table = [
        (String::new(), PrivateKeyError::NoKey),
        ("hunter2".to_owned(), PrivateKeyError::NoKey),
        (
            "/home/me/.ssh/id_ed25519".to_owned(),
            PrivateKeyError::NoKey,
        ),
        (public, PrivateKeyError::PublicKey),
        (section("PUBLIC KEY", "AAAA"), PrivateKeyError::PublicKey),
        (
            "---- BEGIN SSH2 PUBLIC KEY ----\nAAAA".to_owned(),
            PrivateKeyError::PublicKey,
        ),
        (
            section("CERTIFICATE", "AAAA"),
            PrivateKeyError::NotPrivate("CERTIFICATE".to_owned()),
        ),
        (
            section("DSA PRIVATE KEY", "AAAA"),
            PrivateKeyError::Kind("DSA".to_owned()),
        ),
        (
            section("OPENSSH PRIVATE KEY", "AAAA"),
            PrivateKeyError::Damaged,
        ),
        (section("RSA PRIVATE KEY", "AAAA"), PrivateKeyError::Damaged),
        (section("EC PRIVATE KEY", "AAAA"), PrivateKeyError::Damaged),
        (section("PRIVATE KEY", "AAAA"), PrivateKeyError::Damaged),
        (
            section("ENCRYPTED PRIVATE KEY", "AAAA"),
            PrivateKeyError::Damaged,
        ),
        (section("PRIVATE KEY", "!!!"), PrivateKeyError::Damaged),
        (cut, PrivateKeyError::CutOff),
        (
            "PuTTY-User-Key-File-3: ssh-ed25519\n".to_owned(),
            PrivateKeyError::Putty,
        ),
        ("A".repeat(MAX_KEY_BYTES + 1), PrivateKeyError::TooLong),
    ];
    for (text, expected) in table {
        assert_eq!(error_of(&text, None), expected, "{text:?}");
    }
}

#[test]
fn private_key_errors_contain_no_secret() {
    let (private, _) = generate(&["-t", "ed25519"], "correct horse");
    let secret = private.lines().nth(2).unwrap();
    let key = key(&private, Some("canary"));
    let error = read(&key).unwrap_err();
    let shown = format!("{error} {error:?} {key:?}");
    assert!(
        !shown.contains(secret) && !shown.contains("canary"),
        "{shown}"
    );
}
