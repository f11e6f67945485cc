//! Authorizes scrapes: the API server accepts the token, and its user may `get` `/metrics`.
//!
//! Results are cached briefly, so that a scrape is not two requests; errors are not.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use kube::Client;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// A revoked permission ends after this.
const ALLOW_TTL: Duration = Duration::from_mins(1);
/// A new permission counts after this.
const DENY_TTL: Duration = Duration::from_secs(10);
/// Limits the memory that clients can fill with tokens.
const MAX_CACHED: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Granted,
    /// The API server does not accept the token.
    Unauthenticated,
    /// The user lacks the permission.
    Forbidden,
}

#[derive(Debug, thiserror::Error)]
#[error("the API server failed to review a token: {0}")]
pub(crate) struct AccessError(#[from] Box<kube::Error>);

pub(crate) trait Authorizer: Send + Sync + 'static {
    fn authorize(&self, token: &str) -> impl Future<Output = Result<Access, AccessError>> + Send;
}

/// By reviews of the API server.
pub(crate) struct ClusterAuthorizer(Client);

impl ClusterAuthorizer {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }
}

impl Authorizer for ClusterAuthorizer {
    async fn authorize(&self, token: &str) -> Result<Access, AccessError> {
        let user = pko_kube::review_token(&self.0, token).await;
        let Some(user) = user.map_err(Box::new)? else {
            return Ok(Access::Unauthenticated);
        };
        let may_read = pko_kube::may_access_path(&self.0, user, "/metrics").await;
        Ok(if may_read.map_err(Box::new)? {
            Access::Granted
        } else {
            Access::Forbidden
        })
    }
}

/// Caches results by the digest of the token.
pub(super) struct CachedAuthorizer<J> {
    authorizer: J,
    answers: Mutex<HashMap<[u8; 32], (Access, Instant)>>,
}

impl<J: Authorizer> CachedAuthorizer<J> {
    pub(super) fn new(authorizer: J) -> Self {
        Self {
            authorizer,
            answers: Mutex::default(),
        }
    }

    pub(super) async fn authorize(&self, token: &str, now: Instant) -> Result<Access, AccessError> {
        let digest = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.cached(&digest, now) {
            return Ok(known);
        }
        let answer = self.authorizer.authorize(token).await?;
        self.store(digest, answer, now);
        Ok(answer)
    }

    fn cached(&self, digest: &[u8; 32], now: Instant) -> Option<Access> {
        let answers = self.answers.lock();
        let (access, end) = answers.get(digest)?;
        (now < *end).then_some(*access)
    }

    fn store(&self, digest: [u8; 32], access: Access, now: Instant) {
        let holds = if access == Access::Granted {
            ALLOW_TTL
        } else {
            DENY_TTL
        };
        let mut answers = self.answers.lock();
        answers.retain(|_, (_, end)| now < *end);
        if answers.len() < MAX_CACHED {
            answers.insert(digest, (access, now + holds));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Decides by the token's text, and counts calls.
    #[derive(Default)]
    struct CountingAuthorizer(AtomicUsize);

    impl Authorizer for CountingAuthorizer {
        async fn authorize(&self, token: &str) -> Result<Access, AccessError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            match token {
                "good" => Ok(Access::Granted),
                "broken" => Err(AccessError(Box::new(
                    kube::Error::LinesCodecMaxLineLengthExceeded,
                ))),
                _ => Ok(Access::Unauthenticated),
            }
        }
    }

    async fn asked(
        access: &CachedAuthorizer<CountingAuthorizer>,
        token: &str,
        at: Instant,
    ) -> usize {
        let before = access.authorizer.0.load(Ordering::Relaxed);
        let _ = access.authorize(token, at).await;
        access.authorizer.0.load(Ordering::Relaxed) - before
    }

    #[tokio::test]
    async fn authorization_is_cached_for_a_while() {
        let (access, start) = (
            CachedAuthorizer::new(CountingAuthorizer::default()),
            Instant::now(),
        );
        for (token, holds) in [("good", ALLOW_TTL), ("bad", DENY_TTL)] {
            assert_eq!(asked(&access, token, start).await, 1);
            let just_before = start + holds.mul_f32(0.9);
            assert_eq!(asked(&access, token, just_before).await, 0);
            assert_eq!(asked(&access, token, start + holds).await, 1);
        }
    }

    #[tokio::test]
    async fn authorization_error_is_not_cached() {
        let (access, start) = (
            CachedAuthorizer::new(CountingAuthorizer::default()),
            Instant::now(),
        );
        assert!(access.authorize("broken", start).await.is_err());
        assert_eq!(asked(&access, "broken", start).await, 1);
    }

    #[tokio::test]
    async fn authorization_cache_is_limited() {
        let (access, start) = (
            CachedAuthorizer::new(CountingAuthorizer::default()),
            Instant::now(),
        );
        for number in 0..MAX_CACHED + 10 {
            let answer = access.authorize(&number.to_string(), start).await.unwrap();
            assert_eq!(answer, Access::Unauthenticated);
        }
        assert_eq!(access.answers.lock().len(), MAX_CACHED);
        assert_eq!(
            access.authorize("good", start).await.unwrap(),
            Access::Granted
        );
    }
}
