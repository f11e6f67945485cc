//! Connections to agents, over TCP or a Unix socket.

use std::{path::PathBuf, time::Duration};

use hyper_util::rt::TokioIo;
use pko_proto::{
    MAX_HEADER_BYTES, MAX_MESSAGE_BYTES, agent::automation_service_client::AutomationServiceClient,
    run::run_service_client::RunServiceClient,
};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use super::authorized::Authorized;
use crate::agents::tokens::{Credentials, CredentialsError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Detects a node that is gone.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Upstream's agent is a Go server, which closes the connection of a client that pings more than
/// once in five minutes, or without a call in progress.
const PING_UPSTREAM_EVERY: Duration = Duration::from_mins(6);

/// The agent's services on one channel, which reconnects by itself. Each call gets its own token.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) automation: AutomationServiceClient<Authorized>,
    pub(crate) runs: RunServiceClient<Authorized>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Transport(#[from] tonic::transport::Error),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

/// Connects to an agent: `unix:PATH` or `host:port`.
pub(crate) async fn connect(
    address: &str,
    credentials: &Credentials,
) -> Result<Connection, ConnectError> {
    credentials.header().await?;
    let channel = match address.strip_prefix("unix:") {
        Some(path) => through_socket(path.into(), credentials).await?,
        None => {
            endpoint(format!("http://{address}"), credentials)?
                .connect()
                .await?
        }
    };
    let authorized = Authorized {
        channel,
        credentials: credentials.clone(),
    };
    Ok(Connection {
        automation: AutomationServiceClient::new(authorized.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES),
        runs: RunServiceClient::new(authorized).max_decoding_message_size(MAX_MESSAGE_BYTES),
    })
}

fn endpoint(uri: String, credentials: &Credentials) -> Result<Endpoint, tonic::transport::Error> {
    let is_upstream = credentials.may_be_upstream();
    let ping_every = if is_upstream {
        PING_UPSTREAM_EVERY
    } else {
        PING_EVERY
    };
    let endpoint = Endpoint::from_shared(uri)?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Some(PING_EVERY))
        .http2_keep_alive_interval(ping_every)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(!is_upstream)
        .http2_max_header_list_size(MAX_HEADER_BYTES))
}

async fn through_socket(
    path: PathBuf,
    credentials: &Credentials,
) -> Result<Channel, tonic::transport::Error> {
    // The name is for the request headers only; the socket is the address.
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    endpoint("http://workspace".to_owned(), credentials)?
        .connect_with_connector(connector)
        .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::HeaderMap;
    use pko_auth::token::{SigningKey, verify};
    use pko_proto::{agent::InstallRequest, run::ListRunsRequest};
    use tonic::{Code, Status, service::Routes};

    use super::*;
    use crate::agents::{ManagerTokens, test_agent::TestAgent};

    /// An agent that rejects every call with the same status.
    fn refusing(
        refuse: impl Fn(&HeaderMap) -> Status + Clone + Send + Sync + 'static,
    ) -> TestAgent {
        let handler = move |headers: HeaderMap| async move {
            refuse(&headers).into_http::<axum::body::Body>()
        };
        TestAgent::serve(Routes::from(axum::Router::new().fallback(handler)))
    }

    #[tokio::test]
    async fn connection_receives_long_failures() {
        let message = "output of the CLI, ".repeat(60 * 1024 / 19);
        let details = vec![7; 60 * 1024];
        let failure = Status::with_details(Code::Unknown, &message, details.clone().into());
        let agent = refusing(move |_| failure.clone());
        let connection = connect(&agent.address, &Credentials::None).await;
        let mut connection = connection.unwrap();
        for status in [
            connection.automation.install(InstallRequest {}).await.err(),
            connection.runs.list_runs(ListRunsRequest {}).await.err(),
        ] {
            let status = status.unwrap();
            assert_eq!(status.code(), Code::Unknown);
            assert!(status.message() == message && status.details() == details);
        }
    }

    #[tokio::test]
    async fn connection_sends_a_token_with_each_call() {
        let agent = refusing(|headers| {
            let header = headers.get("authorization");
            let header = header.map(|value| value.to_str().unwrap());
            Status::unauthenticated(header.unwrap_or("none"))
        });
        let key = SigningKey::generate().unwrap();
        let keys = [key.public_key()];
        let credentials = Credentials::Manager {
            tokens: Arc::new(ManagerTokens::new(key)),
            audience: "ws.ns".to_owned(),
        };
        let mut connection = connect(&agent.address, &credentials).await.unwrap();
        let status = connection.runs.list_runs(ListRunsRequest {}).await;
        let status = status.unwrap_err();
        let token = status.message().strip_prefix("Bearer ").unwrap();
        let now = jiff::Timestamp::now();
        assert!(verify(token, &keys, &["ws.ns".to_owned()], now).is_ok());
        let status = connection.automation.install(InstallRequest {}).await;
        assert!(status.unwrap_err().message().starts_with("Bearer "));
        let connection = connect(&agent.address, &Credentials::None).await;
        let status = connection.unwrap().runs.list_runs(ListRunsRequest {}).await;
        assert_eq!(status.unwrap_err().message(), "none");
    }

    #[tokio::test]
    async fn connection_without_token_fails() {
        let error = connect("localhost:1", &Credentials::Unavailable)
            .await
            .err();
        assert!(error.unwrap().to_string().contains("POD_SA_NAME"));
    }
}
