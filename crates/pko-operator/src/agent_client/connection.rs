//! A channel to an agent, over TCP or a Unix socket.

use std::{path::PathBuf, time::Duration};

use hyper_util::rt::TokioIo;
use pko_proto::{
    MAX_HEADER_BYTES, MAX_MESSAGE_BYTES, agent::automation_service_client::AutomationServiceClient,
    run::run_service_client::RunServiceClient,
};
use tokio::net::UnixStream;
use tonic::{
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint, Uri},
};
use tower::service_fn;

use super::credentials::{Caller, Credentials, CredentialsError};

/// How long an agent may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A channel on which each call has its token.
type Authorized = InterceptedService<Channel, Caller>;

/// The agent's services, on one channel, for the calls of the next moments: its token is not renewed.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) automation: AutomationServiceClient<Authorized>,
    pub(crate) runs: RunServiceClient<Authorized>,
}

/// Why an agent can't be talked to.
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
    let caller = credentials.caller().await?;
    let channel = match address.strip_prefix("unix:") {
        Some(path) => through_socket(path.into()).await?,
        None => endpoint(format!("http://{address}"))?.connect().await?,
    };
    Ok(Connection {
        automation: AutomationServiceClient::with_interceptor(channel.clone(), caller.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES),
        runs: RunServiceClient::with_interceptor(channel, caller)
            .max_decoding_message_size(MAX_MESSAGE_BYTES),
    })
}

fn endpoint(uri: String) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(uri)?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_max_header_list_size(MAX_HEADER_BYTES))
}

async fn through_socket(path: PathBuf) -> Result<Channel, tonic::transport::Error> {
    // The name is for the request's headers only; the socket is the address.
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    endpoint("http://workspace".to_owned())?
        .connect_with_connector(connector)
        .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::HeaderMap;
    use futures::stream;
    use pko_proto::{
        agent::InstallRequest,
        run::ListRunsRequest,
        token::{SigningKey, verify},
    };
    use tokio::net::UnixListener;
    use tonic::{Code, Status, service::Routes, transport::Server};

    use super::*;
    use crate::agent_client::ManagerTokens;

    /// An agent that refuses every call in the same way, and its address.
    fn refusing(refuse: impl Fn(&HeaderMap) -> Status + Clone + Send + Sync + 'static) -> Agent {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let connections = stream::unfold(listener, |listener| async {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let handler = move |headers: HeaderMap| async move {
            refuse(&headers).into_http::<axum::body::Body>()
        };
        let routes = Routes::from(axum::Router::new().fallback(handler));
        let served = Server::builder().add_routes(routes);
        tokio::spawn(served.serve_with_incoming(connections));
        Agent {
            address: format!("unix:{}", socket.display()),
            _folder: folder,
        }
    }

    struct Agent {
        address: String,
        _folder: tempfile::TempDir,
    }

    #[tokio::test]
    async fn a_long_failure_arrives_whole() {
        let message = "output of the CLI, ".repeat(60 * 1024 / 19);
        let details = vec![7; 60 * 1024];
        let failure = Status::with_details(Code::Unknown, &message, details.clone().into());
        let agent = refusing(move |_| failure.clone());
        let connection = connect(&agent.address, &Credentials::Nothing).await;
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
    async fn a_token_goes_with_each_call() {
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
        let connection = connect(&agent.address, &Credentials::Nothing).await;
        let status = connection.unwrap().runs.list_runs(ListRunsRequest {}).await;
        assert_eq!(status.unwrap_err().message(), "none");
    }

    #[tokio::test]
    async fn without_a_token_there_is_no_call() {
        let error = connect("localhost:1", &Credentials::Unknown).await.err();
        assert!(error.unwrap().to_string().contains("POD_SA_NAME"));
    }
}
