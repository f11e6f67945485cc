//! Connections to agents, over TCP or a Unix socket.

use std::{path::PathBuf, time::Duration};

use axum::http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use pko_proto::{
    MAX_AGENT_HEADER_BYTES, MAX_CONTROL_BYTES, MAX_RESULT_BYTES,
    agent::automation_service_client::AutomationServiceClient,
    agent_codec::{AgentCodec, FromAgent, Ignored},
    run::run_service_client::RunServiceClient,
};
use tokio::net::UnixStream;
use tonic::{
    Request, Response, Status, Streaming,
    client::Grpc,
    transport::{Channel, Endpoint, Uri},
};
use tower::service_fn;

use super::{authorized::Authorized, receive_budget::ReceiveShare};
use crate::agents::tokens::{Credentials, CredentialsError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Detects a node that is gone.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Upstream's agent is a Go server, which closes the connection of a client that pings more than
/// once in five minutes, or without a call in progress.
const PING_UPSTREAM_EVERY: Duration = Duration::from_mins(6);

/// An agent of upstream puts the whole output of the CLI into the trailers of a failed run.
pub(super) const MAX_UPSTREAM_HEADER_BYTES: u32 = 1024 * 1024;
/// What an agent may have on its way to the manager, on one stream and on all.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// A message of which only the arrival matters.
const MAX_IGNORED_BYTES: usize = 64 * 1024;

/// The agent's services on one channel, which reconnects by itself. Each call gets its own token.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) automation: AutomationServiceClient<Authorized>,
    pub(crate) runs: RunServiceClient<Authorized>,
    authorized: Authorized,
}

impl Connection {
    /// Calls a method whose response may have the result of a run.
    pub(super) async fn call<Q, R>(
        &self,
        path: &'static str,
        request: Q,
    ) -> Result<Response<R>, Status>
    where
        Q: prost::Message + 'static,
        R: FromAgent,
    {
        let mut client = self.client(MAX_RESULT_BYTES).await?;
        let path = PathAndQuery::from_static(path);
        client
            .unary(Request::new(request), path, AgentCodec::default())
            .await
    }

    /// Calls a method whose response is a stream with the result of a run.
    pub(in crate::agents) async fn stream<Q, R>(
        &self,
        path: &'static str,
        request: Q,
    ) -> Result<Streaming<R>, Status>
    where
        Q: prost::Message + 'static,
        R: FromAgent,
    {
        let client = self.client(MAX_RESULT_BYTES).await?;
        streaming(client, path, request).await
    }

    /// Calls a method whose response is a stream, of which only the first message and the end
    /// matter.
    pub(super) async fn signal<Q: prost::Message + 'static>(
        &self,
        path: &'static str,
        request: Q,
    ) -> Result<Streaming<Ignored>, Status> {
        let client = self.client(MAX_IGNORED_BYTES).await?;
        streaming(client, path, request).await
    }

    async fn client(&self, max_bytes: usize) -> Result<Grpc<Authorized>, Status> {
        let client = Grpc::new(self.authorized.clone());
        let mut client = client.max_decoding_message_size(max_bytes);
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(client)
    }
}

async fn streaming<Q, R>(
    mut client: Grpc<Authorized>,
    path: &'static str,
    request: Q,
) -> Result<Streaming<R>, Status>
where
    Q: prost::Message + 'static,
    R: FromAgent,
{
    let path = PathAndQuery::from_static(path);
    let response = client.server_streaming(Request::new(request), path, AgentCodec::default());
    Ok(response.await?.into_inner())
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
    share: ReceiveShare,
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
        share,
    };
    Ok(Connection {
        automation: AutomationServiceClient::new(authorized.clone())
            .max_decoding_message_size(MAX_CONTROL_BYTES),
        runs: RunServiceClient::new(authorized.clone())
            .max_decoding_message_size(MAX_CONTROL_BYTES),
        authorized,
    })
}

fn endpoint(uri: String, credentials: &Credentials) -> Result<Endpoint, tonic::transport::Error> {
    let is_upstream = credentials.may_be_upstream();
    let ping_every = if is_upstream {
        PING_UPSTREAM_EVERY
    } else {
        PING_EVERY
    };
    let max_header_bytes = if is_upstream {
        MAX_UPSTREAM_HEADER_BYTES
    } else {
        MAX_AGENT_HEADER_BYTES
    };
    let endpoint = Endpoint::from_shared(uri)?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Some(PING_EVERY))
        .http2_keep_alive_interval(ping_every)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(!is_upstream)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_max_header_list_size(max_header_bytes))
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
    use parking_lot::Mutex;
    use pko_auth::token::{SigningKey, verify};
    use pko_proto::{agent::InstallRequest, run::ListRunsRequest};
    use tonic::{Code, Status, service::Routes};

    use super::*;
    use crate::agents::{
        ManagerTokens, client::receive_budget::ReceiveBudget, test_agent::TestAgent,
    };

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
        let message = "output of the CLI, ".repeat(20 * 1024 / 19);
        let details = vec![7; 20 * 1024];
        let failure = Status::with_details(Code::Unknown, &message, details.clone().into());
        let agent = refusing(move |_| failure.clone());
        let mut connection = agent.connect().await;
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
        let mut connection = agent.connect_with(&credentials).await.unwrap();
        let status = connection.runs.list_runs(ListRunsRequest {}).await;
        let status = status.unwrap_err();
        let token = status.message().strip_prefix("Bearer ").unwrap();
        let now = jiff::Timestamp::now();
        assert!(verify(token, &keys, &["ws.ns".to_owned()], now).is_ok());
        let status = connection.automation.install(InstallRequest {}).await;
        assert!(status.unwrap_err().message().starts_with("Bearer "));
        let mut connection = agent.connect().await;
        let status = connection.runs.list_runs(ListRunsRequest {}).await;
        assert_eq!(status.unwrap_err().message(), "none");
    }

    /// The clock of one of the two was set: the agent rejects what was signed before.
    #[tokio::test]
    async fn connection_presents_another_token_after_a_rejection() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let agent = refusing(move |headers| {
            let token = headers.get("authorization").cloned();
            notes.lock().push(token.unwrap());
            Status::unauthenticated("the token has expired")
        });
        let tokens = Arc::new(ManagerTokens::new(SigningKey::generate().unwrap()));
        tokens.sign_long_ago("ws.ns");
        let credentials = Credentials::Manager {
            tokens,
            audience: "ws.ns".to_owned(),
        };
        let mut connection = agent.connect_with(&credentials).await.unwrap();
        for _ in 0..2 {
            let status = connection.runs.list_runs(ListRunsRequest {}).await;
            assert_eq!(status.unwrap_err().code(), Code::Unauthenticated);
        }
        let seen = seen.lock();
        assert_eq!(seen.len(), 3, "once more, but not for a new token");
        assert!(seen[0] != seen[1] && seen[1] == seen[2]);
    }

    #[tokio::test]
    async fn connection_without_token_fails() {
        let share = ReceiveBudget::default().share("ns");
        let error = connect("localhost:1", &Credentials::Unavailable, share)
            .await
            .err();
        assert!(error.unwrap().to_string().contains("POD_SA_NAME"));
    }
}
