//! Asks the Kubernetes API.

use std::{error::Error, path::Path, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus},
    authorization::v1::{
        ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
    },
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::time::{sleep, timeout};

use super::{
    kubernetes::{ReviewError, Reviews, User, WorkspaceName},
    retry::retry,
};

/// For one review with all its attempts.
const WHOLE_REVIEW: Duration = Duration::from_secs(10);
const FORBIDDEN: u16 = 403;

/// There is no way to ask.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("unable to load the kubeconfig: {0}")]
    Kubeconfig(String),
    #[error("unable to initialize the Kubernetes authorizer")]
    Client(#[source] kube::Error),
}

/// Reviews by the API server.
pub(super) struct ApiReviews {
    client: Client,
}

impl ApiReviews {
    /// By the named kubeconfig file, else `KUBECONFIG`, else the pod's own account, else the user's.
    pub(super) async fn new(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self, ClientError> {
        let config = config(kubeconfig, context)
            .await
            .map_err(ClientError::Kubeconfig)?;
        let client = Client::try_from(config).map_err(ClientError::Client)?;
        Ok(Self { client })
    }
}

async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, String> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..Default::default()
    };
    let file = match kubeconfig {
        Some(path) => Some(Kubeconfig::read_from(path).map_err(|error| error.to_string())?),
        None => Kubeconfig::from_env().map_err(|error| error.to_string())?,
    };
    if let Some(file) = file {
        let config = Config::from_custom_kubeconfig(file, &options).await;
        return config.map_err(|error| error.to_string());
    }
    if let Ok(config) = Config::incluster() {
        return Ok(config);
    }
    let config = Config::from_kubeconfig(&options).await;
    config.map_err(|error| error.to_string())
}

impl Reviews for ApiReviews {
    async fn user(&self, token: &str, audiences: &[String]) -> Result<Option<User>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: Some(audiences.to_vec()),
            },
            ..Default::default()
        };
        let answer = self.ask(&review).await?;
        reviewed(answer.status.unwrap_or_default(), audiences)
    }

    async fn refusal(
        &self,
        user: &User,
        workspace: &WorkspaceName,
    ) -> Result<Option<String>, ReviewError> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: user.uid.clone(),
                groups: Some(user.groups.clone()),
                extra: Some(user.extra.clone()),
                resource_attributes: Some(use_of(workspace)),
                ..Default::default()
            },
            ..Default::default()
        };
        let status = self.ask(&review).await?.status;
        Ok(match status {
            Some(SubjectAccessReviewStatus { allowed: true, .. }) => None,
            other => {
                let reason = other.and_then(|status| status.reason);
                Some(
                    reason
                        .filter(|reason| !reason.is_empty())
                        .unwrap_or("forbidden".into()),
                )
            }
        })
    }
}

/// Whose token it is, as the API server says. The audience is looked at first: an API server that knows nothing of
/// audiences says nothing of them, and then whoever it names is not meant for us.
fn reviewed(status: TokenReviewStatus, audiences: &[String]) -> Result<Option<User>, ReviewError> {
    let granted = status.audiences.unwrap_or_default();
    if !granted.iter().any(|audience| audiences.contains(audience)) {
        return Ok(None);
    }
    if status.authenticated != Some(true) {
        let error = status.error.filter(|error| !error.is_empty());
        return error.map_or(Ok(None), |error| Err(ReviewError::Unanswered(error)));
    }
    let user = status.user.unwrap_or_default();
    Ok(Some(User {
        name: user.username.unwrap_or_default(),
        uid: user.uid,
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    }))
}

fn use_of(workspace: &WorkspaceName) -> ResourceAttributes {
    ResourceAttributes {
        group: Some("auto.pulumi.com".to_owned()),
        version: Some("v1alpha1".to_owned()),
        resource: Some("workspaces".to_owned()),
        subresource: Some("rpc".to_owned()),
        verb: Some("use".to_owned()),
        namespace: Some(workspace.namespace.clone()),
        name: Some(workspace.name.clone()),
        ..Default::default()
    }
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

impl ApiReviews {
    async fn ask<K: Review>(&self, review: &K) -> Result<K, ReviewError> {
        let api: Api<K> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        let asked = retry(|| api.create(&parameters, review), sleep);
        let asked = timeout(WHOLE_REVIEW, asked).await;
        let kind = K::kind(&());
        let late = |_| {
            let limit = WHOLE_REVIEW.as_secs();
            let text = format!("the API server did not answer a {kind} in {limit} seconds");
            ReviewError::Unanswered(text)
        };
        asked.map_err(late)?.map_err(|error| match error {
            kube::Error::Api(status) if status.code == FORBIDDEN => ReviewError::Forbidden,
            error => ReviewError::Unanswered(full_text(&error)),
        })
    }
}

/// An error with its causes, each once: some repeat theirs.
fn full_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
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

    #[test]
    fn the_audience_is_looked_at_first() {
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
            let user = reviewed(status, &["ws.ns".to_owned()]);
            let name = user.map(|user| user.map(|user| user.name));
            let name = name.map_err(|error| error.to_string());
            let expected = expected.map(|name| name.map(str::to_owned));
            assert_eq!(name, expected.map_err(str::to_owned), "{text}");
        }
    }
}
