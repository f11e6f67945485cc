//! Installation tokens of GitHub Apps.
//!
//! A token is requested once, shared by all callers, and renewed before it expires. Requests follow
//! no redirects, so the JWT goes to one host only.

mod jwt;

use std::{collections::HashMap, sync::Arc, thread, time::Duration};

use jiff::Timestamp;
use parking_lot::{Condvar, Mutex, MutexGuard};
use pko_auth::Redacted;
use ring::digest;
use serde::Deserialize;
use ureq::http::{Response, StatusCode, Uri};

use super::{AppTokenProvider, GitError, GithubApp};
use crate::{
    Deadline,
    http_client::{self, HttpClientError},
};

/// A GitHub Enterprise Server has its API at `https://<host>/api/v3`.
pub const GITHUB_API: &str = "https://api.github.com";

/// A token that expires sooner is renewed first: a fetch may take a while.
const EXPIRY_MARGIN: Duration = Duration::from_mins(5);
/// For a response without `expires_at`. GitHub's tokens live for an hour.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(10);
/// Delays before the second and third attempt, unless the server sends `Retry-After`.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// A response has about 500 bytes.
const MAX_RESPONSE_BYTES: u64 = 256 * 1024;
/// Characters of an error response that a message may contain.
const MAX_QUOTED_CHARS: usize = 500;

/// The messages are upstream's where upstream has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GithubAppError {
    #[error(
        "getting GitHub App installation token: creating GitHub App JWT: failed to decode PEM block from GitHub App private key"
    )]
    NoPem,
    #[error(
        "getting GitHub App installation token: creating GitHub App JWT: the GitHub App private key is not an RSA key of 2048 to 4096 bits in PKCS#1 or PKCS#8"
    )]
    InvalidKey,
    #[error(
        "getting GitHub App installation token: the {0} may only contain letters, digits, dots and dashes"
    )]
    InvalidId(&'static str),
    #[error(
        "getting GitHub App installation token: the API's address {0:?} does not begin with https://"
    )]
    InsecureApi(String),
    #[error("getting GitHub App installation token: failed to reach {api}: {reason}")]
    Unreachable { api: String, reason: String },
    #[error("getting GitHub App installation token: {api} did not respond in time")]
    Deadline { api: String },
    #[error("getting GitHub App installation token: GitHub API returned status {status}: {body}")]
    Status {
        status: u16,
        body: String,
        retry_after: Option<Duration>,
    },
    /// The response is not part of the message because it may contain a token.
    #[error(
        "getting GitHub App installation token: the GitHub API returned an unexpected response"
    )]
    InvalidResponse,
    #[error("getting GitHub App installation token: GitHub API returned an empty token")]
    EmptyToken,
}

impl GithubAppError {
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Deadline { .. } => true,
            Self::Status { status, .. } => is_transient_status(*status),
            _ => false,
        }
    }
}

/// A cache of tokens from one API.
pub struct GithubTokens {
    api: String,
    slots: Mutex<HashMap<[u8; 32], Arc<TokenSlot>>>,
    pause: fn(Duration),
}

/// One app's token, and the callers that wait for it.
#[derive(Default)]
struct TokenSlot {
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Default)]
struct SlotState {
    token: Option<InstallationToken>,
    in_flight: bool,
    /// The number of completed requests. Waiting callers use it to recognize a new failure.
    completed: u64,
    failure: Option<GithubAppError>,
}

#[derive(Clone)]
struct InstallationToken {
    text: Redacted,
    end: Timestamp,
}

#[derive(Deserialize)]
struct TokenResponse {
    #[serde(default)]
    token: String,
    expires_at: Option<Timestamp>,
}

impl GithubTokens {
    pub fn new(api: &str) -> Result<Self, GithubAppError> {
        let api = api.trim().trim_end_matches('/');
        let local = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
        let safe = api.starts_with("https://") || local.iter().any(|start| api.starts_with(start));
        if !safe {
            return Err(GithubAppError::InsecureApi(api.chars().take(200).collect()));
        }
        Ok(Self {
            api: api.to_owned(),
            slots: Mutex::default(),
            pause: thread::sleep,
        })
    }

