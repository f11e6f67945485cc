//! The passphrase secrets provider, in Pulumi's format.
//!
//! Provider state is `v1:<salt>:v1:<nonce>:<ciphertext of "pulumi">`, values are
//! `v1:<nonce>:<ciphertext>`, all base64. The key is PBKDF2-SHA256 over the passphrase.

use std::{fmt, num::NonZeroU32};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    error::Unspecified,
    pbkdf2::{self, PBKDF2_HMAC_SHA256},
    rand::{SecureRandom as _, SystemRandom},
};

/// Rounds of PBKDF2 in Pulumi's `v1` format.
const ROUNDS: NonZeroU32 = NonZeroU32::new(1_000_000).unwrap();
/// The encrypted content of a provider state, which verifies the passphrase.
const CANARY: &str = "pulumi";
const SALT_BYTES: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The passphrase does not match the provider state.
    #[error("incorrect passphrase")]
    IncorrectPassphrase,
    /// No passphrase. The text is that of Pulumi's CLI.
    #[error(
        "passphrase must be set with PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE \
         environment variables"
    )]
    NoPassphrase,
    /// A value in another format.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// The value was encrypted by another provider, or tampered with.
    #[error("failed to decrypt a secret: it was not encrypted with this stack's passphrase")]
    Decrypt,
    #[error("failed to encrypt a secret")]
    Encrypt,
    /// The operating system gave no random bytes.
    #[error("failed to get random bytes")]
    Random,
}

/// A passphrase, hidden in `Debug`.
#[derive(Clone)]
pub struct Passphrase(String);

impl Passphrase {
    /// Reads it from the environment, or from the file that the environment names.
    pub fn from_environment() -> Result<Self, SecretsError> {
        if let Ok(text) = std::env::var("PULUMI_CONFIG_PASSPHRASE") {
            return Ok(Self(text));
        }
        let path = std::env::var("PULUMI_CONFIG_PASSPHRASE_FILE");
        let path = path.map_err(|_| SecretsError::NoPassphrase)?;
        let text = std::fs::read_to_string(path).map_err(|_| SecretsError::NoPassphrase)?;
        Ok(Self(text.trim().to_owned()))
    }

    /// Wraps the text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Passphrase")
    }
}

/// Encrypts and decrypts the secrets of one stack.
#[derive(Clone)]
pub struct Crypter {
    key: LessSafeKey,
    state: String,
}

impl Crypter {
    /// A new provider with a random salt.
    pub fn create(passphrase: &Passphrase) -> Result<Self, SecretsError> {
        let salt = random::<SALT_BYTES>()?;
        let mut crypter = Self {
            key: derive(passphrase, &salt)?,
            state: String::new(),
        };
        let canary = crypter.encrypt(CANARY)?;
        crypter.state = format!("v1:{}:{canary}", STANDARD.encode(salt));
        Ok(crypter)
    }

    /// Opens the provider of a provider state, and verifies the passphrase.
    pub fn open(state: &str, passphrase: &Passphrase) -> Result<Self, SecretsError> {
        let malformed = || SecretsError::Malformed("encryption salt");
        let rest = state.strip_prefix("v1:").ok_or_else(malformed)?;
        let (salt, canary) = rest.split_once(':').ok_or_else(malformed)?;
        let salt = STANDARD.decode(salt).map_err(|_| malformed())?;
        let crypter = Self {
            key: derive(passphrase, &salt)?,
            state: state.to_owned(),
        };
        match crypter.decrypt(canary) {
            Ok(text) if text == CANARY => Ok(crypter),
            Ok(_) | Err(SecretsError::Decrypt) => Err(SecretsError::IncorrectPassphrase),
            Err(error) => Err(error),
        }
    }

