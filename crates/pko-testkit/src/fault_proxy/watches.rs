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

/// Or the break of the connection to the API server, which breaks the client's too.
type Line = (Instant, Result<Bytes, io::Error>);
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
    // From this moment on: what ended other watches before does not end this one
    let end = proxy.ends.subscribe();
    let reading = tokio::spawn(read_lines(Arc::clone(proxy), resource, body, read));
    tokio::spawn(async move {
        write_lines(lines, end, &write).await;
        // Without a reader the connection to the API server ends
        reading.abort();
    });
    let body = StreamBody::new(UnboundedReceiverStream::new(items));
    Response::from_parts(parts, BodyExt::boxed(body))
}

/// Takes each event with the moment at which it is to be passed on.
async fn read_lines(
    proxy: Arc<Proxy>,
    resource: String,
    body: Incoming,
    lines: mpsc::UnboundedSender<Line>,
) {
    let mut chunks = BodyStream::new(body);
    let mut rest = Vec::new();
    while let Some(frame) = chunks.next().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                let _ = lines.send((Instant::now(), Err(io::Error::other(error))));
                return;
            }
        };
        rest.extend_from_slice(frame.data_ref().map_or(&[], |data| &**data));
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let Some(delay) = proxy.rules().delay_of(&resource, &line) else {
                continue;
            };
            let line = (Instant::now() + delay, Ok(line.into()));
            if lines.send(line).is_err() {
                return;
            }
        }
    }
}

async fn write_lines(
    lines: mpsc::UnboundedReceiver<Line>,
    mut end: watch::Receiver<End>,
    items: &mpsc::UnboundedSender<Item>,
) {
    let mut lines = std::pin::pin!(in_time(lines));
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

fn in_time(lines: mpsc::UnboundedReceiver<Line>) -> impl Stream<Item = Result<Bytes, io::Error>> {
    UnboundedReceiverStream::new(lines).then(async |(time, line)| {
        sleep_until(time).await;
        line
    })
}
