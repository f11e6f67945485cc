//! Sends events to a TCP address: a client of Pulumi's service `pulumirpc.Events`.
//!
//! As in Pulumi's CLI, the run continues without a listener. Events are sent in order.

use std::{
    sync::mpsc::{self, Receiver},
    thread::JoinHandle,
    time::Duration,
};

use http::uri::PathAndQuery;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::{StreamExt as _, wrappers::UnboundedReceiverStream};
use tonic::{Request, client::Grpc, transport::Endpoint};
use tonic_prost::ProstCodec;

/// How long to wait for the connection, and at the end for the response.
const PATIENCE: Duration = Duration::from_secs(10);

/// One event, as JSON.
#[derive(Clone, PartialEq, prost::Message)]
struct EventRequest {
    #[prost(string, tag = "1")]
    event: String,
}

/// Sends events.
#[derive(Debug)]
pub(crate) struct EventStream {
    events: Option<UnboundedSender<String>>,
    ended: Receiver<()>,
    sender: Option<JoinHandle<()>>,
}

impl EventStream {
    /// Connects to an address such as `127.0.0.1:4000`.
    #[must_use]
    pub(crate) fn open(address: &str) -> Self {
        let (events, queue) = unbounded_channel();
        let (end, ended) = mpsc::channel();
        let address = format!("http://{address}");
        let sender = std::thread::spawn(move || {
            send(&address, queue);
            _ = end.send(());
        });
        Self {
            events: Some(events),
            ended,
            sender: Some(sender),
        }
    }

    /// Sends an event, unless the connection has failed.
    pub(crate) fn send(&self, event: String) {
        if let Some(events) = &self.events {
            _ = events.send(event);
        }
    }
}

impl Drop for EventStream {
    /// Waits until all events are delivered, unless the listener does not read them.
    fn drop(&mut self) {
        self.events = None;
        if self.ended.recv_timeout(PATIENCE).is_ok()
            && let Some(sender) = self.sender.take()
        {
            _ = sender.join();
        }
    }
}

fn send(address: &str, queue: UnboundedReceiver<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    if let Ok(runtime) = runtime {
        // a missing listener must not fail the run
        _ = runtime.block_on(stream(address, queue));
    }
}

async fn stream(
    address: &str,
    queue: UnboundedReceiver<String>,
) -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = Endpoint::from_shared(address.to_owned())?.connect_timeout(PATIENCE);
    let mut client = Grpc::new(endpoint.connect().await?);
    client.ready().await?;
    let events = UnboundedReceiverStream::new(queue).map(|event| EventRequest { event });
    let path = PathAndQuery::from_static("/pulumirpc.Events/StreamEvents");
    let codec = ProstCodec::<EventRequest, ()>::default();
    client
        .client_streaming(Request::new(events), path, codec)
        .await?;
    Ok(())
}
