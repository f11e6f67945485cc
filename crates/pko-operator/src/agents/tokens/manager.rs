//! Tokens signed by the manager's key, one for each workspace, renewed before they expire.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use pko_auth::token::{Claims, LIFETIME, SigningKey};

use super::{MIN_AGE_OF_REJECTED, Moment};

/// Renewed this long before they expire: a call may be in flight for a while.
const LEEWAY: Duration = Duration::from_mins(1);

pub(crate) struct ManagerTokens {
    key: SigningKey,
    /// By audience.
    tokens: Mutex<HashMap<String, SignedToken>>,
}

struct SignedToken {
    token: String,
    signed: Instant,
}

impl SignedToken {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.signed)
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.age(now) < LIFETIME.saturating_sub(LEEWAY)
    }
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

    pub(crate) fn token(&self, audience: &str, now: Moment) -> Result<String, serde_json::Error> {
        let mut tokens = self.tokens.lock();
        let known = tokens.get(audience);
        if let Some(signed) = known.filter(|signed| signed.is_fresh(now.monotonic)) {
            return Ok(signed.token.clone());
        }
        let token = self.key.sign(&Claims::new(audience, now.wall))?;
        let signed = SignedToken {
            token: token.clone(),
            signed: now.monotonic,
        };
        // Drops tokens of deleted workspaces.
        tokens.retain(|_, signed| signed.is_fresh(now.monotonic));
        tokens.insert(audience.to_owned(), signed);
        Ok(token)
    }

    /// Has a token that was signed a minute ago, when the wall clock was an hour behind.
    #[cfg(test)]
    pub(in crate::agents) fn sign_long_ago(&self, audience: &str) {
        let then = Moment {
            wall: jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1),
            monotonic: Instant::now().checked_sub(Duration::from_mins(1)).unwrap(),
        };
        self.token(audience, then).unwrap();
    }

    /// Forgets a token that an agent rejects: a clock may have been set since it was signed.
    /// Returns whether the next token is another one.
    pub(crate) fn reject(&self, audience: &str, token: &str, now: Instant) -> bool {
        let mut tokens = self.tokens.lock();
        let known = tokens.get(audience);
        let Some(signed) = known.filter(|signed| signed.token == token) else {
            return true;
        };
        let is_old = signed.age(now) >= MIN_AGE_OF_REJECTED;
        if is_old {
            tokens.remove(audience);
        }
        is_old
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use pko_auth::token::{PublicKey, verify};

    use super::*;

    fn start() -> Moment {
        Moment {
            wall: Timestamp::from_second(1_800_000_000).unwrap(),
            monotonic: Instant::now(),
        }
    }

    /// Later, with the wall clock set forward or back by `step`.
    fn after(start: Moment, seconds: u64, step: i64) -> Moment {
        let passed = Duration::from_secs(seconds);
        Moment {
            wall: start.wall + passed + SignedDuration::from_secs(step),
            monotonic: start.monotonic + passed,
        }
    }

    fn is_valid(token: &str, keys: &[PublicKey], at: Timestamp) -> bool {
        verify(token, keys, &["ws.ns".to_owned()], at).is_ok()
    }

    fn tokens() -> (ManagerTokens, [PublicKey; 1]) {
        let key = SigningKey::generate().unwrap();
        let keys = [key.public_key()];
        (ManagerTokens::new(key), keys)
    }

    #[test]
    fn manager_token_is_renewed_by_the_monotonic_clock() {
        let (tokens, keys) = tokens();
        let start = start();
        let token = |seconds, step| {
            let now = after(start, seconds, step);
            tokens.token("ws.ns", now).unwrap()
        };
        let first = token(0, 0);
        assert_eq!(token(239, 0), first);
        assert_eq!(
            token(239, 1_000_000),
            first,
            "whatever the wall clock shows"
        );
        let second = token(240, -1_000_000);
        assert_ne!(second, first, "a clock that was set back keeps no token");
        assert!(is_valid(
            &first,
            &keys,
            start.wall + Duration::from_secs(239)
        ));
    }

    #[test]
    fn rejected_token_is_signed_again_with_the_right_time() {
        let (tokens, keys) = tokens();
        let start = start();
        let hour = 3600;
        // The clock was an hour ahead, and was corrected while the token was in use.
        let wrong = tokens.token("ws.ns", after(start, 0, hour)).unwrap();
        let now = after(start, 30, 0);
        assert!(!is_valid(&wrong, &keys, now.wall));
        assert!(tokens.reject("ws.ns", &wrong, now.monotonic));
        let right = tokens.token("ws.ns", now).unwrap();
        assert!(is_valid(&right, &keys, now.wall));

        let soon = after(start, 39, 0).monotonic;
        assert!(!tokens.reject("ws.ns", &right, soon), "it is new");
        assert_eq!(tokens.token("ws.ns", now).unwrap(), right);
        assert!(
            tokens.reject("ws.ns", &wrong, soon),
            "it was replaced meanwhile"
        );
    }

    #[test]
    fn manager_tokens_are_per_audience_and_expire() {
        let (tokens, _) = tokens();
        let start = start();
        let one = tokens.token("one.ns", start).unwrap();
        let two = tokens.token("two.ns", start).unwrap();
        assert_ne!(one, two);
        assert_eq!(tokens.tokens.lock().len(), 2);
        tokens.token("three.ns", after(start, 600, 0)).unwrap();
        assert_eq!(tokens.tokens.lock().len(), 1);
    }
}
