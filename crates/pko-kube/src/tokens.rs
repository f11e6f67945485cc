//! Tokens of service accounts.

use std::time::Duration;

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};

use crate::{RequestError, objects::request_error};

/// A token, and how long it is valid from now on. The time comes from the API server as a duration,
/// so that it does not depend on the clock of this machine.
pub struct RequestedToken {
    pub token: String,
    pub lifetime: Duration,
}

/// The lifetime that the API server grants by default.
const DEFAULT_LIFETIME: Duration = Duration::from_hours(1);

/// Requests a token of a service account for one audience. The response may lack a token.
pub async fn request_token(
    client: &Client,
    (namespace, account): (&str, &str),
    audience: &str,
) -> Result<Option<RequestedToken>, RequestError> {
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec![audience.to_owned()],
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let response = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await;
    let response = response.map_err(request_error::<ServiceAccount>(
        "request a token of",
        namespace,
        account,
    ))?;
    let seconds = response.spec.expiration_seconds;
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Ok(response.status.map(|status| RequestedToken {
        token: status.token,
        lifetime: seconds.map_or(DEFAULT_LIFETIME, Duration::from_secs),
    }))
}