    #[must_use]
    pub fn api(&self) -> &str {
        &self.api
    }

    /// Returns a token that is valid for some minutes. Concurrent callers share one request.
    pub fn token(
        &self,
        app: &GithubApp,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Redacted, GithubAppError> {
        let slot = self.slot(app, now);
        let mut state = slot.state.lock();
        let completed = state.completed;
        loop {
            if let Some(token) = state.token.as_ref().filter(|token| token.is_usable(now)) {
                return Ok(token.text.clone());
            }
            if let Some(failure) = &state.failure
                && state.completed != completed
            {
                return Err(failure.clone());
            }
            if !state.in_flight {
                break;
            }
            if !slot.wait(&mut state, deadline) {
                return Err(self.deadline_error());
            }
        }
        state.in_flight = true;
        drop(state);
        let pending = PendingRequest(&slot);
        let outcome = self.request_token(app, now, deadline);
        pending.complete(outcome.clone());
        outcome.map(|token| token.text)
    }

    /// Returns the app's slot and drops slots of expired tokens.
    fn slot(&self, app: &GithubApp, now: Timestamp) -> Arc<TokenSlot> {
        let mut slots = self.slots.lock();
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_in_use(now));
        Arc::clone(slots.entry(cache_key(app)).or_default())
    }

    fn request_token(
        &self,
        app: &GithubApp,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<InstallationToken, GithubAppError> {
        let jwt = jwt::sign(app, now)?;
        let installation = validate_id(&app.installation_id)
            .ok_or(GithubAppError::InvalidId("installation id"))?;
        let url = format!(
            "{}/app/installations/{installation}/access_tokens",
            self.api
        );
        let mut waits = RETRY_DELAYS.iter();
        loop {
            let outcome = self.attempt(&url, &jwt, now, deadline);
            let Err(GithubAppError::Status {
                status,
                retry_after,
                ..
            }) = &outcome
            else {
                return outcome;
            };
            let Some(wait) = waits.next().filter(|_| is_transient_status(*status)) else {
                return outcome;
            };
            let wait = retry_after.unwrap_or(*wait);
            if deadline.remaining().is_ok_and(|left| wait < left) {
                (self.pause)(wait);
            } else {
                return outcome;
            }
        }
    }

    fn attempt(
        &self,
        url: &str,
        jwt: &Redacted,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<InstallationToken, GithubAppError> {
        let unreachable = |reason: String| GithubAppError::Unreachable {
            api: self.api.clone(),
            reason,
        };
        let address = Uri::try_from(url).map_err(|error| unreachable(error.to_string()))?;
        let agent = http_client::agent(&address, deadline).map_err(|error| match error {
            HttpClientError::Late(_) => self.deadline_error(),
            error => unreachable(error.to_string()),
        })?;
        let request = agent
            .post(url)
            .header("Authorization", format!("Bearer {}", jwt.expose()))
            .header("Accept", "application/vnd.github+json")
            .header("X-GitHub-Api-Version", "2022-11-28");
        let mut answer = request
            .send_empty()
            .map_err(|error| self.transport_error(&error))?;
        let body = answer.body_mut().with_config().limit(MAX_RESPONSE_BYTES);
        let body = body
            .read_to_vec()
            .map_err(|error| self.transport_error(&error))?;
        if answer.status() != StatusCode::CREATED {
            return Err(status_error(&answer, &body));
        }
        InstallationToken::read(&body, now)
    }

    fn transport_error(&self, error: &ureq::Error) -> GithubAppError {
        match error {
            ureq::Error::Timeout(_) => self.deadline_error(),
            error => GithubAppError::Unreachable {
                api: self.api.clone(),
                reason: error.to_string(),
            },
        }
    }

    fn deadline_error(&self) -> GithubAppError {
        GithubAppError::Deadline {
            api: self.api.clone(),
        }
    }
}

impl TokenSlot {
    /// Waits until the state changes or the deadline passes. Returns false after the deadline.
    fn wait(&self, state: &mut MutexGuard<'_, SlotState>, deadline: Deadline) -> bool {
        let Ok(left) = deadline.remaining() else {
            return false;
        };
        self.changed.wait_for(state, left);
        true
    }

    fn is_in_use(&self, now: Timestamp) -> bool {
        let state = self.state.lock();
        let usable = state
            .token
            .as_ref()
            .is_some_and(|token| token.is_usable(now));
        state.in_flight || usable
    }
}

/// A request in flight. Dropping it lets the next caller send one.
struct PendingRequest<'a>(&'a TokenSlot);

impl PendingRequest<'_> {
    fn complete(&self, outcome: Result<InstallationToken, GithubAppError>) {
        let mut state = self.0.state.lock();
        state.completed += 1;
        match outcome {
            Ok(token) => (state.token, state.failure) = (Some(token), None),
            Err(failure) => state.failure = Some(failure),
        }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.0.state.lock().in_flight = false;
        self.0.changed.notify_all();
    }
}

