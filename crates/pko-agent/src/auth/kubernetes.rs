//! Judges a caller by its token: who it is (`TokenReview`), and whether that one may use this
//! Workspace (`SubjectAccessReview`). Whatever can't be found out is a no.

use std::{
    collections::BTreeMap,
    future::Future,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tonic::Status;

use super::cache::Cache;

const KNOWN_USER: Duration = Duration::from_hours(1);
const UNKNOWN_USER: Duration = Duration::from_mins(1);
const ALLOWED: Duration = Duration::from_mins(5);
const DENIED: Duration = Duration::from_secs(5);

/// The Workspace that callers want to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspaceName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Who a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// A review that was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// We may not ask.
    #[error("forbidden")]
    Forbidden,
    #[error("{0}")]
    Unanswered(String),
}

/// The API that knows.
pub(crate) trait Reviews: Send + Sync {
    /// Who the token belongs to, if it is good for one of the audiences.
    fn user(
        &self,
        token: &str,
        audiences: &[String],
    ) -> impl Future<Output = Result<Option<User>, ReviewError>> + Send;

    /// Why the user may not use the Workspace; nothing if it may.
    fn refusal(
        &self,
        user: &User,
        workspace: &WorkspaceName,
    ) -> impl Future<Output = Result<Option<String>, ReviewError>> + Send;
}

/// Judges callers.
pub(crate) struct KubernetesAuthorizer<R> {
    reviews: R,
    audiences: Vec<String>,
    workspace: WorkspaceName,
    users: Cache<[u8; 32], Option<User>>,
    refusals: Cache<User, Option<String>>,
}

impl<R: Reviews> KubernetesAuthorizer<R> {
    pub(crate) fn new(reviews: R, audiences: Vec<String>, workspace: WorkspaceName) -> Self {
        Self {
            reviews,
            audiences,
            workspace,
            users: Cache::new(),
            refusals: Cache::new(),
        }
    }

    /// Judges the `authorization` of a call.
    pub(crate) async fn judge(&self, authorization: Option<&str>) -> Result<(), Status> {
        let token = bearer(authorization)?;
        let user = self.user(token).await?;
        let user = user.ok_or_else(|| Status::unauthenticated("unauthenticated"))?;
        match self.refusal(&user).await? {
            None => Ok(()),
            Some(reason) => {
                tracing::info!(user = user.name, "A user may not use this Workspace");
                Err(Status::permission_denied(reason))
            }
        }
    }

    async fn user(&self, token: &str) -> Result<Option<User>, Status> {
        let key: [u8; 32] = Sha256::digest(token).into();
        let now = Instant::now();
        if let Some(known) = self.users.get(&key, now) {
            return Ok(known);
        }
        let user = self.reviews.user(token, &self.audiences).await;
        let user = user.map_err(|error| match error {
            ReviewError::Forbidden => {
                tracing::error!(
                    "The TokenReview API is not available to this service account: bind it to the ClusterRole system:auth-delegator"
                );
                Status::unauthenticated("TokenReview API is unavailable")
            }
            ReviewError::Unanswered(text) => Status::unauthenticated(text),
        })?;
        let lasting = match &user {
            Some(_) => lifetime(token).min(KNOWN_USER),
            None => UNKNOWN_USER,
        };
        self.users.put(key, user.clone(), lasting, now);
        Ok(user)
    }

    async fn refusal(&self, user: &User) -> Result<Option<String>, Status> {
        let now = Instant::now();
        if let Some(known) = self.refusals.get(user, now) {
            return Ok(known);
        }
        let refusal = self.reviews.refusal(user, &self.workspace).await;
        let refusal = refusal.map_err(|error| match error {
            ReviewError::Forbidden => {
                Status::unauthenticated("SubjectAccessReview API is unavailable")
            }
            ReviewError::Unanswered(text) => Status::unknown(text),
        })?;
        let lasting = if refusal.is_none() { ALLOWED } else { DENIED };
        self.refusals
            .put(user.clone(), refusal.clone(), lasting, now);
        Ok(refusal)
    }
}

fn bearer(authorization: Option<&str>) -> Result<&str, Status> {
    let missing = || Status::unauthenticated("Request unauthenticated with Bearer");
    let authorization = authorization
        .filter(|text| !text.is_empty())
        .ok_or_else(missing)?;
    let (scheme, token) = authorization
        .split_once(' ')
        .ok_or_else(|| Status::unauthenticated("Bad authorization string"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(missing());
    }
    Ok(token)
}

/// How long the token says that it is good; for ever if it does not say.
fn lifetime(token: &str) -> Duration {
    #[derive(Deserialize)]
    struct Claims {
        exp: Option<u64>,
    }
    let payload = token.split('.').nth(1).unwrap_or_default();
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
    let claims: Option<Claims> = serde_json::from_slice(&payload).ok();
    let Some(end) = claims.and_then(|claims| claims.exp) else {
        return Duration::MAX;
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Duration::from_secs(end).saturating_sub(now)
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
