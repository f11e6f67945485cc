//! The manager's own tokens: signed by its key, one for each workspace, renewed before they end.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use pko_proto::token::{Claims, SigningKey};

/// How long before its end a token is renewed: a call may be on its way for a while.
const LEEWAY: Duration = Duration::from_mins(1);

/// Signs tokens, and keeps each as long as it is good.
pub(crate) struct ManagerTokens {
    key: SigningKey,
    /// By audience.
    known: Mutex<HashMap<String, Signed>>,
}

struct Signed {
    token: String,
    /// From when on another one is signed.
    renewal: Timestamp,
}

impl ManagerTokens {
    pub(crate) fn new(key: SigningKey) -> Self {
        Self {
            key,
            known: Mutex::default(),
        }
    }

    /// The name of the key, by which it is known whether an agent knows it.
    pub(crate) fn key_id(&self) -> String {
        self.key.public_key().id()
    }

    /// By which agents know the manager, in PEM.
    pub(crate) fn public_key(&self) -> String {
        self.key.public_key().to_pem()
    }

    /// A token for an audience.
    pub(crate) fn token(
        &self,
        audience: &str,
        now: Timestamp,
    ) -> Result<String, serde_json::Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signed) = known.get(audience).filter(|signed| signed.renewal > now) {
            return Ok(signed.token.clone());
        }
        let claims = Claims::new(audience, now);
        let token = self.key.sign(&claims)?;
        let end = Timestamp::from_second(claims.exp).unwrap_or(now);
        let signed = Signed {
            token: token.clone(),
            renewal: end - LEEWAY,
        };
        // Those of workspaces that are gone.
        known.retain(|_, signed| signed.renewal > now);
        known.insert(audience.to_owned(), signed);
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use pko_proto::token::verify;

    use super::*;

    #[test]
    fn a_token_is_kept_until_shortly_before_its_end() {
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
    fn each_audience_has_its_own_and_old_ones_are_forgotten() {
        let tokens = ManagerTokens::new(SigningKey::generate().unwrap());
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let one = tokens.token("one.ns", now).unwrap();
        let two = tokens.token("two.ns", now).unwrap();
        assert_ne!(one, two);
        assert_eq!(tokens.known.lock().unwrap().len(), 2);
        let later = now + Duration::from_mins(10);
        tokens.token("three.ns", later).unwrap();
        assert_eq!(tokens.known.lock().unwrap().len(), 1);
    }
}
