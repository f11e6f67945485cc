//! A connection to a repository over HTTP.

use std::{
    io::{self, BufReader, Read},
    time::Duration,
};

use jiff::Timestamp;
use ureq::{
    Body, BodyReader, RequestBuilder,
    http::{HeaderMap, Response, StatusCode},
};

use super::{
    super::{Address, CredentialKind, GitError, transport::Connection},
    auth::HttpAuth,
    client::HttpClient,
    redirect,
    ssrf_guard::is_this_machine,
};
use crate::{Deadline, http_client::retry_after};

const INFO_REFS: &str = "/info/refs?service=git-upload-pack";
const UPLOAD_PACK: &str = "/git-upload-pack";
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// A redirect of the first request also applies to the requests after it.
pub(crate) struct HttpConnection<'a> {
    client: &'a HttpClient,
    address: Address,
    auth: Option<HttpAuth>,
    deadline: Deadline,
    /// After a redirect to another host, addresses of this machine are off limits.
    left_origin: bool,
}

impl<'a> HttpConnection<'a> {
    pub(crate) fn new(
        client: &'a HttpClient,
        address: &Address,
        auth: Option<HttpAuth>,
        deadline: Deadline,
    ) -> Self {
        Self {
            client,
            address: address.clone(),
            auth,
            deadline,
            left_origin: false,
        }
    }

    fn get(&self) -> Result<Response<Body>, GitError> {
        let agent = self.client.agent(self.left_origin);
        let request = self.prepare(agent.get(self.address.http_url(INFO_REFS)))?;
        request
            .call()
            .map_err(|error| GitError::from_request(&self.address, error))
    }

    fn post(&self, body: &[u8]) -> Result<Response<Body>, GitError> {
        let agent = self.client.agent(self.left_origin);
        let request = self.prepare(agent.post(self.address.http_url(UPLOAD_PACK)))?;
        request
            .header("Content-Type", "application/x-git-upload-pack-request")
            .header("Accept", "application/x-git-upload-pack-result")
            .send(body)
            .map_err(|error| GitError::from_request(&self.address, error))
    }

    /// Adds the protocol version, the credentials, the proxy and the deadline.
    fn prepare<B>(&self, request: RequestBuilder<B>) -> Result<RequestBuilder<B>, GitError> {
        let mut request = request.header("Git-Protocol", "version=2");
        if let Some(auth) = &self.auth {
            request = request.header("Authorization", auth.header());
        }
        Ok(request
            .config()
            .proxy(self.client.proxy(&self.address)?)
            .timeout_global(Some(self.remaining()?))
            .build())
    }

    fn remaining(&self) -> Result<Duration, GitError> {
        self.deadline.remaining().map_err(|_| GitError::Deadline {
            address: self.address.to_string(),
        })
    }

    fn kind(&self) -> CredentialKind {
        self.auth
            .as_ref()
            .map_or(CredentialKind::None, HttpAuth::kind)
    }

    /// The target of a redirect, if it may be followed.
    fn follow(&self, headers: &HeaderMap, followed: u32) -> Result<Address, GitError> {
        let location = headers
            .get("location")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let to = self.address.redirected(location, INFO_REFS);
        redirect::check(&self.address, to, self.auth.is_some(), followed).map_err(|refusal| {
            GitError::Redirect {
                address: self.address.to_string(),
                to: sanitize_location(location),
                refusal,
            }
        })
    }

    fn check_response(
        &self,
        response: Response<Body>,
        content_type: &str,
    ) -> Result<Response<Body>, GitError> {
        let status = response.status();
        if status != StatusCode::OK {
            return Err(self.status_error(status, response.headers()));
        }
        let is_git = response
            .headers()
            .get("content-type")
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .is_some_and(|value| value.trim() == content_type);
        if !is_git {
            return Err(GitError::NotGit {
                address: self.address.to_string(),
            });
        }
        Ok(response)
    }

    fn status_error(&self, status: StatusCode, headers: &HeaderMap) -> GitError {
        let (address, credential) = (self.address.to_string(), self.kind());
        let retry_after =
            retry_after(headers, Timestamp::now()).map(|wait| wait.min(MAX_RETRY_AFTER));
        match status.as_u16() {
            // GitHub reports rate limits as 403 with `Retry-After`.
            429 | 403 if status == 429 || retry_after.is_some() => GitError::TooManyRequests {
                address,
                retry_after,
            },
            status @ (401 | 403) => GitError::Denied {
                address,
                credential,
                status,
                hint: hint_for_denied(credential),
            },
            404 | 410 => GitError::NotFound {
                address,
                credential,
                hint: hint_for_missing(credential),
            },
            status @ 500.. => GitError::Server {
                address,
                status,
                retry_after,
            },
            status => GitError::Status { address, status },
        }
    }
}

impl Connection for HttpConnection<'_> {
    fn address(&self) -> &Address {
        &self.address
    }

    fn advertisement(&mut self) -> Result<Box<dyn Read + '_>, GitError> {
        let mut response = self.get()?;
        let mut followed = 0;
        while response.status().is_redirection() {
            let to = self.follow(response.headers(), followed)?;
            self.left_origin |=
                !self.address.same_host(&to) && !is_this_machine(self.address.host());
            self.address = to;
            followed += 1;
            response = self.get()?;
        }
        let response =
            self.check_response(response, "application/x-git-upload-pack-advertisement")?;
        Ok(Box::new(ResponseReader::new(response)))
    }

    fn exchange(&mut self, request: &[u8]) -> Result<Box<dyn Read + '_>, GitError> {
        let response = self.post(request)?;
        let response = self.check_response(response, "application/x-git-upload-pack-result")?;
        Ok(Box::new(ResponseReader::new(response)))
    }

    fn redact_secrets(&self, words: &str) -> String {
        match &self.auth {
            Some(auth) => auth.redact_secrets(words),
            None => words.to_owned(),
        }
    }
}

/// A response body. Git's message ends before HTTP's does. Reading HTTP's end as well makes the
/// connection reusable.
struct ResponseReader {
    reader: BufReader<BodyReader<'static>>,
    ended: bool,
}

impl ResponseReader {
    fn new(response: Response<Body>) -> Self {
        let reader = response.into_body().into_reader();
        Self {
            reader: BufReader::with_capacity(64 << 10, reader),
            ended: false,
        }
    }
}

impl Read for ResponseReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        // Lengths are read in separate reads, and this one ends a message.
        self.ended = buffer.get(..count) == Some(b"0000");
        Ok(count)
    }
}

impl Drop for ResponseReader {
    fn drop(&mut self) {
        if self.ended {
            // After more data or an error, ureq does not reuse the connection.
            let _ = self.reader.read(&mut [0]);
        }
    }
}

fn sanitize_location(location: &str) -> String {
    location
        .split(['?', '#'])
        .next()
        .and_then(|place| Address::parse(place).ok())
        .map_or_else(|| "another place".to_owned(), |place| place.to_string())
}

fn hint_for_denied(credential: CredentialKind) -> &'static str {
    match credential {
        CredentialKind::None => "; a private repository requires credentials",
        CredentialKind::GithubApp => {
            "; check that the app is installed and may read the repository's contents"
        }
        _ => "; check that they are valid, not expired, and allow access to this repository",
    }
}

/// Servers hide private repositories behind 404.
fn hint_for_missing(credential: CredentialKind) -> &'static str {
    match credential {
        CredentialKind::None => {
            "; servers hide private repositories from requests without credentials"
        }
        _ => "; servers hide repositories that these credentials cannot read",
    }
}
