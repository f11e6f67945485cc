//! The stream of a watch, event by event, with faults in it.

use std::io;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use http::Response;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::newest::{Newest, Turn};
use super::rules::Fate;
use super::serve::{Body, Proxy};

/// What ends the watches that are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing has yet.
    #[default]
    None,
    /// The connection breaks.
    Cut,
    /// The API server has forgotten what was before.
    Gone,
}

/// What an API server says then.
const GONE: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"#,
    r#""status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#,
    "\n"
);

/// What is passed on, and when.
struct Line {
    time: Instant,
    /// Of what need not be told if something newer has come by then.
    turn: Option<Turn>,
    /// Or the break of the connection to the API server, which breaks the client's too.
    content: Result<Bytes, io::Error>,
}

impl Line {
    fn broken(error: hyper::Error) -> Self {
        Self {
            time: Instant::now(),
            turn: None,
            content: Err(io::Error::other(error)),
        }
    }
}

type Item = Result<Frame<Bytes>, io::Error>;

/// Passes the events of a watch on.
pub(super) fn with_faults(
    proxy: &Arc<Proxy>,
    resource: String,
    answer: Response<Incoming>,
) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    let (read, lines) = mpsc::unbounded_channel();
    let (write, items) = mpsc::unbounded_channel();
    let newest = Newest::default();
    // From this moment on: what ended other watches before does not end this one
    let end = proxy.ends.subscribe();
    let reader = Reader {
        proxy: Arc::clone(proxy),
        resource,
        newest: newest.clone(),
        lines: read,
    };
    let reading = tokio::spawn(reader.read(body));
    tokio::spawn(async move {
        write_lines(in_time(lines, newest), end, &write).await;
        // Without a reader the connection to the API server ends
        reading.abort();
    });
    let body = StreamBody::new(UnboundedReceiverStream::new(items));
    Response::from_parts(parts, BodyExt::boxed(body))
}

/// Takes each event with the moment at which it is to be passed on.
struct Reader {
    proxy: Arc<Proxy>,
    resource: String,
    newest: Newest,
    lines: mpsc::UnboundedSender<Line>,
}

impl Reader {
    async fn read(self, body: Incoming) {
        let mut chunks = BodyStream::new(body);
        let mut rest = Vec::new();
        while let Some(frame) = chunks.next().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    let _ = self.lines.send(Line::broken(error));
                    return;
                }
            };
            rest.extend_from_slice(frame.data_ref().map_or(&[], |data| &**data));
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.line(rest.drain(..=end).collect());
                if line.is_some_and(|line| self.lines.send(line).is_err()) {
                    return;
                }
            }
        }
    }

    /// Nothing for an event that is never told.
    fn line(&self, line: Vec<u8>) -> Option<Line> {
        let fate = self.proxy.rules().fate_of(&self.resource, &line);
        let (delay, turn) = match fate {
            Fate::Dropped => return None,
            Fate::Told(delay) => (delay, None),
            Fate::Gathered(delay) => (delay, self.newest.note(&line)),
        };
        Some(Line {
            time: Instant::now() + delay,
            turn,
            content: Ok(line.into()),
        })
    }
}

async fn write_lines(
    lines: impl Stream<Item = Result<Bytes, io::Error>>,
    mut end: watch::Receiver<End>,
    items: &mpsc::UnboundedSender<Item>,
) {
    let mut lines = std::pin::pin!(lines);
    loop {
        tokio::select! {
            biased;
            _ = end.changed() => {
                let last = match *end.borrow() {
                    End::None => continue,
                    End::Cut => Err(io::ErrorKind::ConnectionReset.into()),
                    End::Gone => Ok(Frame::data(Bytes::from_static(GONE.as_bytes()))),
                };
                let _ = items.send(last);
                return;
            }
            () = items.closed() => return,
            line = lines.next() => {
                let Some(line) = line else { return };
                if items.send(line.map(Frame::data)).is_err() {
                    return;
                }
            }
        }
    }
}

fn in_time(
    lines: mpsc::UnboundedReceiver<Line>,
    newest: Newest,
) -> impl Stream<Item = Result<Bytes, io::Error>> {
    UnboundedReceiverStream::new(lines).filter_map(move |line| {
        let newest = newest.clone();
        async move {
            sleep_until(line.time).await;
            let is_superfluous = line.turn.is_some_and(|turn| newest.has_newer(&turn));
            (!is_superfluous).then_some(line.content)
        }
    })
}
