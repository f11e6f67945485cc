//! Where the CLI leaves the events of an operation: a file, or since 3.205 a listener of ours. Either
//! way they end up as lines of the run's journal.

use std::{
    fs::File,
    io::{self, Write},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

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

use super::event_log::Lines;

/// How often a file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long the listener is waited for after the end, if something holds the connection open.
const CONNECTION_AFTER_END: Duration = Duration::from_secs(2);

/// How many events may wait; then the CLI does.
const AHEAD: usize = 64;

/// Where the CLI leaves the events of one operation.
pub(crate) enum EventSink {
    /// The CLI writes the journal itself.
    File { lines: Lines, path: PathBuf },
    /// The CLI sends them here.
    Listener(Listener),
}

impl EventSink {
    /// The CLI is to write them.
    pub(crate) fn file(journal: &Path) -> Self {
        Self::File {
            lines: Lines::of(journal.to_owned()),
            path: journal.to_owned(),
        }
    }

    /// The CLI is to send them.
    pub(crate) async fn listener(journal: &Path) -> io::Result<Self> {
        Listener::open(journal).await.map(Self::Listener)
    }

    /// What `--event-log` is to be.
    pub(crate) fn argument(&self) -> String {
        match self {
            Self::File { path, .. } => path.display().to_string(),
            Self::Listener(listener) => format!("tcp://127.0.0.1:{}", listener.port),
        }
    }

    /// The next event, which is in the journal by then. Waits until there is one, for ever if need
    /// be: whoever waits also watches the CLI. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::File { lines, .. } => loop {
                if let Some(line) = lines.next().await? {
                    return Ok(line);
                }
                sleep(LOOK_EVERY).await;
            },
            Self::Listener(listener) => match listener.events.recv().await {
                Some(event) => listener.keep(event),
                None => std::future::pending().await,
            },
        }
    }

    /// The next event after the CLI has ended, or nothing if there are no more.
    pub(crate) async fn rest(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::File { lines, .. } => lines.next().await,
            Self::Listener(listener) => match listener.last().await {
                Some(event) => listener.keep(event).map(Some),
                None => Ok(None),
            },
        }
    }
}

/// Takes the events of one operation, on a port of its own that only this machine can reach.
pub(crate) struct Listener {
    port: u16,
    server: JoinHandle<()>,
    events: mpsc::Receiver<String>,
    journal: File,
}

impl Listener {
    async fn open(journal: &Path) -> io::Result<Self> {
        let journal = File::create(journal)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (sender, events) = mpsc::channel(AHEAD);
        let service =
            EventsServer::new(Receiver(sender)).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let serve = Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        let server = tokio::spawn(async move {
            if let Err(error) = serve.await {
                tracing::warn!(%error, "The events of pulumi can't be listened to");
            }
        });
        Ok(Self {
            port,
            server,
            events,
            journal,
        })
    }

    /// The CLI has waited for the answer before it ended, so what is left is here or lost.
    async fn last(&mut self) -> Option<String> {
        if let Ok(event) = self.events.try_recv() {
            return Some(event);
        }
        // No connection, no more events: a CLI that never called is not waited for.
        self.server.abort();
        let next = timeout(CONNECTION_AFTER_END, self.events.recv()).await;
        next.unwrap_or_else(|_| {
            tracing::warn!("Something that pulumi left behind holds its event stream open");
            None
        })
    }

    fn keep(&mut self, event: String) -> io::Result<Vec<u8>> {
        let mut line = event.into_bytes();
        line.truncate(line.trim_ascii_end().len());
        // A line is an event.
        line.iter_mut()
            .filter(|byte| **byte == b'\n')
            .for_each(|byte| *byte = b' ');
        line.push(b'\n');
        self.journal.write_all(&line)?;
        line.pop();
        Ok(line)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The service that the CLI calls.
struct Receiver(mpsc::Sender<String>);

#[tonic::async_trait]
impl Events for Receiver {
    async fn stream_events(
        &self,
        request: Request<Streaming<EventRequest>>,
    ) -> Result<Response<()>, Status> {
        let mut events = request.into_inner();
        while let Some(event) = events.message().await? {
            let taken = self.0.send(event.event).await;
            taken.map_err(|_| Status::cancelled("the operation has ended"))?;
        }
        Ok(Response::new(()))
    }
}
