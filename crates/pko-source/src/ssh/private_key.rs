//! The user's private key: what people paste, and what opens it. Does no I/O. Messages never quote a key.
//!
//! Opening an encrypted key takes as long as the key itself says, so those that ask for more than usual are refused:
//! the operator opens keys of all tenants.

use std::sync::Arc;

use pkcs8::{EncryptedPrivateKeyInfoRef, pkcs5::EncryptionScheme};
use russh::keys::{
    self, Algorithm, Encryption, PrivateKey,
    ssh_key::{self, Kdf},
};

use crate::git::SshKey;
use crate::pem::{PemError, Section};

/// The longest key that anybody uses, RSA with 16384 bits, has 13,000.
const LONGEST_KEY: usize = 64 * 1024;
/// `ssh-keygen` writes 16 or 24; people who want more ask for some hundreds.
const MOST_BCRYPT_ROUNDS: u32 = 1024;
/// openssl writes 2048; what is recommended today is 600,000.
const MOST_PBKDF2_ITERATIONS: u32 = 5_000_000;
/// How openssl once encrypted keys; the one cipher of it that `ssh-keygen -m PEM` writes.
const OLD_CIPHER: &str = "AES-128-CBC";

/// A private key that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a key at all.
    #[error(
        "the SSH private key is not in OpenSSH's format or PEM: it must begin with -----BEGIN …PRIVATE KEY-----"
    )]
    NoKey,
    /// The end is missing.
    #[error("the SSH private key is cut off: its -----END …----- line is missing")]
    CutOff,
    /// It does not decode.
    #[error("the SSH private key is damaged")]
    Damaged,
    /// More than any key has.
    #[error("the SSH private key has more than {LONGEST_KEY} bytes")]
    TooLong,
    /// The other half.
    #[error("the SSH private key is a public key: give the other file, the one without .pub")]
    PublicKey,
    /// Something else in PEM.
    #[error("the SSH private key is a {0}, not a private key")]
    NotPrivate(String),
    /// The format of another program.
    #[error(
        "the SSH private key is in PuTTY's format: convert it with `puttygen key.ppk -O private-openssh`"
    )]
    Putty,
    /// A kind of key that we do not sign with.
    #[error("SSH keys of the kind {0} are not supported: use Ed25519, ECDSA or RSA")]
    Kind(String),
    /// Nobody said how to open it.
    #[error("the SSH private key is encrypted, and there is no passphrase for it")]
    NoPassphrase,
    /// It does not open.
    #[error("the passphrase does not open the SSH private key")]
    WrongPassphrase,
    /// An encryption that is too old, or that takes too long to open.
    #[error(
        "the SSH private key is encrypted in a way that is not supported ({0}): write it anew with `ssh-keygen -p -f key`"
    )]
    Encryption(String),
}

/// Reads the key, opening it if it is encrypted. A passphrase for a key that needs none is ignored.
pub(super) fn read(key: &SshKey) -> Result<Arc<PrivateKey>, KeyError> {
    let text = key.private_key.expose().trim_start_matches('\u{feff}');
    let passphrase = key.passphrase.as_ref().map(|text| text.expose().as_str());
    let passphrase = passphrase.filter(|text| !text.is_empty());
    if text.len() > LONGEST_KEY {
        return Err(KeyError::TooLong);
    }
    let section = match Section::first(text, &["EC PARAMETERS"]) {
        Ok(section) => section,
        Err(PemError::NoSection) => return Err(what_else(text)),
        Err(PemError::NoEnd) => return Err(KeyError::CutOff),
        Err(PemError::Damaged) => return Err(KeyError::Damaged),
    };
    let key = match section.label.as_str() {
        "OPENSSH PRIVATE KEY" => openssh(&section.body, passphrase)?,
        "RSA PRIVATE KEY" => rsa(&section, passphrase)?,
        "EC PRIVATE KEY" => curve(&section)?,
        "PRIVATE KEY" => plain("PRIVATE KEY", &section.body)?,
        "ENCRYPTED PRIVATE KEY" => encrypted(&section.body, passphrase)?,
        "DSA PRIVATE KEY" => return Err(KeyError::Kind("DSA".to_owned())),
        label if label.ends_with("PUBLIC KEY") => return Err(KeyError::PublicKey),
        label => return Err(KeyError::NotPrivate(label.chars().take(40).collect())),
    };
    check_kind(&key)?;
    Ok(Arc::new(key))
}

