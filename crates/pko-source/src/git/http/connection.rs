//! A repository behind HTTP.

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
    guard::is_this_machine,
    redirect,
};
use crate::{Deadline, http_client::retry_after};

const ADVERTISEMENT: &str = "/info/refs?service=git-upload-pack";
const UPLOAD_PACK: &str = "/git-upload-pack";
/// The longest time for which a server is left alone because it says so.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// A repository behind HTTP. A redirect of the first request holds for those that follow.
pub(crate) struct HttpConnection<'a> {
    client: &'a HttpClient,
    address: Address,
    auth: Option<HttpAuth>,
    deadline: Deadline,
    /// To another host, which must not be this machine
    sent_away: bool,
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
            sent_away: false,
        }
    }

    fn get(&self) -> Result<Response<Body>, GitError> {
        let agent = self.client.agent(self.sent_away);
        let request = self.prepared(agent.get(self.address.http_url(ADVERTISEMENT)))?;
        request
            .call()
            .map_err(|error| GitError::of_request(&self.address, error))
    }

    fn post(&self, body: &[u8]) -> Result<Response<Body>, GitError> {
        let agent = self.client.agent(self.sent_away);
        let request = self.prepared(agent.post(self.address.http_url(UPLOAD_PACK)))?;
        request
            .header("Content-Type", "application/x-git-upload-pack-request")
            .header("Accept", "application/x-git-upload-pack-result")
            .send(body)
            .map_err(|error| GitError::of_request(&self.address, error))
    }

    /// With what every request has: the protocol, who we are, and when it is over.
    fn prepared<B>(&self, request: RequestBuilder<B>) -> Result<RequestBuilder<B>, GitError> {
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

    /// Where a redirect leads, if we go there.
    fn follow(&self, headers: &HeaderMap, followed: u32) -> Result<Address, GitError> {
        let location = headers
            .get("location")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let to = self.address.redirected(location, ADVERTISEMENT);
        redirect::judge(&self.address, to, self.auth.is_some(), followed).map_err(|refusal| {
            GitError::Redirect {
                address: self.address.to_string(),
                to: presentable(location),
                refusal,
            }
        })
    }

    /// An answer that is one.
    fn accepted(
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
        let retry_after = retry_after(headers, Timestamp::now()).map(|wait| wait.min(LONGEST_WAIT));
        match status.as_u16() {
            // who asks too often hears 403 from GitHub
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
            self.sent_away |= !self.address.same_host(&to) && !is_this_machine(self.address.host());
            self.address = to;
            followed += 1;
            response = self.get()?;
        }
        let response = self.accepted(response, "application/x-git-upload-pack-advertisement")?;
        Ok(Box::new(Answer::new(response)))
    }

    fn exchange(&mut self, request: &[u8]) -> Result<Box<dyn Read + '_>, GitError> {
        let response = self.post(request)?;
        let response = self.accepted(response, "application/x-git-upload-pack-result")?;
        Ok(Box::new(Answer::new(response)))
    }

    fn without_secrets(&self, words: &str) -> String {
        match &self.auth {
            Some(auth) => auth.without_secrets(words),
            None => words.to_owned(),
        }
    }
}

/// An answer. A message of git's ends before HTTP's does; whoever has read the one reads the other's end as
/// well, so that the connection can be used again.
struct Answer {
    reader: BufReader<BodyReader<'static>>,
    ended: bool,
}

impl Answer {
    fn new(response: Response<Body>) -> Self {
        let reader = response.into_body().into_reader();
        Self {
            reader: BufReader::with_capacity(64 << 10, reader),
            ended: false,
        }
    }
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        // lines are read by their length first, and this one ends a message
        self.ended = buffer.get(..count) == Some(b"0000");
        Ok(count)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.ended {
            // if there is more, or an error, the connection is not used again
            let _ = self.reader.read(&mut [0]);
        }
    }
}

/// A place without what may be secret in it.
fn presentable(location: &str) -> String {
    location
        .split(['?', '#'])
        .next()
        .and_then(|place| Address::parse(place).ok())
        .map_or_else(|| "another place".to_owned(), |place| place.to_string())
}

fn hint_for_denied(credential: CredentialKind) -> &'static str {
    match credential {
        CredentialKind::None => "; is it private? Then it needs credentials",
        CredentialKind::GithubApp => "; is the app installed there, with access to the contents?",
        _ => "; are they right, not expired, and for this repository?",
    }
}

/// A repository that someone may not see looks as if it were not there.
fn hint_for_missing(credential: CredentialKind) -> &'static str {
    match credential {
        CredentialKind::None => "; a private repository looks like that without credentials",
        _ => "; a repository that these may not read looks like that",
    }
}
