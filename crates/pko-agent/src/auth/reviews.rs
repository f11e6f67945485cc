//! Asks the Kubernetes API.

use std::{path::Path, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
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

use super::kubernetes::{ReviewError, Reviews, User, WorkspaceName};

const WHOLE_REVIEW: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// There is no way to ask.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("unable to load the kubeconfig: {0}")]
    Kubeconfig(String),
    #[error("unable to initialize the Kubernetes authorizer")]
    Client(#[source] kube::Error),
}

/// Reviews by the API server.
pub(crate) struct ApiReviews {
    client: Client,
}

impl ApiReviews {
    /// By the named kubeconfig file, else `KUBECONFIG`, else the pod's own account, else the user's.
    pub(crate) async fn new(
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
        let status = self.ask(&review).await?.status.unwrap_or_default();
        let granted = status.audiences.unwrap_or_default();
        let meant_for_us = granted.iter().any(|audience| audiences.contains(audience));
        if !meant_for_us || status.authenticated != Some(true) {
            return Ok(None);
        }
        let user = status.user.unwrap_or_default();
        Ok(Some(User {
            name: user.username.unwrap_or_default(),
            uid: user.uid,
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }))
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
        let asked = timeout(WHOLE_REVIEW, retried(&api, review)).await;
        asked.unwrap_or_else(|_| Err(ReviewError::Unanswered("the review timed out".to_owned())))
    }
}

async fn retried<K: Review>(api: &Api<K>, review: &K) -> Result<K, ReviewError> {
    let mut wait = FIRST_WAIT;
    let mut attempt = 1;
    loop {
        match api.create(&PostParams::default(), review).await {
            Ok(answer) => return Ok(answer),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                return Err(ReviewError::Forbidden);
            }
            Err(error) if attempt < ATTEMPTS && may_pass(&error) => {
                sleep(wait).await;
                wait = wait.mul_f64(1.5);
                attempt += 1;
            }
            Err(error) => return Err(ReviewError::Unanswered(error.to_string())),
        }
    }
}

/// An error that may be gone the next time.
fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 503 | 504),
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}
