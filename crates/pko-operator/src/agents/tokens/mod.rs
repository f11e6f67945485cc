//! Tokens that the manager presents to agents.

mod credentials;
mod manager;
mod service_account;

pub(crate) use credentials::{Credentials, CredentialsError};
pub(crate) use manager::ManagerTokens;
pub(crate) use service_account::{AccountTokens, ServiceAccountIssuer};
