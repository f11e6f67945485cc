//! The destination of engine events: none, a file, or a listener over gRPC.

use std::{
    fs::File,
    io::Write,
    thread::{self, JoinHandle},
};

use pko_proto::events::{EventRequest, events_client::EventsClient};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Endpoint;

use crate::cli_error::CliResult;

#[derive(Debug)]
pub(crate) enum EventSink {
    Nowhere,
    File(File),
    Listener {
        events: UnboundedSender<EventRequest>,
        sending: JoinHandle<()>,
    },
}

impl EventSink {
    pub(crate) fn open(target: Option<&str>) -> CliResult<Self> {
        let Some(target) = target else {
            return Ok(Self::Nowhere);
        };
        let Some(address) = target.strip_prefix("tcp://") else {
            return Ok(Self::File(File::create(target)?));
        };
        let (events, receiver) = unbounded_channel();
        let address = format!("http://{address}");
        let sending = thread::spawn(move || send(address, receiver));
        Ok(Self::Listener { events, sending })
    }

    /// One event, which is JSON.
    pub(crate) fn emit(&mut self, mut event: String) -> CliResult<()> {
        match self {
            Self::Nowhere => {}
            Self::File(file) => {
                event.push('\n');
                file.write_all(event.as_bytes())?;
            }
            // A missing listener is ignored.
            Self::Listener { events, .. } => drop(events.send(EventRequest { event })),
        }
        Ok(())
    }

    /// Ends the stream, and waits for the listener's answer.
    pub(crate) fn close(self) {
        if let Self::Listener { events, sending } = self {
            drop(events);
            // The thread only ends early if the listener is not there.
            let _ = sending.join();
        }
    }
}

/// Sends all events in one call. As in the real CLI, a listener that can't be reached is not
/// mentioned.
fn send(address: String, events: UnboundedReceiver<EventRequest>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let sending = async {
        let channel = Endpoint::from_shared(address).ok()?.connect().await.ok()?;
        let events = UnboundedReceiverStream::new(events);
        EventsClient::new(channel).stream_events(events).await.ok()
    };
    if let Ok(runtime) = runtime {
        runtime.block_on(sending);
    }
}
