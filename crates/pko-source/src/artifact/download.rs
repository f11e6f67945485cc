//! Downloads an archive over HTTP, with a few retries.

use std::{
    fmt,
    fs::File,
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

use jiff::Timestamp;
use pko_auth::Redacted;
use ureq::{
    Body,
    http::{
        Response, StatusCode, Uri,
        header::{AUTHORIZATION, CONTENT_LENGTH, LOCATION},
    },
};

use crate::{
    Deadline, DeadlineExceeded,
    http_client::{
        HttpClientError, RedirectError, agent, parse_url, resolve_redirect, retry_after,
    },
};

/// Delays between attempts, unless the server sends `Retry-After`.
const RETRY_DELAYS: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
];
/// The limit of Go's HTTP client, which upstream uses.
const MAX_REDIRECTS: u32 = 10;
const BUFFER: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The URL is not in the message because it may contain a password.
    #[error("the URL of the archive is neither http nor https")]
    BadUrl,
    #[error("file not found")]
    NotFound,
    #[error("failed to download archive from {url} (status: {status})")]
    Status {
        url: RedactedUrl,
        status: StatusCode,
        retry_after: Option<Duration>,
    },
    #[error("failed to download archive from {url}")]
    Transport {
        url: RedactedUrl,
        source: Box<ureq::Error>,
    },
    #[error("failed to download archive from {url}: {source}")]
    Redirect {
        url: RedactedUrl,
        source: RedirectError,
    },
    #[error(transparent)]
    Client(#[from] HttpClientError),
    #[error("the archive at {url} is larger than the download limit of {largest} bytes")]
    TooBig { url: RedactedUrl, largest: u64 },
    #[error("failed to download archive from {url}: {source}")]
    Late {
        url: RedactedUrl,
        source: DeadlineExceeded,
    },
    #[error("failed to write the archive")]
    Write(#[source] io::Error),
}

/// A URL without credentials and query, safe to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedUrl(String);

impl RedactedUrl {
    fn new(url: &Uri) -> Self {
        let host = url.authority().map_or("", |authority| authority.as_str());
        let scheme = url.scheme_str().unwrap_or_default();
        // Pre-signed URLs carry their signature in the query.
        let query = if url.query().is_some() { "?…" } else { "" };
        Self(format!("{scheme}://{host}{}{query}", url.path()))
    }
}

/// The printable part of a URL. An invalid URL is replaced by a placeholder.
#[must_use]
pub fn redact_url(url: &str) -> RedactedUrl {
    match parse_url(url) {
        Some((url, _)) => RedactedUrl::new(&url),
        None => RedactedUrl("[no address]".to_owned()),
    }
}

impl fmt::Display for RedactedUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl DownloadError {
    fn is_transient(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                *status == StatusCode::TOO_MANY_REQUESTS
                    || (status.is_server_error() && *status != StatusCode::NOT_IMPLEMENTED)
            }
            // `InvalidData` is an untrusted certificate, which a retry does not fix.
            Self::Transport { source, .. } => {
                !matches!(&**source, ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData)
            }
            _ => false,
        }
    }

    fn wait(&self, usual: Duration) -> Duration {
        match self {
            Self::Status {
                status: StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE,
                retry_after: Some(wait),
                ..
            } => *wait,
            _ => usual,
        }
    }
}

pub(super) struct Download<'a> {
    pub(super) url: &'a str,
    pub(super) file: &'a Path,
    pub(super) largest: Option<u64>,
    pub(super) deadline: Deadline,
}

