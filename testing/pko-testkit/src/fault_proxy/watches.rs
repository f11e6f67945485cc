//! Watch streams, event by event, with faults.

use std::io;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use http::Response;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::connections::{Body, ProxyState};
use super::latest_events::{EventNumber, LatestEvents};
use super::rules::EventAction;

/// How open watches are ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WatchEnd {
    #[default]
    None,
    Cut,
    /// The resource version is too old.
    Gone,
}

/// The API server's event for that.
const GONE: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"#,
    r#""status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#,
    "\n"
);

/// A line to deliver, and when.
struct WatchLine {
    time: Instant,
    /// Set if a newer event of the object supersedes this line.
    number: Option<EventNumber>,
    /// Or the break of the connection to the API server, which breaks the client's too.
    content: Result<Bytes, io::Error>,
}

impl WatchLine {
    fn broken(error: hyper::Error) -> Self {
        Self {
            time: Instant::now(),
            number: None,
            content: Err(io::Error::other(error)),
        }
    }
}

type FrameResult = Result<Frame<Bytes>, io::Error>;

/// Passes the events of a watch on.
pub(super) fn with_faults(
    proxy: &Arc<ProxyState>,
    resource: String,
    answer: Response<Incoming>,
) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    let (read, lines) = mpsc::unbounded_channel();
    let (write, items) = mpsc::unbounded_channel();
    let latest = LatestEvents::default();
    // Subscribed before reading, so that only later ends count
    let end = proxy.ends.subscribe();
    let reader = WatchReader {
        proxy: Arc::clone(proxy),
        resource,
        latest: latest.clone(),
        lines: read,
    };
    let reading = tokio::spawn(reader.read(body));
    tokio::spawn(async move {
        write_lines(deliver_on_time(lines, latest), end, &write).await;
        // Without a reader the connection to the API server ends
        reading.abort();
    });
    let body = StreamBody::new(UnboundedReceiverStream::new(items));
    Response::from_parts(parts, BodyExt::boxed(body))
}

/// Takes each event with the moment at which it is to be passed on.
struct WatchReader {
    proxy: Arc<ProxyState>,
    resource: String,
    latest: LatestEvents,
    lines: mpsc::UnboundedSender<WatchLine>,
}

impl WatchReader {
    async fn read(self, body: Incoming) {
        let mut chunks = BodyStream::new(body);
        let mut rest = Vec::new();
        while let Some(frame) = chunks.next().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    let _ = self.lines.send(WatchLine::broken(error));
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

    /// `None` for a dropped event.
    fn line(&self, line: Vec<u8>) -> Option<WatchLine> {
        let event_action = self.proxy.rules().event_action(&self.resource, &line);
        let (delay, number) = match event_action {
            EventAction::Drop => return None,
            EventAction::Deliver(delay) => (delay, None),
            EventAction::Coalesce(delay) => (delay, self.latest.note(&line)),
        };
        Some(WatchLine {
            time: Instant::now() + delay,
            number,
            content: Ok(line.into()),
        })
    }
}

async fn write_lines(
    lines: impl Stream<Item = Result<Bytes, io::Error>>,
    mut end: watch::Receiver<WatchEnd>,
    items: &mpsc::UnboundedSender<FrameResult>,
) {
    let mut lines = std::pin::pin!(lines);
    loop {
        tokio::select! {
            biased;
            _ = end.changed() => {
                let last = match *end.borrow() {
                    WatchEnd::None => continue,
                    WatchEnd::Cut => Err(io::ErrorKind::ConnectionReset.into()),
                    WatchEnd::Gone => Ok(Frame::data(Bytes::from_static(GONE.as_bytes()))),
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

fn deliver_on_time(
    lines: mpsc::UnboundedReceiver<WatchLine>,
    latest: LatestEvents,
) -> impl Stream<Item = Result<Bytes, io::Error>> {
    UnboundedReceiverStream::new(lines).filter_map(move |line| {
        let latest = latest.clone();
        async move {
            sleep_until(line.time).await;
            let is_superfluous = line.number.is_some_and(|number| latest.has_newer(&number));
            (!is_superfluous).then_some(line.content)
        }
    })
}