impl InstallationToken {
    fn read(body: &[u8], now: Timestamp) -> Result<Self, GithubAppError> {
        let answer: TokenResponse =
            serde_json::from_slice(body).map_err(|_| GithubAppError::InvalidResponse)?;
        if answer.token.trim().is_empty() {
            return Err(GithubAppError::EmptyToken);
        }
        let default_end = now.checked_add(DEFAULT_LIFETIME).unwrap_or(now);
        Ok(Self {
            text: Redacted::new(answer.token.trim().to_owned()),
            end: answer.expires_at.unwrap_or(default_end),
        })
    }

    fn is_usable(&self, now: Timestamp) -> bool {
        now.checked_add(EXPIRY_MARGIN)
            .is_ok_and(|later| later < self.end)
    }
}

fn status_error(answer: &Response<ureq::Body>, body: &[u8]) -> GithubAppError {
    let text = String::from_utf8_lossy(body);
    // A response that looks successful may contain a token.
    let quoted = if answer.status().is_success() {
        0
    } else {
        MAX_QUOTED_CHARS
    };
    let text = text.trim().chars().take(quoted);
    GithubAppError::Status {
        status: answer.status().as_u16(),
        body: text.collect(),
        retry_after: http_client::retry_after(answer.headers(), Timestamp::now()),
    }
}

fn is_transient_status(status: u16) -> bool {
    status == 429 || (500..600).contains(&status)
}

/// An id that is safe in a URL and in a claim. Surrounding white space is trimmed: Secrets often
/// end with a newline.
fn validate_id(id: &str) -> Option<&str> {
    let id = id.trim();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let dots = id.bytes().all(|byte| byte == b'.');
    (id.bytes().all(allowed) && !dots).then_some(id)
}

/// A hash, so that no private key stays in memory as a map key.
fn cache_key(app: &GithubApp) -> [u8; 32] {
    let mut hash = digest::Context::new(&digest::SHA256);
    let key = app.private_key.expose();
    for part in [app.app_id.as_str(), app.installation_id.as_str(), key] {
        hash.update(part.len().to_string().as_bytes());
        hash.update(b":");
        hash.update(part.as_bytes());
    }
    let mut name = [0; 32];
    name.copy_from_slice(hash.finish().as_ref());
    name
}

impl AppTokenProvider for GithubTokens {
    fn token(&self, app: &GithubApp, deadline: Deadline) -> Result<Redacted, GitError> {
        Self::token(self, app, Timestamp::now(), deadline).map_err(|error| GitError::Connect {
            address: self.api.clone(),
            transient: error.is_transient(),
            source: Box::new(error),
        })
    }
}

#[cfg(test)]
mod tests;
