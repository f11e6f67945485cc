//! Tokens with which a manager authenticates to an agent: signed by the manager, for one workspace
//! and a few minutes. Nothing here does I/O: time is an argument, and keys are texts.
//!
//! A token is a JSON Web Token with the algorithm `EdDSA` (Ed25519). There is nothing to negotiate:
//! any other header is rejected before the payload is read. It is written by hand because the usual
//! JWT crates bring a second cryptography library besides ring, and this subset of the format is
//! small.
//!
//! # Guarantees
//! A token is accepted only if one of the given keys signed it, it is for one of the given
//! audiences, it is valid now (clocks may differ by [`CLOCK_SKEW`]) and its lifetime is at most
//! [`MAX_LIFETIME`].

mod key;
mod mac;

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use key::{KeyError, PublicKey, SigningKey};
pub use mac::MacKey;

/// Agents verify tokens of this issuer by the manager's key, and others by the API server.
pub const ISSUER: &str = "pulumi-kubernetes-operator";
/// How long a token is valid at an agent whose clock differs by [`CLOCK_SKEW`] at most.
pub const LIFETIME: Duration = Duration::from_mins(5);
/// Tokens with a longer lifetime are rejected.
pub const MAX_LIFETIME: Duration = Duration::from_hours(1);
/// The tolerated difference between the clocks of a manager and an agent. Tokens are dated back and
/// expire later by as much, so an agent that tolerates less accepts them, too.
pub const CLOCK_SKEW: Duration = Duration::from_mins(5);

/// `{"alg":"EdDSA","typ":"JWT"}`
const HEADER: &str = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9";
/// Ours have about 300 bytes; longer ones are not decoded.
const MAX_TOKEN_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub iss: String,
    /// One workspace; see [`audience`].
    pub aud: String,
    /// Issued at, in seconds since the epoch.
    pub iat: i64,
    /// Expires at, in seconds since the epoch.
    pub exp: i64,
}

impl Claims {
    /// A manager's claims for a workspace, valid for [`LIFETIME`] from now, whether the agent's
    /// clock is behind or ahead.
    #[must_use]
    pub fn new(audience: &str, now: Timestamp) -> Self {
        let now = now.as_second();
        Self {
            iss: ISSUER.to_owned(),
            aud: audience.to_owned(),
            iat: now.saturating_sub(seconds(CLOCK_SKEW)),
            exp: now.saturating_add(seconds(LIFETIME + CLOCK_SKEW)),
        }
    }

    fn check(&self, audiences: &[String], now: Timestamp) -> Result<(), TokenError> {
        if self.iss != ISSUER {
            return Err(TokenError::Issuer);
        }
        if !audiences.contains(&self.aud) {
            return Err(TokenError::Audience);
        }
        let lifetime = self.exp.checked_sub(self.iat).unwrap_or(i64::MAX);
        if !(1..=seconds(MAX_LIFETIME)).contains(&lifetime) {
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

/// Why a token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is malformed")]
    Malformed,
    #[error("the token is not signed with Ed25519")]
    Algorithm,
    /// No given key signed it, or it was changed after signing.
    #[error("the token is not signed by a trusted key")]
    Signature,
    #[error("the token has another issuer")]
    Issuer,
    #[error("the token is for another workspace")]
    Audience,
    #[error("the token has expired")]
    Expired,
    /// Issued in the future.
    #[error("the token is not valid yet; check the clocks of the manager and the workspace")]
    NotYetValid,
    /// Negative, or longer than [`MAX_LIFETIME`].
    #[error("the token's lifetime is longer than an hour or negative")]
    Lifetime,
}

/// The audience of a workspace's tokens, as upstream names it.
#[must_use]
pub fn audience(namespace: &str, workspace: &str) -> String {
    format!("{workspace}.{namespace}")
}

/// Whether the token's issuer claim is a manager's. The claim is unverified; see [`verify`].
#[must_use]
pub fn has_manager_issuer(token: &str) -> bool {
    let parts = Parts::split(token);
    parts.is_ok_and(|parts| parts.claims().is_ok_and(|claims| claims.iss == ISSUER))
}

/// The claims of a token, if it is valid; see the guarantees of this module.
pub fn verify(
    token: &str,
    keys: &[PublicKey],
    audiences: &[String],
    now: Timestamp,
) -> Result<Claims, TokenError> {
    let parts = Parts::split(token)?;
    if parts.header != HEADER {
        return Err(TokenError::Algorithm);
    }
    let signature = decode(parts.signature)?;
    let signed = parts.signed.as_bytes();
    if !keys.iter().any(|key| key.verifies(signed, &signature)) {
        return Err(TokenError::Signature);
    }
    let claims = parts.claims()?;
    claims.check(audiences, now)?;
    Ok(claims)
}

impl SigningKey {
    pub fn sign(&self, claims: &Claims) -> Result<String, serde_json::Error> {
        let payload = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims)?);
        let signed = format!("{HEADER}.{payload}");
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.signature(signed.as_bytes()));
        Ok(format!("{signed}.{signature}"))
    }
}

struct Parts<'token> {
    /// Header and payload, which the signature covers.
    signed: &'token str,
    header: &'token str,
    payload: &'token str,
    signature: &'token str,
}

impl<'token> Parts<'token> {
    fn split(token: &'token str) -> Result<Self, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
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
