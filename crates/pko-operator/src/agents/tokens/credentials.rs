//! What the manager presents to an agent.

use std::{sync::Arc, time::Instant};

use axum::http::HeaderValue;

use super::{
    Moment,
    manager::ManagerTokens,
    service_account::{IssueError, ServiceAccountIssuer, ServiceAccountTokens},
};

#[derive(Clone)]
pub(crate) enum Credentials {
    /// The agent accepts every caller.
    None,
    /// The agent verifies the manager's signature.
    Manager {
        tokens: Arc<ManagerTokens>,
        audience: String,
    },
    /// The agent reviews the token at the API server.
    ServiceAccount {
        tokens: Arc<ServiceAccountTokens<ServiceAccountIssuer>>,
        audience: String,
    },
    /// The agent reviews the token, and the manager does not know its own service account.
    Unavailable,
}

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
        "the workspace requires a service account token: set POD_NAMESPACE and POD_SA_NAME to those of the manager"
    )]
    NoAccount,
    #[error("the token has characters that a header must not have")]
    Header,
}

impl Credentials {
    /// The header of the next call. Tokens expire, so it must not be kept.
    pub(in crate::agents) async fn header(&self) -> Result<Option<HeaderValue>, CredentialsError> {
        let now = Moment::now();
        let token = match self {
            Self::None => return Ok(None),
            Self::Manager { tokens, audience } => tokens.token(audience, now)?,
            Self::ServiceAccount { tokens, audience } => {
                let token = tokens.token(audience, now.monotonic).await;
                token.map_err(|source| CredentialsError::Request {
                    audience: audience.clone(),
                    source,
                })?
            }
            Self::Unavailable => return Err(CredentialsError::NoAccount),
        };
        let header = HeaderValue::try_from(format!("Bearer {token}"));
        let mut header = header.map_err(|_| CredentialsError::Header)?;
        header.set_sensitive(true);
        Ok(Some(header))
    }

    /// Forgets the token of a header that an agent rejects. Returns whether it is worth another
    /// try.
    pub(in crate::agents) async fn reject(&self, header: &HeaderValue) -> bool {
        let header = header.to_str().unwrap_or_default();
        let Some(token) = header.strip_prefix("Bearer ") else {
            return false;
        };
        let now = Instant::now();
        match self {
            Self::None | Self::Unavailable => false,
            Self::Manager { tokens, audience } => tokens.reject(audience, token, now),
            Self::ServiceAccount { tokens, audience } => tokens.reject(audience, token, now).await,
        }
    }

    pub(in crate::agents) fn may_be_upstream(&self) -> bool {
        matches!(self, Self::ServiceAccount { .. } | Self::Unavailable)
    }
}
