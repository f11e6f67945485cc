//! The manager's key pair, and its PEM encoding.

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use ring::{
    digest, hmac,
    rand::SystemRandom,
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer, pem::PemObject as _};

use super::mac::MacKey;

const PUBLIC_KEY_BYTES: usize = 32;
/// The DER before the 32 bytes of an Ed25519 key in its `SubjectPublicKeyInfo` (RFC 8410).
const PUBLIC_KEY_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// Enough to distinguish the few keys of one manager.
const ID_LENGTH: usize = 16;
const PEM_WIDTH: usize = 64;

/// A key that cannot be used. The errors do not quote the text, which may be a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("failed to generate a key: the system provides no random numbers")]
    Random,
    #[error("failed to read a private key: the text has no PEM section PRIVATE KEY")]
    NoPrivateKey,
    /// No `PUBLIC KEY` section, or a broken one.
    #[error("failed to read a public key: the text has no PEM section PUBLIC KEY")]
    NoPublicKey,
    #[error("failed to read a key: it is not an Ed25519 key")]
    NotEd25519,
}

/// The private key with which a manager signs. It cannot be printed:
///
/// ```compile_fail,E0277
/// let key = pko_auth::token::SigningKey::generate().unwrap();
/// println!("{key:?}");
/// ```
pub struct SigningKey {
    pair: Ed25519KeyPair,
    document: PrivatePkcs8KeyDer<'static>,
}

impl SigningKey {
    pub fn generate() -> Result<Self, KeyError> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let document = document.map_err(|_| KeyError::Random)?;
        Self::from_document(document.as_ref().to_vec().into())
    }

    /// Reads the output of [`SigningKey::to_pem`], or an Ed25519 key of another program.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let document = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes());
        Self::from_document(document.map_err(|_| KeyError::NoPrivateKey)?)
    }

    fn from_document(document: PrivatePkcs8KeyDer<'static>) -> Result<Self, KeyError> {
        // Other programs write keys without their public part, which is then not checked.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(document.secret_pkcs8_der());
        let pair = pair.map_err(|_| KeyError::NotEd25519)?;
        Ok(Self { pair, document })
    }

    /// The private key as text, for the file or Secret that holds it.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem("PRIVATE KEY", self.document.secret_pkcs8_der())
    }

    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        let mut key = [0; PUBLIC_KEY_BYTES];
        key.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey(key)
    }

    /// A key for another purpose than tokens. It reveals neither this key nor other derived ones.
    #[must_use]
    pub fn derive_mac_key(&self, purpose: &str) -> MacKey {
        let own = hmac::Key::new(hmac::HMAC_SHA256, self.document.secret_pkcs8_der());
        MacKey::new(hmac::sign(&own, purpose.as_bytes()).as_ref())
    }

    pub(super) fn signature(&self, message: &[u8]) -> impl AsRef<[u8]> + use<> {
        self.pair.sign(message)
    }
}

/// The public key by which an agent verifies a manager's tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; PUBLIC_KEY_BYTES]);

impl PublicKey {
    /// Reads all keys of a text, at least one. Several are in use while a manager's key is rotated.
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, KeyError> {
        let keys = SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes())
            .map(|document| Self::from_document(&document.map_err(|_| KeyError::NoPublicKey)?))
            .collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(KeyError::NoPublicKey);
        }
        Ok(keys)
    }

    fn from_document(document: &[u8]) -> Result<Self, KeyError> {
        let key = document.strip_prefix(&PUBLIC_KEY_PREFIX);
        let key = key.and_then(|key| key.try_into().ok());
        key.map(Self).ok_or(KeyError::NotEd25519)
    }

    #[must_use]
    pub fn to_pem(&self) -> String {
        pem(
            "PUBLIC KEY",
            &[PUBLIC_KEY_PREFIX.as_slice(), &self.0].concat(),
        )
    }

    /// A short fingerprint, for logs.
    #[must_use]
    pub fn id(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.0);
        let mut name = BASE64_URL_SAFE_NO_PAD.encode(digest);
        name.truncate(ID_LENGTH);
        name
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(message, signature).is_ok()
    }
}

fn pem(label: &str, document: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(document);
    let mut body = String::new();
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(PEM_WIDTH));
        body.push_str(line);
        body.push('\n');
        rest = after;
    }
    format!("-----BEGIN {label}-----\n{body}-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key pair of RFC 8410, section 10, in the form that openssl writes.
    const FOREIGN_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
    const FOREIGN_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
";

    #[test]
    fn key_survives_pem_round_trip() {
        let key = SigningKey::generate().unwrap();
        let again = SigningKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(again.to_pem(), key.to_pem());
        assert_eq!(again.public_key(), key.public_key());
        let public = PublicKey::all_from_pem(&key.public_key().to_pem());
        assert_eq!(public, Ok(vec![key.public_key()]));
    }

    #[test]
    fn key_of_openssl_is_read() {
        let key = SigningKey::from_pem(FOREIGN_PRIVATE).unwrap();
        assert_eq!(key.public_key().to_pem(), FOREIGN_PUBLIC);
        assert_eq!(key.to_pem(), FOREIGN_PRIVATE);
    }

    #[test]
    fn pem_lines_have_at_most_64_columns() {
        let text = SigningKey::generate().unwrap().to_pem();
        assert!(text.lines().all(|line| line.len() <= PEM_WIDTH), "{text}");
        assert!(text.ends_with("-----END PRIVATE KEY-----\n"));
    }

    #[test]
    fn public_keys_of_one_text_are_all_read() {
        let keys = [(); 2].map(|()| SigningKey::generate().unwrap().public_key());
        let text = format!("# old\n{}\n# new\n{}", keys[0].to_pem(), keys[1].to_pem());
        assert_eq!(PublicKey::all_from_pem(&text), Ok(keys.to_vec()));
        assert_ne!(keys[0].id(), keys[1].id());
        assert_eq!(keys[0].id().len(), 16);
    }

    #[test]
    fn invalid_key_is_rejected() {
        let private = SigningKey::generate().unwrap().to_pem();
        let elliptic = pem("PUBLIC KEY", &[0x30; 91]);
        let table = [
            ("", KeyError::NoPublicKey),
            ("not PEM", KeyError::NoPublicKey),
            (&private, KeyError::NoPublicKey),
            (&elliptic, KeyError::NotEd25519),
            (
                "-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n",
                KeyError::NoPublicKey,
            ),
        ];
        for (text, error) in table {
            assert_eq!(PublicKey::all_from_pem(text), Err(error), "{text}");
        }
        let error = |text: &str| SigningKey::from_pem(text).err();
        assert_eq!(error(FOREIGN_PUBLIC), Some(KeyError::NoPrivateKey));
        let broken = pem("PRIVATE KEY", &[0; 48]);
        assert_eq!(error(&broken), Some(KeyError::NotEd25519));
    }

    #[test]
    fn key_error_does_not_quote_key() {
        let text = SigningKey::generate().unwrap().to_pem();
        let secret = text.lines().nth(1).unwrap();
        let error = PublicKey::all_from_pem(&text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(secret));
    }
}