    /// The provider state.
    #[must_use]
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Seals one text.
    pub fn encrypt(&self, plaintext: &str) -> Result<String, SecretsError> {
        let nonce = random::<NONCE_LEN>()?;
        let mut sealed = plaintext.as_bytes().to_vec();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::empty(),
                &mut sealed,
            )
            .map_err(|Unspecified| SecretsError::Encrypt)?;
        Ok(format!(
            "v1:{}:{}",
            STANDARD.encode(nonce),
            STANDARD.encode(sealed)
        ))
    }

    /// Opens one text.
    pub fn decrypt(&self, sealed: &str) -> Result<String, SecretsError> {
        let malformed = || SecretsError::Malformed("ciphertext");
        let rest = sealed.strip_prefix("v1:").ok_or_else(malformed)?;
        let (nonce, sealed) = rest.split_once(':').ok_or_else(malformed)?;
        let nonce: [u8; NONCE_LEN] = STANDARD
            .decode(nonce)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(malformed)?;
        let mut sealed = STANDARD.decode(sealed).map_err(|_| malformed())?;
        let plain = self
            .key
            .open_in_place(
                Nonce::assume_unique_for_key(nonce),
                Aad::empty(),
                &mut sealed,
            )
            .map_err(|Unspecified| SecretsError::Decrypt)?;
        String::from_utf8(plain.to_vec()).map_err(|_| SecretsError::Decrypt)
    }
}

impl fmt::Debug for Crypter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Crypter")
    }
}

fn derive(passphrase: &Passphrase, salt: &[u8]) -> Result<LessSafeKey, SecretsError> {
    let mut bytes = [0; 32];
    pbkdf2::derive(
        PBKDF2_HMAC_SHA256,
        ROUNDS,
        salt,
        passphrase.0.as_bytes(),
        &mut bytes,
    );
    UnboundKey::new(&AES_256_GCM, &bytes)
        .map(LessSafeKey::new)
        .map_err(|Unspecified| SecretsError::Encrypt)
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], SecretsError> {
    let mut bytes = [0; LENGTH];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|Unspecified| SecretsError::Random)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by Pulumi CLI 3.259.0.
    const STATE: &str = "v1:j5Lf7DDoQkM=:v1:oRx28ckC2Whb/yh7:iGv5477gru9dUGtdLU44CdVzATs4Fg==";

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(text.to_owned())
    }

    #[test]
    fn crypter_decrypts_value_of_cli() {
        let crypter = Crypter::open(STATE, &passphrase("correct-horse")).unwrap();
        for (sealed, plain) in [
            ("v1:7a5ujFM+mjwuOh/N:Y/rOpX5o202jxVDIbNNy6Do7y90V", "t0ken"),
            (
                "v1:9yPMgqHXaZQwui4f:hzQqm19OwCKSMpBzCEsemaz7/kNX1s8u",
                "\"s3cr3t\"",
            ),
            (
                "v1:u3uWD9YpxufTUhdj:eJ1eCZ76yCWcqxQ1OlWFz626XC5ewWjwJq7Dc0R5qqs=",
                "value from stdin",
            ),
        ] {
            assert_eq!(crypter.decrypt(sealed).unwrap(), plain);
        }
        assert!(matches!(
            crypter.decrypt("v1:x"),
            Err(SecretsError::Malformed(_))
        ));
    }

    #[test]
    fn crypter_rejects_wrong_passphrase() {
        let error = Crypter::open(STATE, &passphrase("wrong")).unwrap_err();
        assert!(
            matches!(error, SecretsError::IncorrectPassphrase),
            "{error:?}"
        );
    }

    #[test]
    fn crypter_round_trip() {
        let created = Crypter::create(&passphrase("p")).unwrap();
        let sealed = created.encrypt("grüße").unwrap();
        let opened = Crypter::open(created.state(), &passphrase("p")).unwrap();
        assert_eq!(opened.decrypt(&sealed).unwrap(), "grüße");
        assert_ne!(created.encrypt("grüße").unwrap(), sealed);
    }
}
