//! Signs with RSA keys by ring.
//!
//! The timing of russh's RSA depends on the key (RUSTSEC-2023-0071), and the server can measure it.
//! So russh only verifies the server's signatures, and signs with keys that ring does not support.

use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaEncoding, RsaKeyPair},
};
use russh::{
    SendError, Signer,
    keys::{HashAlg, PrivateKey, agent::AgentIdentity, pkcs8},
};

pub(super) struct RsaSigner(RsaKeyPair);

/// The cause does not matter: a key that cannot sign is rejected.
pub(super) enum SignError {
    Gone,
    Unsigned,
}

impl From<SendError> for SignError {
    fn from(_: SendError) -> Self {
        Self::Gone
    }
}

impl RsaSigner {
    /// Returns `None` unless the key is RSA with 2048 to 4096 bits.
    pub(super) fn new(key: &PrivateKey) -> Option<Self> {
        let key = pkcs8::encode_pkcs8(key).ok()?;
        RsaKeyPair::from_pkcs8(&key).ok().map(Self)
    }

    fn signature(&self, method: &'static dyn RsaEncoding, message: &[u8]) -> Option<Vec<u8>> {
        let mut signature = vec![0; self.0.public().modulus_len()];
        let random = SystemRandom::new();
        let signed = self.0.sign(method, &random, message, &mut signature);
        signed.ok().map(|()| signature)
    }
}

impl Signer for RsaSigner {
    type Error = SignError;

    /// Appends the signature in the format of RFC 4253.
    async fn auth_sign(
        &mut self,
        _: &AgentIdentity,
        hash: Option<HashAlg>,
        mut message: Vec<u8>,
    ) -> Result<Vec<u8>, SignError> {
        let (name, method): (&str, &'static dyn RsaEncoding) = match hash {
            Some(HashAlg::Sha256) => ("rsa-sha2-256", &RSA_PKCS1_SHA256),
            Some(HashAlg::Sha512) => ("rsa-sha2-512", &RSA_PKCS1_SHA512),
            _ => return Err(SignError::Unsigned),
        };
        let signature = self
            .signature(method, &message)
            .ok_or(SignError::Unsigned)?;
        let mut whole = Vec::new();
        append(&mut whole, name.as_bytes());
        append(&mut whole, &signature);
        append(&mut message, &whole);
        Ok(message)
    }
}

/// An SSH string: its length, then its bytes.
fn append(to: &mut Vec<u8>, part: &[u8]) {
    // A signature has some hundred bytes.
    let length = u32::try_from(part.len()).unwrap_or_default();
    to.extend(length.to_be_bytes());
    to.extend(part);
}
