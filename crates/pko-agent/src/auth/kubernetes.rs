//! Judges a caller by its token: who it is (`TokenReview`), and whether that one may use this
//! Workspace (`SubjectAccessReview`). Whatever can't be found out is a no.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::{hmac, rand::SystemRandom};
use serde::Deserialize;
use tonic::Status;

use super::{
    cache::Cache,
    clock::{Clock, Moment},
    flights::Flights,
    gate::Refusal,
    hint,
};

const KNOWN_USER: Duration = Duration::from_hours(1);
const UNKNOWN_USER: Duration = Duration::from_mins(1);
const ALLOWED: Duration = Duration::from_mins(5);
const DENIED: Duration = Duration::from_secs(5);

/// The Workspace that callers want to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkspaceName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Who a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: Option<String>,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

/// A review that was not answered.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum ReviewError {
    /// We may not ask.
    #[error("forbidden")]
    Forbidden,
    #[error("{0}")]
    Unanswered(String),
}

/// The API that knows.
pub(super) trait Reviews: Send + Sync + 'static {
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
pub(super) struct KubernetesAuthorizer<R> {
    desk: Arc<Desk<R>>,
    workspace: WorkspaceName,
    flights: Flights<TokenKey, Result<Option<User>, ReviewError>>,
    refusals: Cache<User, Option<String>>,
}

impl<R: Reviews> KubernetesAuthorizer<R> {
    /// Fails where the system gives no random numbers.
    pub(super) fn new(
        reviews: R,
        audiences: Vec<String>,
        workspace: WorkspaceName,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ring::error::Unspecified> {
        let desk = Desk {
            reviews,
            audiences,
            clock,
            secret: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?,
            users: Cache::new(),
        };
        Ok(Self {
            desk: Arc::new(desk),
            workspace,
            flights: Flights::new(),
            refusals: Cache::new(),
        })
    }

    /// Judges the token of a call.
    pub(super) async fn judge(&self, token: &str) -> Result<User, Refusal> {
        let user = self.user(token).await?;
        let user = user.ok_or_else(|| Status::unauthenticated("unauthenticated"))?;
        match self.refusal(&user).await {
            Ok(None) => Ok(user),
            Ok(Some(reason)) => Err(Refusal::of(&user, Status::permission_denied(reason))),
            Err(status) => Err(Refusal::of(&user, status)),
        }
    }

    async fn user(&self, token: &str) -> Result<Option<User>, Status> {
        let key = self.desk.key(token);
        if let Some(known) = self.desk.remembered(&key) {
            return Ok(known.user);
        }
        let ask = || {
            let (desk, token) = (Arc::clone(&self.desk), token.to_owned());
            async move { desk.ask(key, &token).await }
        };
        let user = self.flights.join(key, ask).await;
        let lost = || ReviewError::Unanswered("the review was lost".to_owned());
        user.unwrap_or_else(|| Err(lost()))
            .map_err(|error| match error {
                ReviewError::Forbidden => {
                    hint::missing_rights("TokenReview");
                    Status::unauthenticated("TokenReview API is unavailable")
                }
                ReviewError::Unanswered(text) => Status::unauthenticated(text),
            })
    }

    async fn refusal(&self, user: &User) -> Result<Option<String>, Status> {
        let now = self.desk.clock.now().steady;
        if let Some(known) = self.refusals.get(user, now) {
            return Ok(known);
        }
        let refusal = self.desk.reviews.refusal(user, &self.workspace).await;
        let refusal = refusal.map_err(|error| match error {
            ReviewError::Forbidden => {
                hint::missing_rights("SubjectAccessReview");
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

/// What stands for a token in memory. The token can't be had back from it, and it is worth nothing in another process.
type TokenKey = [u8; 32];

/// Knows or finds out who a token belongs to.
struct Desk<R> {
    reviews: R,
    audiences: Vec<String>,
    clock: Arc<dyn Clock>,
    secret: hmac::Key,
    users: Cache<TokenKey, Known>,
}

/// What is known of a token.
#[derive(Clone)]
struct Known {
    user: Option<User>,
    /// When the token itself ends, if it says so.
    end: Option<Timestamp>,
}

impl<R: Reviews> Desk<R> {
    fn key(&self, token: &str) -> TokenKey {
        let mut key = TokenKey::default();
        key.copy_from_slice(hmac::sign(&self.secret, token.as_bytes()).as_ref());
        key
    }

    fn remembered(&self, key: &TokenKey) -> Option<Known> {
        let Moment { steady, wall } = self.clock.now();
        let known = self.users.get(key, steady)?;
        // By the wall clock as well: the other one stands still while a machine sleeps.
        let ended = known.end.is_some_and(|end| end <= wall);
        (!ended).then_some(known)
    }

    /// An error is not remembered.
    async fn ask(&self, key: TokenKey, token: &str) -> Result<Option<User>, ReviewError> {
        let user = self.reviews.user(token, &self.audiences).await?;
        let (lasting, end) = match &user {
            Some(_) => (KNOWN_USER, end_of(token)),
            None => (UNKNOWN_USER, None),
        };
        let known = Known {
            user: user.clone(),
            end,
        };
        let now = self.clock.now().steady;
        self.users.put(key, known, lasting, now);
        Ok(user)
    }
}

/// When the token says that it ends.
fn end_of(token: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Claims {
        exp: Option<i64>,
    }
    let payload = token.split('.').nth(1)?;
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Claims = serde_json::from_slice(&payload).ok()?;
    Timestamp::from_second(claims.exp?).ok()
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
