//! Fetches a file over HTTP. A few tries, then an error that says what the server said.

use std::{io, thread, time::Duration};

use tempfile::NamedTempFile;
use ureq::{Agent, http::StatusCode};

/// Waits between the tries.
const WAITS: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
];
const CONNECT: Duration = Duration::from_secs(30);
const WHOLE: Duration = Duration::from_mins(15);

/// A file that could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DownloadError {
    #[error("file not found")]
    NotFound,
    #[error("failed to download archive from {url} (status: {status})")]
    Status { url: String, status: StatusCode },
    #[error("failed to download archive from {url}")]
    Transport {
        url: String,
        source: Box<ureq::Error>,
    },
    #[error("failed to write the archive")]
    Write(#[source] io::Error),
}

impl DownloadError {
    /// It may work the next time.
    fn may_pass(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                *status == StatusCode::TOO_MANY_REQUESTS
                    || (status.is_server_error() && *status != StatusCode::NOT_IMPLEMENTED)
            }
            Self::Transport { .. } => true,
            Self::NotFound | Self::Write(_) => false,
        }
    }
}

/// Fetches the file to a temporary place.
pub(crate) fn download(url: &str) -> Result<NamedTempFile, DownloadError> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT))
        .timeout_global(Some(WHOLE))
        .build()
        .into();
    let mut waits = WAITS.iter();
    loop {
        match (attempt(&agent, url), waits.next()) {
            (Err(error), Some(wait)) if error.may_pass() => {
                tracing::warn!(%error, ?wait, "The artifact could not be fetched, trying again");
                thread::sleep(*wait);
            }
            (outcome, _) => return outcome,
        }
    }
}

fn attempt(agent: &Agent, url: &str) -> Result<NamedTempFile, DownloadError> {
    let transport = |source| DownloadError::Transport {
        url: url.to_owned(),
        source: Box::new(source),
    };
    let mut response = agent.get(url).call().map_err(transport)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Err(DownloadError::NotFound),
        status => {
            let url = url.to_owned();
            return Err(DownloadError::Status { url, status });
        }
    }
    let mut file = NamedTempFile::new().map_err(DownloadError::Write)?;
    let mut body = response.body_mut().as_reader();
    io::copy(&mut body, &mut file).map_err(|error| transport(ureq::Error::Io(error)))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_again() {
        let status = |code| DownloadError::Status {
            url: String::new(),
            status: StatusCode::from_u16(code).unwrap(),
        };
        for (code, again) in [
            (429, true),
            (500, true),
            (503, true),
            (501, false),
            (403, false),
        ] {
            assert_eq!(status(code).may_pass(), again, "{code}");
        }
        assert!(!DownloadError::NotFound.may_pass());
    }
}
