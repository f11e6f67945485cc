//! Tokens that the manager presents to agents: signed with its own key for our agents, of its service
//! account for those of upstream.

mod credentials;
mod manager;
mod service_account;

use std::sync::Arc;

pub(crate) use credentials::{Credentials, CredentialsError};
pub(crate) use manager::ManagerTokens;
pub(crate) use service_account::{ServiceAccountIssuer, ServiceAccountTokens};

/// All tokens that the manager can present.
#[derive(Clone)]
pub(crate) struct AgentTokens {
    pub(crate) manager: Arc<ManagerTokens>,
    /// None if the manager does not know its own service account.
    pub(crate) service_account: Option<Arc<ServiceAccountTokens<ServiceAccountIssuer>>>,
}
