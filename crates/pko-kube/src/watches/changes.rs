//! The changes that a watch reports: one line each.

use std::{io, pin::Pin, time::Duration};

use futures::{AsyncBufRead, AsyncBufReadExt as _};
use kube::{
    Client, Error,
    core::{Status, request},
};
use pko_api::raw_json::{field_of, fields};
use serde::Deserialize;

/// A change, its object not yet read.
#[derive(Debug)]
pub(super) enum Change {
    Applied(String),
    Deleted(String),
    /// The resource version that the watch has reached.
    Bookmark(String),
    Failed(Box<Status>),
}

/// A watch that has begun.
pub(super) struct Changes {
    response: Pin<Box<dyn AsyncBufRead + Send>>,
    line: Vec<u8>,
}

impl Changes {
    pub(super) async fn begin(
        client: &Client,
        request: Result<http::Request<Vec<u8>>, request::Error>,
    ) -> Result<Self, Error> {
        let mut request = request.map_err(Error::BuildRequest)?;
        request.extensions_mut().insert("watch");
        // Kubernetes 1.37 compresses each event alone, of which the client decodes the first only.
        let identity = http::HeaderValue::from_static("identity");
        let headers = request.headers_mut();
        headers.insert(http::header::ACCEPT_ENCODING, identity);
        Ok(Self {
            response: Box::pin(client.request_stream(request).await?),
            line: Vec::new(),
        })
    }

    /// The next change. None at the end of the response, or if nothing came for so long.
    pub(super) async fn next(&mut self, silence: Duration) -> Option<Result<Change, Error>> {
        loop {
            self.line.clear();
            let read = self.response.read_until(b'\n', &mut self.line);
            let read = tokio::time::timeout(silence, read).await.ok()?;
            match read {
                Ok(0) => return None,
                Ok(_) if self.line.trim_ascii().is_empty() => {}
                // The response was cut off within a line.
                Ok(_) if self.line.last() != Some(&b'\n') => return None,
                Ok(_) => return Some(parse(&self.line)),
                Err(error) if is_end(&error) => return None,
                Err(error) => return Some(Err(Error::ReadEvents(error))),
            }
        }
    }
}

/// Whether the connection was closed, as it is now and then.
fn is_end(error: &io::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let ends = [io::ErrorKind::UnexpectedEof, io::ErrorKind::TimedOut];
        if kind.is_some_and(|kind| ends.contains(&kind)) {
            return true;
        }
        cause = error.source();
    }
    error.to_string().contains("unexpected EOF during chunk")
}

fn parse(line: &[u8]) -> Result<Change, Error> {
    let unreadable = || {
        let problem = "a line of the watch is no event";
        Error::SerdeError(serde::de::Error::custom(problem))
    };
    let line = std::str::from_utf8(line).map_err(|_| unreadable())?;
    let event = fields(line).ok_or_else(unreadable)?;
    let (Some(kind), Some(object)) = (field_of(&event, "type"), field_of(&event, "object")) else {
        if field_of(&event, "kind") != Some("\"Status\"") {
            return Err(unreadable());
        }
        let status = serde_json::from_str::<Status>(line);
        return Err(status.map_or_else(|_| unreadable(), |status| Error::Api(status.boxed())));
    };
    match kind {
        "\"ADDED\"" | "\"MODIFIED\"" => Ok(Change::Applied(object.to_owned())),
        "\"DELETED\"" => Ok(Change::Deleted(object.to_owned())),
        "\"BOOKMARK\"" => {
            let bookmark: Bookmark = serde_json::from_str(object).map_err(|_| unreadable())?;
            Ok(Change::Bookmark(bookmark.metadata.resource_version))
        }
        "\"ERROR\"" => {
            let status = serde_json::from_str::<Status>(object);
            Ok(Change::Failed(status.map_err(|_| unreadable())?.boxed()))
        }
        _ => Err(unreadable()),
    }
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> String {
        match parse(line.as_bytes()) {
            Ok(Change::Failed(status)) => format!("Failed {}", status.code),
            Ok(change) => format!("{change:?}"),
            Err(Error::Api(status)) => format!("Api {}", status.code),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn watch_line_is_a_change_of_any_depth() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let line = format!("{{\"type\":\"MODIFIED\",\"object\":{{\"spec\":{deep}}}}}\n");
        let Ok(Change::Applied(object)) = parse(line.as_bytes()) else {
            panic!("no change");
        };
        assert_eq!(object, format!("{{\"spec\":{deep}}}"));
        for (line, expected) in [
            (r#"{"type":"ADDED","object":{}}"#, r#"Applied("{}")"#),
            (r#"{"object":{},"type":"DELETED"}"#, r#"Deleted("{}")"#),
            (
                r#"{"type":"BOOKMARK","object":{"kind":"Stack","metadata":{"resourceVersion":"7"}}}"#,
                r#"Bookmark("7")"#,
            ),
            (
                r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#,
                "Failed 410",
            ),
            (r#"{"kind":"Status","code":403}"#, "Api 403"),
        ] {
            assert_eq!(parsed(line), expected);
        }
    }

    #[test]
    fn watch_line_that_is_no_event_is_not_quoted() {
        for line in [
            "hunter2",
            r#"{"type":"hunter2","object":{}}"#,
            r#"{"a":"hunter2"}"#,
        ] {
            assert!(
                parsed(line).ends_with("a line of the watch is no event"),
                "{line}"
            );
        }
    }
}
