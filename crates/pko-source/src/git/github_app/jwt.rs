//! Signs the JWT by which an app authenticates with GitHub. Does no I/O.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use pko_auth::Redacted;
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use serde_json::json;

use super::{GithubApp, GithubAppError, validate_id};
use crate::pem::PemSection;

const HEADER: &str = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9";
/// GitHub's clock may be behind ours.
const BEFORE: i64 = 60;
const AFTER: i64 = 600;

pub(super) fn sign(app: &GithubApp, now: Timestamp) -> Result<Redacted, GithubAppError> {
    let key = read(app.private_key.expose())?;
    let issuer = validate_id(&app.app_id).ok_or(GithubAppError::InvalidId("app id"))?;
    let claims = json!({
        "iat": now.as_second() - BEFORE,
        "exp": now.as_second() + AFTER,
        "iss": issuer,
    });
    let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    let message = format!("{HEADER}.{claims}");
    let mut signature = vec![0; key.public().modulus_len()];
    let random = SystemRandom::new();
    let signed = key.sign(
        &RSA_PKCS1_SHA256,
        &random,
        message.as_bytes(),
        &mut signature,
    );
    signed.map_err(|_| GithubAppError::InvalidKey)?;
    let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
    Ok(Redacted::new(format!("{message}.{signature}")))
}

/// GitHub issues PKCS#1. Other tools write PKCS#8.
fn read(text: &str) -> Result<RsaKeyPair, GithubAppError> {
    let section = PemSection::first(text, &[]).map_err(|_| GithubAppError::NoPem)?;
    let key = match section.label.as_str() {
        "RSA PRIVATE KEY" => RsaKeyPair::from_der(&section.body),
        "PRIVATE KEY" => RsaKeyPair::from_pkcs8(&section.body),
        _ => return Err(GithubAppError::InvalidKey),
    };
    key.map_err(|_| GithubAppError::InvalidKey)
}
