//! Tokens with which a manager shows an agent who it is: signed by the manager, for one workspace and a few minutes.
//! Nothing here does I/O: time is an argument, and keys are texts.
//!
//! A token is a JSON Web Token with the one algorithm `EdDSA` (Ed25519). There is nothing to negotiate: another header
//! than ours is refused before anything in the token is believed. The usual library for such tokens does not work on
//! ring, which is the only cryptography here, and the part of the format that we need is this small.
//!
//! # Guarantees
//! A token is believed only if one of the known keys signed it, it is for one of the wanted audiences, it is valid now
//! (clocks may differ by [`CLOCK_SKEW`]) and it was never meant to be valid for longer than [`LONGEST_LIFETIME`].

mod key;
mod mac;

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use key::{KeyError, PublicKey, SigningKey};
pub use mac::MacKey;

/// Who signs: by it an agent knows which tokens are ours to judge.
pub const ISSUER: &str = "pulumi-kubernetes-operator";
/// How long a token of a manager is valid.
pub const LIFETIME: Duration = Duration::from_mins(5);
/// A token that says that it is valid for longer is not believed at all.
pub const LONGEST_LIFETIME: Duration = Duration::from_hours(1);
/// By how much the clocks of a manager and an agent may differ.
pub const CLOCK_SKEW: Duration = Duration::from_secs(30);

/// `{"alg":"EdDSA","typ":"JWT"}`
const HEADER: &str = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9";
/// Ours have about 300; what is longer is not even decoded.
const LONGEST_TOKEN: usize = 4096;

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who signed it.
    pub iss: String,
    /// The workspace that it is for; see [`audience`].
    pub aud: String,
    /// When it was signed, in seconds.
    pub iat: i64,
    /// When it ends, in seconds.
    pub exp: i64,
}

impl Claims {
    /// What a manager says to a workspace now.
    #[must_use]
    pub fn new(audience: &str, now: Timestamp) -> Self {
        Self {
            iss: ISSUER.to_owned(),
            aud: audience.to_owned(),
            iat: now.as_second(),
            exp: now.as_second().saturating_add(seconds(LIFETIME)),
        }
    }

    fn judge(&self, audiences: &[String], now: Timestamp) -> Result<(), TokenError> {
        if self.iss != ISSUER {
            return Err(TokenError::Issuer);
        }
        if !audiences.contains(&self.aud) {
            return Err(TokenError::Audience);
        }
        let lifetime = self.exp.checked_sub(self.iat).unwrap_or(i64::MAX);
        if !(1..=seconds(LONGEST_LIFETIME)).contains(&lifetime) {
            return Err(TokenError::Lifetime);
        }
        let (now, skew) = (now.as_second(), seconds(CLOCK_SKEW));
        if self.iat > now.saturating_add(skew) {
            return Err(TokenError::NotYetValid);
        }
        if self.exp <= now.saturating_sub(skew) {
            return Err(TokenError::Expired);
        }
        Ok(())
    }
}

/// Why a token is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is none.
    #[error("the token is malformed")]
    Malformed,
    /// Its header is not ours.
    #[error("the token is not signed with Ed25519")]
    Algorithm,
    /// None of the known keys signed it, or it was changed since.
    #[error("the token is not signed by a known key")]
    Signature,
    /// Somebody else's.
    #[error("the token has another issuer")]
    Issuer,
    /// For another workspace.
    #[error("the token is for another workspace")]
    Audience,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// It was signed in the future.
    #[error("the token is not valid yet: do the clocks differ?")]
    NotYetValid,
    /// Its end is before its beginning, or far after it.
    #[error("the token's lifetime is not acceptable")]
    Lifetime,
}

/// The audience of a workspace's tokens, as upstream names it.
#[must_use]
pub fn audience(namespace: &str, workspace: &str) -> String {
    format!("{workspace}.{namespace}")
}

/// Whether a token says that it is a manager's. Nothing of it is believed yet: that is for [`verify`].
#[must_use]
pub fn is_of_manager(token: &str) -> bool {
    let parts = Parts::of(token);
    parts.is_ok_and(|parts| parts.claims().is_ok_and(|claims| claims.iss == ISSUER))
}

/// Judges a token; what it says, if it is believed.
pub fn verify(
    token: &str,
    keys: &[PublicKey],
    audiences: &[String],
    now: Timestamp,
) -> Result<Claims, TokenError> {
    let parts = Parts::of(token)?;
    if parts.header != HEADER {
        return Err(TokenError::Algorithm);
    }
    let signature = decode(parts.signature)?;
    let signed = parts.signed.as_bytes();
    if !keys.iter().any(|key| key.has_signed(signed, &signature)) {
        return Err(TokenError::Signature);
    }
    let claims = parts.claims()?;
    claims.judge(audiences, now)?;
    Ok(claims)
}

impl SigningKey {
    /// A token that says this.
    pub fn sign(&self, claims: &Claims) -> Result<String, serde_json::Error> {
        let payload = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims)?);
        let signed = format!("{HEADER}.{payload}");
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.signature(signed.as_bytes()));
        Ok(format!("{signed}.{signature}"))
    }
}

/// A token, cut at its dots.
struct Parts<'token> {
    /// Header and payload: what the signature is for.
    signed: &'token str,
    header: &'token str,
    payload: &'token str,
    signature: &'token str,
}

impl<'token> Parts<'token> {
    fn of(token: &'token str) -> Result<Self, TokenError> {
        if token.len() > LONGEST_TOKEN {
            return Err(TokenError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        Ok(Self {
            signed,
            header,
            payload,
            signature,
        })
    }

    fn claims(&self) -> Result<Claims, TokenError> {
        let payload = decode(self.payload)?;
        serde_json::from_slice(&payload).map_err(|_| TokenError::Malformed)
    }
}

fn decode(text: &str) -> Result<Vec<u8>, TokenError> {
    BASE64_URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| TokenError::Malformed)
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
