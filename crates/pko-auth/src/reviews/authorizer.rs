//! One cache in front of both reviews.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::{hmac, rand::SystemRandom};
use serde::Deserialize;

use super::{
    Decision, Moment, ReviewApi, ReviewError, User, expiring_cache::ExpiringCache,
    single_flight::SingleFlight,
};

/// How long the results of reviews are cached.
#[derive(Clone, Copy, Debug)]
pub struct CacheLifetimes {
    /// A valid token, at most until it expires.
    pub authenticated: Duration,
    pub unauthenticated: Duration,
    /// The delay with which a revoked right takes effect.
    pub allowed: Duration,
    pub denied: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewKind {
    TokenReview,
    SubjectAccessReview,
}

impl ReviewKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TokenReview => "TokenReview",
            Self::SubjectAccessReview => "SubjectAccessReview",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// The token is not valid for our audience.
    Unauthenticated,
    /// The user lacks the right.
    Forbidden { user: User, reason: String },
    /// A review failed, so that access cannot be verified.
    Unverified {
        /// Present if the token was reviewed.
        user: Option<User>,
        review: ReviewKind,
        error: ReviewError,
    },
}

/// Authorizes callers by their tokens.
pub struct CachedAuthorizer<A> {
    tokens: Arc<TokenReviews<A>>,
    in_flight: SingleFlight<TokenKey, Result<Option<User>, ReviewError>>,
    decisions: ExpiringCache<User, Decision>,
}

impl<A: ReviewApi> CachedAuthorizer<A> {
    /// Fails if the system provides no random numbers.
    pub fn new(api: A, lifetimes: CacheLifetimes) -> Result<Self, ring::error::Unspecified> {
        let tokens = TokenReviews {
            api,
            lifetimes,
            key: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?,
            users: ExpiringCache::new(),
        };
        Ok(Self {
            tokens: Arc::new(tokens),
            in_flight: SingleFlight::new(),
            decisions: ExpiringCache::new(),
        })
    }

    /// The user of the token, if it may do what this authorizer guards.
    pub async fn authorize(&self, token: &str, now: Moment) -> Result<User, Denial> {
        let user = self.authenticate(token, now).await;
        let user = user.map_err(|error| Denial::Unverified {
            user: None,
            review: ReviewKind::TokenReview,
            error,
        })?;
        let user = user.ok_or(Denial::Unauthenticated)?;
        match self.decide(&user, now).await {
            Ok(Decision::Allowed) => Ok(user),
            Ok(Decision::Denied(reason)) => Err(Denial::Forbidden { user, reason }),
            Err(error) => Err(Denial::Unverified {
                user: Some(user),
                review: ReviewKind::SubjectAccessReview,
                error,
            }),
        }
    }

    async fn authenticate(&self, token: &str, now: Moment) -> Result<Option<User>, ReviewError> {
        let key = self.tokens.key(token);
        if let Some(cached) = self.tokens.cached(&key, now) {
            return Ok(cached.user);
        }
        let review = || {
            let (tokens, token) = (Arc::clone(&self.tokens), token.to_owned());
            async move { tokens.review(key, &token, now).await }
        };
        let user = self.in_flight.join(key, review).await;
        let lost = || ReviewError::Failed("the review was lost".to_owned());
        user.unwrap_or_else(|| Err(lost()))
    }

    async fn decide(&self, user: &User, now: Moment) -> Result<Decision, ReviewError> {
        if let Some(cached) = self.decisions.get(user, now.steady) {
            return Ok(cached);
        }
        let decision = self.tokens.api.authorize(user).await?;
        let lifetimes = self.tokens.lifetimes;
        let lifetime = match decision {
            Decision::Allowed => lifetimes.allowed,
            Decision::Denied(_) => lifetimes.denied,
        };
        self.decisions
            .put(user.clone(), decision.clone(), lifetime, now.steady);
        Ok(decision)
    }
}

/// Stands for a token in memory. The token cannot be recovered from it, and it is of no use in
/// another process.
type TokenKey = [u8; 32];

struct TokenReviews<A> {
    api: A,
    lifetimes: CacheLifetimes,
    key: hmac::Key,
    users: ExpiringCache<TokenKey, CachedUser>,
}

#[derive(Clone)]
struct CachedUser {
    user: Option<User>,
    /// The token's own expiry, if it has one.
    token_expiry: Option<Timestamp>,
}

impl<A: ReviewApi> TokenReviews<A> {
    fn key(&self, token: &str) -> TokenKey {
        let mut key = TokenKey::default();
        key.copy_from_slice(hmac::sign(&self.key, token.as_bytes()).as_ref());
        key
    }

    fn cached(&self, key: &TokenKey, now: Moment) -> Option<CachedUser> {
        let cached = self.users.get(key, now.steady)?;
        // By the wall clock, too: the steady one stops while the machine is suspended.
        let is_expired = cached.token_expiry.is_some_and(|expiry| expiry <= now.wall);
        (!is_expired).then_some(cached)
    }

    async fn review(
        &self,
        key: TokenKey,
        token: &str,
        now: Moment,
    ) -> Result<Option<User>, ReviewError> {
        let user = self.api.authenticate(token).await?;
        let (lifetime, token_expiry) = match &user {
            Some(_) => (self.lifetimes.authenticated, expiry(token)),
            None => (self.lifetimes.unauthenticated, None),
        };
        let cached = CachedUser {
            user: user.clone(),
            token_expiry,
        };
        self.users.put(key, cached, lifetime, now.steady);
        Ok(user)
    }
}

/// The `exp` claim of a JSON Web Token, unverified.
fn expiry(token: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct ExpiryClaim {
        exp: Option<i64>,
    }
    let payload = token.split('.').nth(1)?;
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claim: ExpiryClaim = serde_json::from_slice(&payload).ok()?;
    Timestamp::from_second(claim.exp?).ok()
}

#[cfg(test)]
mod tests;
