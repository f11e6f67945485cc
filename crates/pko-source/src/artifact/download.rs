//! Fetches a file over HTTP. A few tries, then an error that says what the server said.

use std::{
    fmt,
    fs::File,
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

use jiff::Timestamp;
use ureq::{
    Body,
    http::{
        Response, StatusCode, Uri,
        header::{AUTHORIZATION, CONTENT_LENGTH, LOCATION},
    },
};

use crate::{
    Deadline, DeadlineExceeded, Redacted,
    http_client::{ClientError, RedirectError, agent, parse_url, redirected, retry_after},
};

/// Waits between the tries, where the server does not ask for others.
const WAITS: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
];
/// As many as Go programs follow.
const REDIRECTS: u32 = 10;
const BUFFER: usize = 64 * 1024;

/// A file that could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The address can't be used; it may hold a password, so that it is not printed.
    #[error("the address of the archive is not one of http or https")]
    BadUrl,
    /// The server does not have it.
    #[error("file not found")]
    NotFound,
    /// The server does not give it.
    #[error("failed to download archive from {url} (status: {status})")]
    Status {
        /// Where it should have been
        url: Shown,
        /// What the server said
        status: StatusCode,
        /// When it wants to be asked again
        retry_after: Option<Duration>,
    },
    /// The server can't be reached, or does not finish.
    #[error("failed to download archive from {url}")]
    Transport {
        /// Where it should have been
        url: Shown,
        /// What happened
        source: Box<ureq::Error>,
    },
    /// The server sends us where we do not go.
    #[error("failed to download archive from {url}: {source}")]
    Redirect {
        /// Who sent us
        url: Shown,
        /// Why we do not go
        source: RedirectError,
    },
    /// There is no way to ask.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It has too many bytes.
    #[error("the archive at {url} is bigger than the largest download of {largest} bytes")]
    TooBig {
        /// Where it is
        url: Shown,
        /// How many it may have
        largest: u64,
    },
    /// It took too long.
    #[error("failed to download archive from {url}: {source}")]
    Late {
        /// Where it is
        url: Shown,
        /// That it took too long
        source: DeadlineExceeded,
    },
    /// There is no room for it.
    #[error("failed to write the archive")]
    Write(#[source] io::Error),
}

/// An address without what may be secret in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown(String);

impl Shown {
    fn new(url: &Uri) -> Self {
        let host = url.authority().map_or("", |authority| authority.as_str());
        let scheme = url.scheme_str().unwrap_or_default();
        // Signed addresses have their key in the query.
        let query = if url.query().is_some() { "?…" } else { "" };
        Self(format!("{scheme}://{host}{}{query}", url.path()))
    }
}

/// What may be printed of an address, which is nothing of one that is none.
#[must_use]
pub fn shown(url: &str) -> Shown {
    match parse_url(url) {
        Some((url, _)) => Shown::new(&url),
        None => Shown("[no address]".to_owned()),
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl DownloadError {
    /// It may work the next time.
    fn may_pass(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                *status == StatusCode::TOO_MANY_REQUESTS
                    || (status.is_server_error() && *status != StatusCode::NOT_IMPLEMENTED)
            }
            // A certificate that is not trusted is that.
            Self::Transport { source, .. } => {
                !matches!(&**source, ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData)
            }
            _ => false,
        }
    }

    /// The wait before the next try.
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

/// One file that is wanted.
pub(super) struct Download<'a> {
    pub(super) url: &'a str,
    pub(super) file: &'a Path,
    pub(super) largest: Option<u64>,
    pub(super) deadline: Deadline,
}

impl Download<'_> {
    /// Fetches the file; how many bytes it has.
    pub(super) fn run(&self, pause: &mut dyn FnMut(Duration)) -> Result<u64, DownloadError> {
        let (url, login) = parse_url(self.url).ok_or(DownloadError::BadUrl)?;
        let mut waits = WAITS.iter();
        loop {
            match (self.attempt(&url, login.as_ref()), waits.next()) {
                (Err(error), Some(usual)) if error.may_pass() => {
                    let wait = error.wait(*usual);
                    // There is no point in waiting for what can't come any more.
                    if !self.deadline.remaining().is_ok_and(|left| left > wait) {
                        return Err(error);
                    }
                    let error = with_cause(&error);
                    tracing::warn!(
                        error,
                        ?wait,
                        "The artifact could not be fetched, trying again"
                    );
                    pause(wait);
                }
                (outcome, _) => return outcome,
            }
        }
    }

    fn attempt(&self, url: &Uri, login: Option<&Redacted<String>>) -> Result<u64, DownloadError> {
        let mut response = self.ask(url, login)?;
        let shown = Shown::new(url);
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

    /// Asks, there and where that sends us. The login is for the first server alone.
    fn ask(
        &self,
        first: &Uri,
        login: Option<&Redacted<String>>,
    ) -> Result<Response<Body>, DownloadError> {
        let mut url = first.clone();
        for _ in 0..=REDIRECTS {
            let login = login.filter(|_| same_server(first, &url));
            let response = self.ask_once(&url, login)?;
            if !is_redirect(response.status()) {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION);
            let location = location.and_then(|value| value.to_str().ok());
            let target = redirected(&url, location.unwrap_or_default());
            url = target.map_err(|source| DownloadError::Redirect {
                url: Shown::new(&url),
                source,
            })?;
        }
        Err(DownloadError::Redirect {
            url: Shown::new(first),
            source: RedirectError::TooOften(REDIRECTS),
        })
    }

    fn ask_once(
        &self,
        url: &Uri,
        login: Option<&Redacted<String>>,
    ) -> Result<Response<Body>, DownloadError> {
        let late = |source| DownloadError::Late {
            url: Shown::new(url),
            source,
        };
        self.deadline.remaining().map_err(late)?;
        let mut request = agent(url, self.deadline)?.get(url);
        if let Some(login) = login {
            request = request.header(AUTHORIZATION, login.expose());
        }
        request.call().map_err(|source| self.failed(url, source))
    }

    /// The client's time is up when ours is.
    fn failed(&self, url: &Uri, source: ureq::Error) -> DownloadError {
        let url = Shown::new(url);
        match self.deadline.remaining() {
            Err(source) => DownloadError::Late { url, source },
            Ok(_) => DownloadError::Transport {
                url,
                source: Box::new(source),
            },
        }
    }

    fn save(&self, response: &mut Response<Body>, url: Shown) -> Result<u64, DownloadError> {
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

/// In one line.
fn with_cause(error: &DownloadError) -> String {
    match error {
        DownloadError::Transport { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_again_and_when() {
        let status = |code, retry_after| DownloadError::Status {
            url: Shown(String::new()),
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
            assert_eq!(status(code, None).may_pass(), again, "{code}");
        }
        assert!(!DownloadError::NotFound.may_pass());
        let (usual, asked) = (Duration::from_secs(5), Duration::from_secs(7));
        assert_eq!(status(429, Some(asked)).wait(usual), asked);
        assert_eq!(status(429, None).wait(usual), usual);
        assert_eq!(status(500, Some(asked)).wait(usual), usual);
    }

    #[test]
    fn what_is_shown_of_an_address() {
        let shown = |text: &str| shown(text).to_string();
        assert_eq!(
            shown("https://me:canary@a.test:81/b?signature=canary"),
            "https://a.test:81/b?…"
        );
        assert_eq!(shown("http://a.test"), "http://a.test/");
        assert_eq!(shown("me:canary@a.test"), "[no address]");
    }
}