impl Download<'_> {
    /// Downloads the file and returns its size in bytes.
    pub(super) fn run(&self, pause: &mut dyn FnMut(Duration)) -> Result<u64, DownloadError> {
        let (url, login) = parse_url(self.url).ok_or(DownloadError::BadUrl)?;
        let mut waits = RETRY_DELAYS.iter();
        loop {
            match (self.attempt(&url, login.as_ref()), waits.next()) {
                (Err(error), Some(usual)) if error.is_transient() => {
                    let wait = error.wait(*usual);
                    // A retry after the deadline cannot succeed.
                    if !self.deadline.remaining().is_ok_and(|left| left > wait) {
                        return Err(error);
                    }
                    let error = message_with_cause(&error);
                    tracing::warn!(error, ?wait, "Failed to download the artifact, retrying");
                    pause(wait);
                }
                (outcome, _) => return outcome,
            }
        }
    }

    fn attempt(&self, url: &Uri, login: Option<&Redacted>) -> Result<u64, DownloadError> {
        let mut response = self.send(url, login)?;
        let shown = RedactedUrl::new(url);
        match response.status() {
            StatusCode::OK => self.save(&mut response, shown),
            StatusCode::NOT_FOUND => Err(DownloadError::NotFound),
            status => Err(DownloadError::Status {
                url: shown,
                status,
                retry_after: retry_after(response.headers(), Timestamp::now()),
            }),
        }
    }

    /// Sends the request and follows redirects. Only the origin server receives the credentials.
    fn send(&self, first: &Uri, login: Option<&Redacted>) -> Result<Response<Body>, DownloadError> {
        let mut url = first.clone();
        for _ in 0..=MAX_REDIRECTS {
            let login = login.filter(|_| same_server(first, &url));
            let response = self.send_once(&url, login)?;
            if !is_redirect(response.status()) {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION);
            let location = location.and_then(|value| value.to_str().ok());
            let target = resolve_redirect(&url, location.unwrap_or_default());
            url = target.map_err(|source| DownloadError::Redirect {
                url: RedactedUrl::new(&url),
                source,
            })?;
        }
        Err(DownloadError::Redirect {
            url: RedactedUrl::new(first),
            source: RedirectError::TooOften(MAX_REDIRECTS),
        })
    }

    fn send_once(
        &self,
        url: &Uri,
        login: Option<&Redacted>,
    ) -> Result<Response<Body>, DownloadError> {
        let late = |source| DownloadError::Late {
            url: RedactedUrl::new(url),
            source,
        };
        self.deadline.remaining().map_err(late)?;
        let mut request = agent(url, self.deadline)?.get(url);
        if let Some(login) = login {
            request = request.header(AUTHORIZATION, login.expose());
        }
        request
            .call()
            .map_err(|source| self.transport_error(url, source))
    }

    /// Reports the deadline when ureq fails because our deadline passed.
    fn transport_error(&self, url: &Uri, source: ureq::Error) -> DownloadError {
        let url = RedactedUrl::new(url);
        match self.deadline.remaining() {
            Err(source) => DownloadError::Late { url, source },
            Ok(_) => DownloadError::Transport {
                url,
                source: Box::new(source),
            },
        }
    }

    fn save(&self, response: &mut Response<Body>, url: RedactedUrl) -> Result<u64, DownloadError> {
        let largest = self.largest.unwrap_or(u64::MAX);
        let length = response.headers().get(CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > largest) {
            return Err(DownloadError::TooBig { url, largest });
        }
        let mut file = File::create(self.file).map_err(DownloadError::Write)?;
        let mut body = response.body_mut().as_reader();
        let mut buffer = vec![0; BUFFER];
        let mut saved = 0_u64;
        loop {
            let count = match (body.read(&mut buffer), self.deadline.remaining()) {
                (Ok(0), _) => return Ok(saved),
                (_, Err(source)) => return Err(DownloadError::Late { url, source }),
                (Ok(count), Ok(_)) => count,
                (Err(error), Ok(_)) => {
                    let source = Box::new(ureq::Error::Io(error));
                    return Err(DownloadError::Transport { url, source });
                }
            };
            saved = saved.saturating_add(count as u64);
            if saved > largest {
                return Err(DownloadError::TooBig { url, largest });
            }
            file.write_all(buffer.get(..count).unwrap_or_default())
                .map_err(DownloadError::Write)?;
        }
    }
}

fn same_server(one: &Uri, other: &Uri) -> bool {
    (one.scheme(), one.host(), one.port_u16()) == (other.scheme(), other.host(), other.port_u16())
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn message_with_cause(error: &DownloadError) -> String {
    match error {
        DownloadError::Transport { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn download_retries_transient_errors() {
        let status = |code, retry_after| DownloadError::Status {
            url: RedactedUrl(String::new()),
            status: StatusCode::from_u16(code).unwrap(),
            retry_after,
        };
        for (code, again) in [
            (429, true),
            (500, true),
            (503, true),
            (501, false),
            (403, false),
        ] {
            assert_eq!(status(code, None).is_transient(), again, "{code}");
        }
        assert!(!DownloadError::NotFound.is_transient());
        let (usual, asked) = (Duration::from_secs(5), Duration::from_secs(7));
        assert_eq!(status(429, Some(asked)).wait(usual), asked);
        assert_eq!(status(429, None).wait(usual), usual);
        assert_eq!(status(500, Some(asked)).wait(usual), usual);
    }

    #[test]
    fn redacted_url_hides_credentials_and_query() {
        let shown = |text: &str| redact_url(text).to_string();
        assert_eq!(
            shown("https://me:canary@a.test:81/b?signature=canary"),
            "https://a.test:81/b?…"
        );
        assert_eq!(shown("http://a.test"), "http://a.test/");
        assert_eq!(shown("me:canary@a.test"), "[no address]");
    }
}
