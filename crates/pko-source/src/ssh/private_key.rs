//! Reads the user's private key. Does no I/O. Messages never quote a key.
//!
//! The cost of decrypting a key is a parameter of the key. The operator reads keys of all tenants,
//! so it rejects excessive costs.

use std::sync::Arc;

use pkcs8::{EncryptedPrivateKeyInfoRef, pkcs5::EncryptionScheme};
use pko_auth::Redacted;
use russh::keys::{
    self, Algorithm, Encryption, PrivateKey,
    ssh_key::{self, Kdf},
};

use crate::git::SshKey;
use crate::pem::{PemError, PemSection};

/// An RSA key of 16384 bits has 13,000.
const MAX_KEY_BYTES: usize = 64 * 1024;
/// `ssh-keygen` writes 16 or 24.
const MAX_BCRYPT_ROUNDS: u32 = 1024;
/// openssl writes 2048. Recommended today is 600,000.
const MAX_PBKDF2_ITERATIONS: u32 = 5_000_000;
/// The legacy PEM cipher that `ssh-keygen -m PEM` writes.
const LEGACY_CIPHER: &str = "AES-128-CBC";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrivateKeyError {
    #[error(
        "the SSH private key is neither in OpenSSH format nor PEM; it must begin with -----BEGIN …PRIVATE KEY-----"
    )]
    NoKey,
    #[error("the SSH private key is truncated; its -----END …----- line is missing")]
    CutOff,
    #[error("the SSH private key is damaged")]
    Damaged,
    #[error("the SSH private key has more than {MAX_KEY_BYTES} bytes")]
    TooLong,
    #[error("the SSH private key is a public key; use the file without .pub")]
    PublicKey,
    #[error("the SSH private key is a {0}, not a private key")]
    NotPrivate(String),
    #[error(
        "the SSH private key is in PuTTY format; convert it with `puttygen key.ppk -O private-openssh`"
    )]
    Putty,
    #[error("SSH keys of type {0} are not supported; use Ed25519, ECDSA or RSA")]
    Kind(String),
    #[error("the SSH private key is encrypted and has no passphrase; set the passphrase")]
    NoPassphrase,
    #[error("the passphrase does not open the SSH private key")]
    WrongPassphrase,
    #[error(
        "the SSH private key is encrypted in an unsupported way ({0}); convert it with `ssh-keygen -p -f key`"
    )]
    Encryption(String),
}

/// Reads a key and decrypts it if necessary. A passphrase for an unencrypted key is ignored.
pub(super) fn read(key: &SshKey) -> Result<Arc<PrivateKey>, PrivateKeyError> {
    let text = key.private_key.expose().trim_start_matches('\u{feff}');
    let passphrase = key.passphrase.as_ref().map(Redacted::expose);
    let passphrase = passphrase.filter(|text| !text.is_empty());
    if text.len() > MAX_KEY_BYTES {
        return Err(PrivateKeyError::TooLong);
    }
    let section = match PemSection::first(text, &["EC PARAMETERS"]) {
        Ok(section) => section,
        Err(PemError::NoSection) => return Err(diagnose(text)),
        Err(PemError::NoEnd) => return Err(PrivateKeyError::CutOff),
        Err(PemError::Damaged) => return Err(PrivateKeyError::Damaged),
    };
    let key = match section.label.as_str() {
        "OPENSSH PRIVATE KEY" => decode_openssh(&section.body, passphrase)?,
        "RSA PRIVATE KEY" => decode_pkcs1(&section, passphrase)?,
        "EC PRIVATE KEY" => decode_sec1(&section)?,
        "PRIVATE KEY" => decode_body("PRIVATE KEY", &section.body)?,
        "ENCRYPTED PRIVATE KEY" => decrypt_pkcs8(&section.body, passphrase)?,
        "DSA PRIVATE KEY" => return Err(PrivateKeyError::Kind("DSA".to_owned())),
        label if label.ends_with("PUBLIC KEY") => return Err(PrivateKeyError::PublicKey),
        label => {
            return Err(PrivateKeyError::NotPrivate(
                label.chars().take(40).collect(),
            ));
        }
    };
    check_algorithm(&key)?;
    Ok(Arc::new(key))
}

fn diagnose(text: &str) -> PrivateKeyError {
    let text = text.trim_start();
    let public = [
        "ssh-",
        "ecdsa-sha2-",
        "sk-ssh-",
        "sk-ecdsa-",
        "---- BEGIN SSH2 PUBLIC",
    ];
    if text.starts_with("PuTTY-User-Key-File-") {
        PrivateKeyError::Putty
    } else if public.iter().any(|start| text.starts_with(start)) {
        PrivateKeyError::PublicKey
    } else {
        PrivateKeyError::NoKey
    }
}

