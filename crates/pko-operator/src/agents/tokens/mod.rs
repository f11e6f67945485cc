//! Tokens that the manager presents to agents: signed with its own key for our agents, of its
//! service account for those of upstream.

mod credentials;
mod manager;
mod service_account;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;

pub(crate) use credentials::{Credentials, CredentialsError};
pub(crate) use manager::ManagerTokens;
pub(crate) use service_account::{ServiceAccountIssuer, ServiceAccountTokens};

/// A moment on both clocks. Tokens are dated by the wall clock, which can be set at any time, and
/// renewed by the monotonic one.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    wall: Timestamp,
    monotonic: Instant,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self {
            wall: Timestamp::now(),
            monotonic: Instant::now(),
        }
    }
}

/// A rejected token that is younger is not replaced: another one would be the same, and an agent
/// that rejects everything must not cause more work than this.
const MIN_AGE_OF_REJECTED: Duration = Duration::from_secs(10);

/// All tokens that the manager can present.
#[derive(Clone)]
pub(crate) struct AgentTokens {
    pub(crate) manager: Arc<ManagerTokens>,
    /// None if the manager does not know its own service account.
    pub(crate) service_account: Option<Arc<ServiceAccountTokens<ServiceAccountIssuer>>>,
}
