//! Receives the events of an operation: from a file, or since CLI 3.205 by gRPC. Either way they
//! become lines of the run's journal.

use std::{
    fs::File,
    io::{self, Write},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use pko_auth::Mask;
use pko_proto::{
    MAX_MESSAGE_BYTES,
    events::{
        EventRequest,
        events_server::{Events, EventsServer},
    },
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle, time::sleep, time::timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming, transport::Server};

use super::event_log::LineTail;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long events are awaited after the CLI's exit, if a child keeps the connection open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Events in memory before the CLI has to wait.
const QUEUE_LENGTH: usize = 64;

pub(crate) enum EventSink {
    /// The CLI writes the journal itself.
    File { lines: LineTail, path: PathBuf },
    /// The CLI sends the events by gRPC.
    Listener(EventListener),
}

impl EventSink {
    pub(crate) fn file(journal: &Path) -> Self {
        Self::File {
            lines: LineTail::new(journal.to_owned()),
            path: journal.to_owned(),
        }
    }

    /// The mask applies to the journal, not to what this returns, from which outputs are read.
    pub(crate) async fn listener(journal: &Path, mask: Arc<Mask>) -> io::Result<Self> {
        EventListener::open(journal, mask).await.map(Self::Listener)
    }

    /// The value of `--event-log`.
    pub(crate) fn argument(&self) -> String {
        match self {
            Self::File { path, .. } => path.display().to_string(),
            Self::Listener(listener) => format!("tcp://127.0.0.1:{}", listener.port),
        }
    }

    /// The next event, which is in the journal when this returns, unless the disk is full. Waits
    /// forever if there is none, so callers also wait for the CLI. Cancel safe.
    pub(crate) async fn next(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::File { lines, .. } => loop {
                if let Some(line) = lines.next().await? {
                    return Ok(line);
                }
                sleep(POLL_INTERVAL).await;
            },
            Self::Listener(listener) => match listener.events.recv().await {
                Some(event) => Ok(listener.append(&event)),
                None => std::future::pending().await,
            },
        }
    }

    /// The next event after the CLI's exit, or `None` if there are no more.
    pub(crate) async fn next_after_exit(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::File { lines, .. } => lines.next().await,
            Self::Listener(listener) => {
                let event = listener.next_after_exit().await;
                Ok(event.map(|event| listener.append(&event)))
            }
        }
    }
}

/// Receives the events of one operation on a port of the loopback interface.
pub(crate) struct EventListener {
    port: u16,
    server: JoinHandle<()>,
    events: mpsc::Receiver<String>,
    /// `None` after a failed write: an event's sequence number is its line.
    journal: Option<File>,
    mask: Arc<Mask>,
}

impl EventListener {
    async fn open(journal: &Path, mask: Arc<Mask>) -> io::Result<Self> {
        let journal = File::create(journal)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (sender, events) = mpsc::channel(QUEUE_LENGTH);
        let service =
            EventsServer::new(EventsService(sender)).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let serve = Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        let server = tokio::spawn(async move {
            if let Err(error) = serve.await {
                tracing::warn!(%error, "Failed to receive the events of pulumi");
            }
        });
        Ok(Self {
            port,
            server,
            events,
            journal: Some(journal),
            mask,
        })
    }

    /// The CLI waits for the response before it exits, so the remaining events are queued or lost.
    async fn next_after_exit(&mut self) -> Option<String> {
        if let Ok(event) = self.events.try_recv() {
            return Some(event);
        }
        // Without a connection there are no more events, also from a CLI that never connected.
        self.server.abort();
        let next = timeout(DRAIN_TIMEOUT, self.events.recv()).await;
        next.unwrap_or_else(|_| {
            tracing::warn!("A process that pulumi left behind keeps its event stream open");
            None
        })
    }

    /// Writes an event to the journal. On a full disk the remaining events are not written, but
    /// they are received: otherwise the CLI would wait forever, and its outputs would be lost.
    fn append(&mut self, event: &str) -> Vec<u8> {
        // One event is one line.
        let event = event.trim_ascii_end().replace('\n', " ");
        let written = self
            .journal
            .as_mut()
            .map(|file| file.write_all(format!("{}\n", self.mask.apply_json(&event)).as_bytes()));
        if let Some(Err(error)) = written {
            tracing::error!(%error, "Failed to write the events of pulumi; watchers miss the remaining ones");
            self.journal = None;
        }
        event.into_bytes()
    }
}

impl Drop for EventListener {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct EventsService(mpsc::Sender<String>);

#[tonic::async_trait]
impl Events for EventsService {
    async fn stream_events(
        &self,
        request: Request<Streaming<EventRequest>>,
    ) -> Result<Response<()>, Status> {
        let mut events = request.into_inner();
        while let Some(event) = events.message().await? {
            let sent = self.0.send(event.event).await;
            sent.map_err(|_| Status::cancelled("the operation has ended"))?;
        }
        Ok(Response::new(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/dev/full` fails each write as a full disk does.
    #[tokio::test]
    async fn listener_receives_events_on_full_disk() {
        let full = Path::new("/dev/full");
        let mut listener = EventListener::open(full, Arc::default()).await.unwrap();
        assert_eq!(listener.append("{\n}"), b"{ }");
        assert!(listener.journal.is_none());
        assert_eq!(listener.append("{}\n"), b"{}");
    }

    #[tokio::test]
    async fn listener_masks_journal_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mask = Arc::new(Mask::default());
        mask.add("canary-value");
        let mut listener = EventListener::open(&path, mask).await.unwrap();
        let event = r#"{"text":"a canary-value"}"#;
        assert_eq!(listener.append(event), event.as_bytes());
        let journal = std::fs::read_to_string(&path).unwrap();
        assert_eq!(journal, "{\"text\":\"a [secret]\"}\n");
    }
}
