//! Tokens of service accounts.

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec, TokenRequestStatus},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};

use crate::{RequestError, objects::request_error};

/// Requests a token of a service account for one audience. The response may lack a token.
pub async fn request_token(
    client: &Client,
    (namespace, account): (&str, &str),
    audience: &str,
) -> Result<Option<TokenRequestStatus>, RequestError> {
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
    Ok(response.status)
}
