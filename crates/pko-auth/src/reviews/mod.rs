//! Authenticates callers by `TokenReview`, authorizes them by `SubjectAccessReview`, and caches
//! both.
//!
//! Access is denied unless it can be verified. Failed reviews are not cached.

mod api;
mod authorizer;
mod expiring_cache;
mod retry;
mod single_flight;

use std::{collections::BTreeMap, time::Instant};

use jiff::Timestamp;

pub use api::{Access, ApiServerReviews};
pub use authorizer::{CacheLifetimes, CachedAuthorizer, Denial, ReviewKind};

/// One moment on two clocks: `steady` never jumps and times cache entries; `wall` is the clock that
/// tokens are dated by.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub steady: Instant,
    pub wall: Timestamp,
}

impl Moment {
    #[must_use]
    pub fn now() -> Self {
        Self {
            steady: Instant::now(),
            wall: Timestamp::now(),
        }
    }
}

/// The user that a token authenticates.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct User {
    pub name: String,
    pub uid: Option<String>,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    /// With the API server's reason.
    Denied(String),
}

/// A review without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// Our own service account may not create reviews.
    #[error("forbidden")]
    Forbidden,
    #[error("{0}")]
    Failed(String),
}

/// The API that reviews; a trait for tests.
pub trait ReviewApi: Send + Sync + 'static {
    /// The user of the token; `None` if the token is not valid for our audience.
    fn authenticate(
        &self,
        token: &str,
    ) -> impl Future<Output = Result<Option<User>, ReviewError>> + Send;

    fn authorize(&self, user: &User) -> impl Future<Output = Result<Decision, ReviewError>> + Send;
}
