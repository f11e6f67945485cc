//! What the manager shows an agent: nothing, a token that it signed itself, or one of its service account.

use std::sync::Arc;

use axum::http::HeaderValue;
use jiff::Timestamp;

use super::{
    manager::ManagerTokens,
    service_account::{AccountTokens, IssueError, ServiceAccountIssuer},
};

/// What an agent wants to see.
#[derive(Clone)]
pub(crate) enum Credentials {
    /// It lets everybody in.
    Nothing,
    /// It knows the manager's key.
    Manager {
        tokens: Arc<ManagerTokens>,
        audience: String,
    },
    /// It asks the API server.
    Account {
        tokens: Arc<AccountTokens<ServiceAccountIssuer>>,
        audience: String,
    },
    /// It asks the API server, and the manager does not know which service account it is itself.
    Unknown,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    #[error("failed to sign a token")]
    Sign(#[from] serde_json::Error),
    #[error("failed to get a token for {audience}: {source}")]
    Request {
        audience: String,
        source: IssueError,
    },
    #[error(
        "the workspace wants a token of a service account: set POD_NAMESPACE and POD_SA_NAME to the manager's own"
    )]
    NoAccount,
    #[error("failed to read a token: it can't be sent")]
    Header,
}

impl Credentials {
    /// What goes with the next call. Not to be kept: it ends.
    pub(in crate::agents) async fn header(&self) -> Result<Option<HeaderValue>, CredentialsError> {
        let now = Timestamp::now();
        let token = match self {
            Self::Nothing => return Ok(None),
            Self::Manager { tokens, audience } => tokens.token(audience, now)?,
            Self::Account { tokens, audience } => {
                let token = tokens.token(audience, now).await;
                token.map_err(|source| CredentialsError::Request {
                    audience: audience.clone(),
                    source,
                })?
            }
            Self::Unknown => return Err(CredentialsError::NoAccount),
        };
        let header = HeaderValue::try_from(format!("Bearer {token}"));
        let mut header = header.map_err(|_| CredentialsError::Header)?;
        header.set_sensitive(true);
        Ok(Some(header))
    }

    /// Whether the agent may be upstream's, which asks the API server for its callers.
    pub(in crate::agents) fn may_be_upstreams(&self) -> bool {
        matches!(self, Self::Account { .. } | Self::Unknown)
    }
}