fn what_else(text: &str) -> KeyError {
    let text = text.trim_start();
    let public = [
        "ssh-",
        "ecdsa-sha2-",
        "sk-ssh-",
        "sk-ecdsa-",
        "---- BEGIN SSH2 PUBLIC",
    ];
    if text.starts_with("PuTTY-User-Key-File-") {
        KeyError::Putty
    } else if public.iter().any(|start| text.starts_with(start)) {
        KeyError::PublicKey
    } else {
        KeyError::NoKey
    }
}

fn openssh(body: &[u8], passphrase: Option<&str>) -> Result<PrivateKey, KeyError> {
    let key = PrivateKey::from_bytes(body).map_err(|_| KeyError::Damaged)?;
    if !key.is_encrypted() {
        return Ok(key);
    }
    if let Kdf::Bcrypt { rounds, .. } = key.kdf()
        && *rounds > MOST_BCRYPT_ROUNDS
    {
        return Err(KeyError::Encryption(format!("{rounds} rounds of bcrypt")));
    }
    let passphrase = passphrase.ok_or(KeyError::NoPassphrase)?;
    match key.decrypt(passphrase) {
        Ok(key) => Ok(key),
        Err(ssh_key::Error::AlgorithmUnsupported { .. } | ssh_key::Error::AlgorithmUnknown) => {
            Err(KeyError::Encryption(key.cipher().to_string()))
        }
        Err(_) => Err(KeyError::WrongPassphrase),
    }
}

fn rsa(section: &Section, passphrase: Option<&str>) -> Result<PrivateKey, KeyError> {
    let Some(encryption) = section.header("DEK-Info") else {
        return plain("RSA PRIVATE KEY", &section.body);
    };
    let (cipher, start) = encryption.split_once(',').ok_or(KeyError::Damaged)?;
    if cipher != OLD_CIPHER {
        return Err(KeyError::Encryption(cipher.chars().take(40).collect()));
    }
    let start = bytes_of_hex(start).ok_or(KeyError::Damaged)?;
    let passphrase = passphrase.ok_or(KeyError::NoPassphrase)?;
    let opened = keys::decode_pkcs5(
        &section.body,
        Some(passphrase),
        Encryption::Aes128Cbc(start),
    );
    opened.map_err(|_| KeyError::WrongPassphrase)
}

fn curve(section: &Section) -> Result<PrivateKey, KeyError> {
    match section.header("DEK-Info") {
        None => plain("EC PRIVATE KEY", &section.body),
        Some(encryption) => {
            let cipher = encryption.split(',').next().unwrap_or_default();
            let cipher: String = cipher.chars().take(40).collect();
            Err(KeyError::Encryption(format!("EC in {cipher}")))
        }
    }
}

fn encrypted(body: &[u8], passphrase: Option<&str>) -> Result<PrivateKey, KeyError> {
    let info = EncryptedPrivateKeyInfoRef::try_from(body).map_err(|_| KeyError::Damaged)?;
    let EncryptionScheme::Pbes2(parameters) = &info.encryption_algorithm else {
        return Err(KeyError::Encryption("PBES1".to_owned()));
    };
    match parameters.kdf.pbkdf2() {
        Some(kdf) if kdf.iteration_count <= MOST_PBKDF2_ITERATIONS => {}
        Some(kdf) => {
            let text = format!("{} iterations of PBKDF2", kdf.iteration_count);
            return Err(KeyError::Encryption(text));
        }
        None => return Err(KeyError::Encryption("scrypt".to_owned())),
    }
    let passphrase = passphrase.ok_or(KeyError::NoPassphrase)?;
    let opened = info.decrypt(passphrase);
    let opened = opened.map_err(|_| KeyError::WrongPassphrase)?;
    plain("PRIVATE KEY", opened.as_bytes())
}

/// Written anew, so that the library sees the one spelling that it reads.
fn plain(label: &str, body: &[u8]) -> Result<PrivateKey, KeyError> {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let body = BASE64_STANDARD.encode(body);
    let text = format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
    keys::decode_secret_key(&text, None).map_err(|error| match error {
        keys::Error::UnknownAlgorithm(kind) => KeyError::Kind(kind.to_string()),
        _ => KeyError::Damaged,
    })
}

fn check_kind(key: &PrivateKey) -> Result<(), KeyError> {
    match key.algorithm() {
        Algorithm::Ed25519 | Algorithm::Ecdsa { .. } | Algorithm::Rsa { .. } => Ok(()),
        other => Err(KeyError::Kind(other.to_string())),
    }
}

fn bytes_of_hex(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let digits = text.trim().as_bytes();
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
#[path = "private_key_tests.rs"]
mod tests;
