//! `--auth-mode kube`: the API server reviews a caller's token and its right to use this Workspace.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Client;
use pko_auth::reviews::{
    Access, ApiServerReviews, CacheLifetimes, CachedAuthorizer, Denial, Moment, ReviewError,
    ReviewKind, User,
};
use tonic::Status;

use super::{auth_delegator, layer::Rejection};

/// Upstream's.
const CACHE_LIFETIMES: CacheLifetimes = CacheLifetimes {
    authenticated: Duration::from_hours(1),
    unauthenticated: Duration::from_mins(1),
    allowed: Duration::from_mins(5),
    denied: Duration::from_secs(5),
};

/// The Workspace of this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkspaceName {
    pub(super) namespace: String,
    pub(super) name: String,
}

pub(super) struct KubernetesAuthorizer(CachedAuthorizer<ApiServerReviews>);

impl KubernetesAuthorizer {
    /// Fails if the system provides no random numbers.
    pub(super) fn new(
        client: Client,
        audiences: Vec<String>,
        workspace: WorkspaceName,
    ) -> Result<Self, ring::error::Unspecified> {
        let access = Access::Resource(Box::new(use_of(workspace)));
        let reviews = ApiServerReviews::new(client, audiences, access).with_retries();
        CachedAuthorizer::new(reviews, CACHE_LIFETIMES).map(Self)
    }

    pub(super) async fn authorize(&self, token: &str) -> Result<User, Rejection> {
        let user = self.0.authorize(token, Moment::now()).await;
        user.map_err(|denial| {
            if let Denial::Unverified { review, error, .. } = &denial
                && *error == ReviewError::Forbidden
            {
                auth_delegator::log_missing_role(review.as_str());
            }
            rejection(denial)
        })
    }
}

/// Codes and messages are upstream's.
fn rejection(denial: Denial) -> Rejection {
    match denial {
        Denial::Unauthenticated => Status::unauthenticated("unauthenticated").into(),
        Denial::Forbidden { user, reason } => Rejection {
            status: Status::permission_denied(reason),
            user: Some(user),
        },
        Denial::Unverified {
            user,
            review,
            error,
        } => Rejection {
            status: match (error, review) {
                (ReviewError::Forbidden, review) => {
                    Status::unauthenticated(format!("{} API is unavailable", review.as_str()))
                }
                (ReviewError::Failed(text), ReviewKind::TokenReview) => {
                    Status::unauthenticated(text)
                }
                (ReviewError::Failed(text), ReviewKind::SubjectAccessReview) => {
                    Status::unknown(text)
                }
            },
            user,
        },
    }
}

fn use_of(workspace: WorkspaceName) -> ResourceAttributes {
    ResourceAttributes {
        group: Some("auto.pulumi.com".to_owned()),
        version: Some("v1alpha1".to_owned()),
        resource: Some("workspaces".to_owned()),
        subresource: Some("rpc".to_owned()),
        verb: Some("use".to_owned()),
        namespace: Some(workspace.namespace),
        name: Some(workspace.name),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn unverified(review: ReviewKind, error: ReviewError) -> Denial {
        Denial::Unverified {
            user: None,
            review,
            error,
        }
    }

    #[test]
    fn rejection_has_upstream_code_and_message() {
        let failed = || ReviewError::Failed("too late".to_owned());
        let (token, access) = (ReviewKind::TokenReview, ReviewKind::SubjectAccessReview);
        let table = [
            (
                Denial::Unauthenticated,
                Code::Unauthenticated,
                "unauthenticated",
            ),
            (
                unverified(token, ReviewError::Forbidden),
                Code::Unauthenticated,
                "TokenReview API is unavailable",
            ),
            (
                unverified(token, failed()),
                Code::Unauthenticated,
                "too late",
            ),
            (
                unverified(access, ReviewError::Forbidden),
                Code::Unauthenticated,
                "SubjectAccessReview API is unavailable",
            ),
            (unverified(access, failed()), Code::Unknown, "too late"),
            (
                Denial::Forbidden {
                    user: User::default(),
                    reason: "forbidden".to_owned(),
                },
                Code::PermissionDenied,
                "forbidden",
            ),
        ];
        for (denial, code, message) in table {
            let status = rejection(denial).status;
            assert_eq!((status.code(), status.message()), (code, message));
        }
    }

    #[test]
    fn rejection_names_authenticated_user() {
        let user = User::default();
        let forbidden = Denial::Forbidden {
            user: user.clone(),
            reason: "forbidden".to_owned(),
        };
        assert_eq!(rejection(forbidden).user, Some(user));
        assert_eq!(rejection(Denial::Unauthenticated).user, None);
    }

    #[test]
    fn access_review_checks_use_of_this_workspace() {
        let attributes = use_of(WorkspaceName {
            namespace: "ns".to_owned(),
            name: "ws".to_owned(),
        });
        assert_eq!(attributes.namespace.as_deref(), Some("ns"));
        assert_eq!(attributes.name.as_deref(), Some("ws"));
        assert_eq!(attributes.verb.as_deref(), Some("use"));
    }

    #[test]
    fn cache_lifetimes_are_upstreams() {
        let CacheLifetimes {
            authenticated,
            unauthenticated,
            allowed,
            denied,
        } = CACHE_LIFETIMES;
        let seconds = [authenticated, unauthenticated, allowed, denied].map(|time| time.as_secs());
        assert_eq!(seconds, [3600, 60, 300, 5]);
    }
}