fn decode_openssh(body: &[u8], passphrase: Option<&str>) -> Result<PrivateKey, PrivateKeyError> {
    let key = PrivateKey::from_bytes(body).map_err(|_| PrivateKeyError::Damaged)?;
    if !key.is_encrypted() {
        return Ok(key);
    }
    if let Kdf::Bcrypt { rounds, .. } = key.kdf()
        && *rounds > MAX_BCRYPT_ROUNDS
    {
        return Err(PrivateKeyError::Encryption(format!(
            "{rounds} rounds of bcrypt"
        )));
    }
    let passphrase = passphrase.ok_or(PrivateKeyError::NoPassphrase)?;
    match key.decrypt(passphrase) {
        Ok(key) => Ok(key),
        Err(ssh_key::Error::AlgorithmUnsupported { .. } | ssh_key::Error::AlgorithmUnknown) => {
            Err(PrivateKeyError::Encryption(key.cipher().to_string()))
        }
        Err(_) => Err(PrivateKeyError::WrongPassphrase),
    }
}

fn decode_pkcs1(
    section: &PemSection,
    passphrase: Option<&str>,
) -> Result<PrivateKey, PrivateKeyError> {
    let Some(encryption) = section.header("DEK-Info") else {
        return decode_body("RSA PRIVATE KEY", &section.body);
    };
    let (cipher, start) = encryption.split_once(',').ok_or(PrivateKeyError::Damaged)?;
    if cipher != LEGACY_CIPHER {
        return Err(PrivateKeyError::Encryption(
            cipher.chars().take(40).collect(),
        ));
    }
    let mut initial_vector = [0; 16];
    hex::decode_to_slice(start.trim(), &mut initial_vector)
        .map_err(|_| PrivateKeyError::Damaged)?;
    let passphrase = passphrase.ok_or(PrivateKeyError::NoPassphrase)?;
    let opened = keys::decode_pkcs5(
        &section.body,
        Some(passphrase),
        Encryption::Aes128Cbc(initial_vector),
    );
    opened.map_err(|_| PrivateKeyError::WrongPassphrase)
}

fn decode_sec1(section: &PemSection) -> Result<PrivateKey, PrivateKeyError> {
    match section.header("DEK-Info") {
        None => decode_body("EC PRIVATE KEY", &section.body),
        Some(encryption) => {
            let cipher = encryption.split(',').next().unwrap_or_default();
            let cipher: String = cipher.chars().take(40).collect();
            Err(PrivateKeyError::Encryption(format!("EC in {cipher}")))
        }
    }
}

fn decrypt_pkcs8(body: &[u8], passphrase: Option<&str>) -> Result<PrivateKey, PrivateKeyError> {
    let info = EncryptedPrivateKeyInfoRef::try_from(body).map_err(|_| PrivateKeyError::Damaged)?;
    let EncryptionScheme::Pbes2(parameters) = &info.encryption_algorithm else {
        return Err(PrivateKeyError::Encryption("PBES1".to_owned()));
    };
    match parameters.kdf.pbkdf2() {
        Some(kdf) if kdf.iteration_count <= MAX_PBKDF2_ITERATIONS => {}
        Some(kdf) => {
            let text = format!("{} iterations of PBKDF2", kdf.iteration_count);
            return Err(PrivateKeyError::Encryption(text));
        }
        None => return Err(PrivateKeyError::Encryption("scrypt".to_owned())),
    }
    let passphrase = passphrase.ok_or(PrivateKeyError::NoPassphrase)?;
    let opened = info.decrypt(passphrase);
    let opened = opened.map_err(|_| PrivateKeyError::WrongPassphrase)?;
    decode_body("PRIVATE KEY", opened.as_bytes())
}

/// Encodes the body again, because russh accepts only well-formed PEM.
fn decode_body(label: &str, body: &[u8]) -> Result<PrivateKey, PrivateKeyError> {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let body = BASE64_STANDARD.encode(body);
    let text = format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
    keys::decode_secret_key(&text, None).map_err(|error| match error {
        keys::Error::UnknownAlgorithm(kind) => PrivateKeyError::Kind(kind.to_string()),
        _ => PrivateKeyError::Damaged,
    })
}

fn check_algorithm(key: &PrivateKey) -> Result<(), PrivateKeyError> {
    match key.algorithm() {
        Algorithm::Ed25519 | Algorithm::Ecdsa { .. } | Algorithm::Rsa { .. } => Ok(()),
        other => Err(PrivateKeyError::Kind(other.to_string())),
    }
}

#[cfg(test)]
mod tests;
