//! The manager's key pair, and its texts.

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
/// What stands before the 32 bytes of an Ed25519 key in its `SubjectPublicKeyInfo` (RFC 8410).
const PUBLIC_KEY_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// Enough to tell the few keys of one manager apart.
const ID_LENGTH: usize = 16;
/// How wide a line of PEM is.
const PEM_WIDTH: usize = 64;

/// A key that can't be used. What is wrong with a text is not quoted: it may be a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The system gives no random numbers.
    #[error("failed to make a key: the system gives no random numbers")]
    Random,
    /// There is no `PRIVATE KEY` in the text.
    #[error("failed to read a private key: the text has no PEM section PRIVATE KEY")]
    NoPrivateKey,
    /// There is no `PUBLIC KEY` in the text, or a broken one.
    #[error("failed to read a public key: the text has no PEM section PUBLIC KEY")]
    NoPublicKey,
    /// A key of another kind.
    #[error("failed to read a key: it is not an Ed25519 key")]
    NotEd25519,
}

/// What a manager signs with. It can't be printed:
///
/// ```compile_fail,E0277
/// let key = pko_proto::token::SigningKey::generate().unwrap();
/// println!("{key:?}");
/// ```
pub struct SigningKey {
    pair: Ed25519KeyPair,
    document: PrivatePkcs8KeyDer<'static>,
}

impl SigningKey {
    /// Makes a new key.
    pub fn generate() -> Result<Self, KeyError> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let document = document.map_err(|_| KeyError::Random)?;
        Self::from_document(document.as_ref().to_vec().into())
    }

    /// Reads what [`SigningKey::to_pem`] wrote, or an Ed25519 key of another program.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let document = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes());
        Self::from_document(document.map_err(|_| KeyError::NoPrivateKey)?)
    }

    fn from_document(document: PrivatePkcs8KeyDer<'static>) -> Result<Self, KeyError> {
        // Other programs write keys without their public part, which is what goes unchecked then.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(document.secret_pkcs8_der());
        let pair = pair.map_err(|_| KeyError::NotEd25519)?;
        Ok(Self { pair, document })
    }

    /// The private key as text, for the one file or Secret that holds it.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem("PRIVATE KEY", self.document.secret_pkcs8_der())
    }

    /// The public part, for agents.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        let mut key = [0; PUBLIC_KEY_BYTES];
        key.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey(key)
    }

    /// A key for something else than tokens. Whoever knows one of them knows nothing of the others, nor of this one.
    #[must_use]
    pub fn derived(&self, purpose: &str) -> MacKey {
        let own = hmac::Key::new(hmac::HMAC_SHA256, self.document.secret_pkcs8_der());
        MacKey::new(hmac::sign(&own, purpose.as_bytes()).as_ref())
    }

    pub(super) fn signature(&self, message: &[u8]) -> impl AsRef<[u8]> + use<> {
        self.pair.sign(message)
    }
}

/// What an agent knows a manager by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; PUBLIC_KEY_BYTES]);

impl PublicKey {
    /// Reads all keys of a text, of which there must be at least one. Several are for the time in which a manager
    /// changes from one key to another.
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

    /// The key as text.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem(
            "PUBLIC KEY",
            &[PUBLIC_KEY_PREFIX.as_slice(), &self.0].concat(),
        )
    }

    /// A short name of the key, for records and logs.
    #[must_use]
    pub fn id(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.0);
        let mut name = BASE64_URL_SAFE_NO_PAD.encode(digest);
        name.truncate(ID_LENGTH);
        name
    }

    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
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
    fn a_key_is_read_as_it_was_written() {
        let key = SigningKey::generate().unwrap();
        let again = SigningKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(again.to_pem(), key.to_pem());
        assert_eq!(again.public_key(), key.public_key());
        let public = PublicKey::all_from_pem(&key.public_key().to_pem());
        assert_eq!(public, Ok(vec![key.public_key()]));
    }

    #[test]
    fn keys_of_another_program_are_read() {
        let key = SigningKey::from_pem(FOREIGN_PRIVATE).unwrap();
        assert_eq!(key.public_key().to_pem(), FOREIGN_PUBLIC);
        assert_eq!(key.to_pem(), FOREIGN_PRIVATE);
    }

    #[test]
    fn lines_of_pem_are_short() {
        let text = SigningKey::generate().unwrap().to_pem();
        assert!(text.lines().all(|line| line.len() <= PEM_WIDTH), "{text}");
        assert!(text.ends_with("-----END PRIVATE KEY-----\n"));
    }

    #[test]
    fn several_public_keys_may_stand_in_one_text() {
        let keys = [(); 2].map(|()| SigningKey::generate().unwrap().public_key());
        let text = format!("# old\n{}\n# new\n{}", keys[0].to_pem(), keys[1].to_pem());
        assert_eq!(PublicKey::all_from_pem(&text), Ok(keys.to_vec()));
        assert_ne!(keys[0].id(), keys[1].id());
        assert_eq!(keys[0].id().len(), 16);
    }

    #[test]
    fn what_is_no_key_is_refused() {
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
        let refused = |text: &str| SigningKey::from_pem(text).err();
        assert_eq!(refused(FOREIGN_PUBLIC), Some(KeyError::NoPrivateKey));
        let broken = pem("PRIVATE KEY", &[0; 48]);
        assert_eq!(refused(&broken), Some(KeyError::NotEd25519));
    }

    #[test]
    fn an_error_does_not_quote_the_key() {
        let text = SigningKey::generate().unwrap().to_pem();
        let secret = text.lines().nth(1).unwrap();
        let error = PublicKey::all_from_pem(&text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(secret));
    }
}
