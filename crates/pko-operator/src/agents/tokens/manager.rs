//! Tokens signed by the manager's key, one for each workspace, renewed before they expire.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use pko_auth::token::{Claims, SigningKey};

/// Renewed this long before they expire: a call may be in flight for a while.
const LEEWAY: Duration = Duration::from_mins(1);

pub(crate) struct ManagerTokens {
    key: SigningKey,
    /// By audience.
    tokens: Mutex<HashMap<String, SignedToken>>,
}

struct SignedToken {
    token: String,
    renewal: Timestamp,
}

impl ManagerTokens {
    pub(crate) fn new(key: SigningKey) -> Self {
        Self {
            key,
            tokens: Mutex::default(),
        }
    }

    /// The id of the key, by which a record tells whether an agent accepts it.
    pub(crate) fn key_id(&self) -> String {
        self.key.public_key().id()
    }

    /// The public key in PEM, by which agents verify the tokens.
    pub(crate) fn public_key(&self) -> String {
        self.key.public_key().to_pem()
    }

    pub(crate) fn token(
        &self,
        audience: &str,
        now: Timestamp,
    ) -> Result<String, serde_json::Error> {
        let mut tokens = self.tokens.lock();
        if let Some(signed) = tokens.get(audience).filter(|signed| signed.renewal > now) {
            return Ok(signed.token.clone());
        }
        let claims = Claims::new(audience, now);
        let token = self.key.sign(&claims)?;
        let end = Timestamp::from_second(claims.exp).unwrap_or(now);
        let signed = SignedToken {
            token: token.clone(),
            renewal: end - LEEWAY,
        };
        // Drops tokens of deleted workspaces.
        tokens.retain(|_, signed| signed.renewal > now);
        tokens.insert(audience.to_owned(), signed);
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use pko_auth::token::verify;

    use super::*;

    #[test]
    fn manager_token_is_reused_until_shortly_before_expiry() {
        let key = SigningKey::generate().unwrap();
        let keys = [key.public_key()];
        let tokens = ManagerTokens::new(key);
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let after = |seconds| now + Duration::from_secs(seconds);
        let token = |seconds| tokens.token("ws.ns", after(seconds)).unwrap();
        let first = token(0);
        assert_eq!(token(239), first);
        let second = token(240);
        assert_ne!(second, first);
        assert_eq!(token(241), second);
        let good = |token: &str, seconds| {
            verify(token, &keys, &["ws.ns".to_owned()], after(seconds)).is_ok()
        };
        assert!(good(&first, 239) && good(&second, 500));
    }

    #[test]
    fn manager_tokens_are_per_audience_and_expire() {
        let tokens = ManagerTokens::new(SigningKey::generate().unwrap());
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let one = tokens.token("one.ns", now).unwrap();
        let two = tokens.token("two.ns", now).unwrap();
        assert_ne!(one, two);
        assert_eq!(tokens.tokens.lock().len(), 2);
        let later = now + Duration::from_mins(10);
        tokens.token("three.ns", later).unwrap();
        assert_eq!(tokens.tokens.lock().len(), 1);
    }
}
