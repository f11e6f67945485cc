//! Reviews by the API server.

use std::{error::Error, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus},
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
        SubjectAccessReviewStatus,
    },
};
use kube::{Api, Client, api::PostParams};
use tokio::time::{sleep, timeout};

use super::{Decision, ReviewApi, ReviewError, User, retry::retry};

/// For one review with all its attempts.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
const FORBIDDEN: u16 = 403;

/// The right that a `SubjectAccessReview` checks.
#[derive(Clone, Debug)]
pub enum Access {
    Resource(Box<ResourceAttributes>),
    NonResource(NonResourceAttributes),
}

/// Reviews by the API server, for one audience and one right.
pub struct ApiServerReviews {
    client: Client,
    /// Of these one must be the token's. Empty for tokens of the API server itself.
    audiences: Vec<String>,
    access: Access,
    with_retries: bool,
}

impl ApiServerReviews {
    #[must_use]
    pub fn new(client: Client, audiences: Vec<String>, access: Access) -> Self {
        Self {
            client,
            audiences,
            access,
            with_retries: false,
        }
    }

    /// Retries transient errors, for callers that wait long enough.
    #[must_use]
    pub fn with_retries(self) -> Self {
        Self {
            with_retries: true,
            ..self
        }
    }

    async fn create<K: Review>(&self, review: &K) -> Result<K, ReviewError> {
        let api: Api<K> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        let attempt = || api.create(&parameters, review);
        let created = async {
            if self.with_retries {
                retry(attempt, sleep).await
            } else {
                attempt().await
            }
        };
        let created = timeout(REVIEW_TIMEOUT, created).await.map_err(|_| {
            let (kind, limit) = (K::kind(&()), REVIEW_TIMEOUT.as_secs());
            let text = format!("the API server did not respond to a {kind} in {limit} seconds");
            ReviewError::Failed(text)
        })?;
        created.map_err(|error| match error {
            kube::Error::Api(status) if status.code == FORBIDDEN => ReviewError::Forbidden,
            error => ReviewError::Failed(full_text(&error)),
        })
    }
}

impl ReviewApi for ApiServerReviews {
    async fn authenticate(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let audiences = Some(self.audiences.clone()).filter(|audiences| !audiences.is_empty());
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences,
            },
            ..Default::default()
        };
        let review = self.create(&review).await?;
        authenticated_user(review.status.unwrap_or_default(), &self.audiences)
    }

    async fn authorize(&self, user: &User) -> Result<Decision, ReviewError> {
        let (resource_attributes, non_resource_attributes) = match self.access.clone() {
            Access::Resource(attributes) => (Some(*attributes), None),
            Access::NonResource(attributes) => (None, Some(attributes)),
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: user.uid.clone(),
                groups: Some(user.groups.clone()),
                extra: Some(user.extra.clone()),
                resource_attributes,
                non_resource_attributes,
            },
            ..Default::default()
        };
        let status = self.create(&review).await?.status;
        Ok(match status {
            Some(SubjectAccessReviewStatus { allowed: true, .. }) => Decision::Allowed,
            other => {
                let reason = other.and_then(|status| status.reason);
                let reason = reason.filter(|reason| !reason.is_empty());
                Decision::Denied(reason.unwrap_or_else(|| "forbidden".to_owned()))
            }
        })
    }
}

/// The user of a reviewed token.
///
/// Audiences are checked first: an API server that does not support them returns none, and then its
/// user is not authenticated for us.
fn authenticated_user(
    status: TokenReviewStatus,
    audiences: &[String],
) -> Result<Option<User>, ReviewError> {
    let granted = status.audiences.unwrap_or_default();
    let has_audience = granted.iter().any(|audience| audiences.contains(audience));
    if !audiences.is_empty() && !has_audience {
        return Ok(None);
    }
    if status.authenticated != Some(true) {
        // Without audiences the error says only that the token is invalid.
        let error = status
            .error
            .filter(|error| !error.is_empty() && !audiences.is_empty());
        return error.map_or(Ok(None), |error| Err(ReviewError::Failed(error)));
    }
    let user = status.user.unwrap_or_default();
    Ok(Some(User {
        name: user.username.unwrap_or_default(),
        uid: user.uid,
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    }))
}

/// A review as the API takes and returns it.
trait Review:
    kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
    + Clone
    + std::fmt::Debug
    + serde::Serialize
    + serde::de::DeserializeOwned
{
}

impl Review for TokenReview {}
impl Review for SubjectAccessReview {}

/// An error with its causes, without the repetitions of causes that include their own.
fn full_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_text = error.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    fn status(audiences: &[&str], authenticated: bool, error: &str) -> TokenReviewStatus {
        TokenReviewStatus {
            audiences: Some(audiences.iter().map(ToString::to_string).collect()),
            authenticated: Some(authenticated),
            error: Some(error.to_owned()),
            user: Some(UserInfo {
                username: Some("caller".to_owned()),
                ..UserInfo::default()
            }),
        }
    }

    fn user_name(
        status: TokenReviewStatus,
        audiences: &[String],
    ) -> Result<Option<String>, String> {
        let user = authenticated_user(status, audiences);
        user.map(|user| user.map(|user| user.name))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn token_review_checks_audience_first() {
        let table = [
            (status(&["ws.ns"], true, ""), Ok(Some("caller"))),
            (status(&["other.ns", "ws.ns"], true, ""), Ok(Some("caller"))),
            (status(&["other.ns"], true, ""), Ok(None)),
            (status(&[], true, ""), Ok(None)),
            (status(&[], false, "bad token"), Ok(None)),
            (status(&["ws.ns"], false, ""), Ok(None)),
            (status(&["ws.ns"], false, "bad token"), Err("bad token")),
            (TokenReviewStatus::default(), Ok(None)),
        ];
        for (status, expected) in table {
            let text = format!("{status:?}");
            let expected = expected.map(|name| name.map(str::to_owned));
            assert_eq!(
                user_name(status, &["ws.ns".to_owned()]),
                expected.map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn token_review_without_audience_needs_authentication() {
        let caller = Ok(Some("caller".to_owned()));
        assert_eq!(user_name(status(&[], true, ""), &[]), caller);
        assert_eq!(user_name(status(&["api"], true, ""), &[]), caller);
        assert_eq!(user_name(status(&[], false, "bad token"), &[]), Ok(None));
        assert_eq!(user_name(TokenReviewStatus::default(), &[]), Ok(None));
    }
}
