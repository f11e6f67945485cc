//! A channel to an agent, over TCP or a Unix socket.

use std::{path::PathBuf, time::Duration};

use hyper_util::rt::TokioIo;
use pko_proto::{
    MAX_HEADER_BYTES, MAX_MESSAGE_BYTES, agent::automation_service_client::AutomationServiceClient,
    run::run_service_client::RunServiceClient,
};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// How long an agent may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The agent's services, on one channel.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) automation: AutomationServiceClient<Channel>,
    pub(crate) runs: RunServiceClient<Channel>,
}

/// Connects to an agent: `unix:PATH` or `host:port`.
pub(crate) async fn connect(address: &str) -> Result<Connection, tonic::transport::Error> {
    let channel = match address.strip_prefix("unix:") {
        Some(path) => through_socket(path.into()).await?,
        None => endpoint(format!("http://{address}"))?.connect().await?,
    };
    Ok(Connection {
        automation: AutomationServiceClient::new(channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES),
        runs: RunServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES),
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
