//! Tokens for an installation of a GitHub App: asked for once, shared by all who need them, and asked for again when
//! they near their end. A question has a deadline, few tries and no redirects, so that what it shows goes to one host.

mod jwt;

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use ring::digest;
use serde::Deserialize;
use ureq::http::{Response, StatusCode, Uri};

use super::GithubApp;
use crate::{
    Deadline, Redacted,
    http_client::{self, ClientError},
};

/// Where GitHub itself answers. An Enterprise Server does so at `https://<host>/api/v3`.
pub const GITHUB_API: &str = "https://api.github.com";

/// A token that ends sooner than this is not used any more: a fetch may take a while.
const MARGIN: Duration = Duration::from_mins(5);
/// A token that says nothing of its end; GitHub's have an hour.
const UNSAID_LIFETIME: Duration = Duration::from_mins(10);
/// Waits before the second and the third try, if the server names none.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// An answer has about 500 bytes.
const LONGEST_ANSWER: u64 = 256 * 1024;
/// What is quoted of an answer that is no token.
const LONGEST_QUOTE: usize = 500;

/// Why there is no token. The texts are those of upstream's operator, where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GithubAppError {
    /// The key is no PEM.
    #[error(
        "getting GitHub App installation token: creating GitHub App JWT: failed to decode PEM block from GitHub App private key"
    )]
    NoKey,
    /// The key is none that can sign.
    #[error(
        "getting GitHub App installation token: creating GitHub App JWT: the GitHub App private key is not an RSA key of 2048 to 4096 bits in PKCS#1 or PKCS#8"
    )]
    Key,
    /// The number of the app or of the installation is none.
    #[error(
        "getting GitHub App installation token: the {0} may only have letters, digits, dots and dashes"
    )]
    Id(&'static str),
    /// The address of the API is none that a secret may be sent to.
    #[error(
        "getting GitHub App installation token: the API's address {0:?} does not begin with https://"
    )]
    Api(String),
    /// The API can't be reached.
    #[error("getting GitHub App installation token: failed to ask {api}: {reason}")]
    Unreachable {
        /// Its address
        api: String,
        /// What went wrong
        reason: String,
    },
    /// It took too long.
    #[error("getting GitHub App installation token: {api} took too long")]
    Deadline {
        /// Its address
        api: String,
    },
    /// The API says no.
    #[error("getting GitHub App installation token: GitHub API returned status {status}: {body}")]
    Status {
        /// The code
        status: u16,
        /// The beginning of what it wrote
        body: String,
        /// How long it wants to be left alone
        retry_after: Option<Duration>,
    },
    /// What came is not what was asked for. It is not quoted, as there may be a token in it.
    #[error(
        "getting GitHub App installation token: the answer of the GitHub API is not understood"
    )]
    Answer,
    /// There is no token in the answer.
    #[error("getting GitHub App installation token: GitHub API returned an empty token")]
    Empty,
}

impl GithubAppError {
    /// It may work the next time.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Deadline { .. } => true,
            Self::Status { status, .. } => may_pass(*status),
            _ => false,
        }
    }
}

/// The tokens of all apps at one API.
pub struct GithubTokens {
    api: String,
    slots: Mutex<HashMap<[u8; 32], Arc<Slot>>>,
    pause: fn(Duration),
}

/// One app's token, and whoever waits for it.
#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    asking: bool,
    /// How many questions were answered, and how the last one was.
    answers: u64,
    failure: Option<GithubAppError>,
}

#[derive(Clone)]
struct Token {
    text: Redacted<String>,
    end: Timestamp,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    token: String,
    expires_at: Option<Timestamp>,
}

impl GithubTokens {
    /// Tokens of the API at an address, such as [`GITHUB_API`].
    pub fn new(api: &str) -> Result<Self, GithubAppError> {
        let api = api.trim().trim_end_matches('/');
        let local = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
        let safe = api.starts_with("https://") || local.iter().any(|start| api.starts_with(start));
        if !safe {
            return Err(GithubAppError::Api(api.chars().take(200).collect()));
        }
        Ok(Self {
            api: api.to_owned(),
            slots: Mutex::default(),
            pause: thread::sleep,
        })
    }

    /// Where they come from.
    #[must_use]
    pub fn api(&self) -> &str {
        &self.api
    }

    /// A token that is valid for some minutes at least. Whoever asks while somebody else does gets the same answer.
    pub fn token(
        &self,
        app: &GithubApp,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Redacted<String>, GithubAppError> {
        let slot = self.slot(app, now);
        let mut state = slot.lock();
        let answers = state.answers;
        loop {
            if let Some(token) = state.token.as_ref().filter(|token| token.lasts(now)) {
                return Ok(token.text.clone());
            }
            if let Some(failure) = &state.failure
                && state.answers != answers
            {
                return Err(failure.clone());
            }
            if !state.asking {
                break;
            }
            state = slot.wait(state, deadline).ok_or_else(|| self.too_late())?;
        }
        state.asking = true;
        drop(state);
        let question = Question(&slot);
        let outcome = self.ask(app, now, deadline);
        question.answered(outcome.clone());
        outcome.map(|token| token.text)
    }

    /// The app's slot; those of tokens that are over go, so that nothing gathers.
    fn slot(&self, app: &GithubApp, now: Timestamp) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_of_use(now));
        Arc::clone(slots.entry(name_of(app)).or_default())
    }

    fn ask(
        &self,
        app: &GithubApp,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Token, GithubAppError> {
        let jwt = jwt::sign(app, now)?;
        let installation =
            plain(&app.installation_id).ok_or(GithubAppError::Id("installation id"))?;
        let url = format!(
            "{}/app/installations/{installation}/access_tokens",
            self.api
        );
        let mut waits = WAITS.iter();
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
            let Some(wait) = waits.next().filter(|_| may_pass(*status)) else {
                return outcome;
            };
            let wait = retry_after.unwrap_or(*wait);
            // There is no use in waiting past the deadline.
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
        jwt: &Redacted<String>,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Token, GithubAppError> {
        let unreachable = |reason: String| GithubAppError::Unreachable {
            api: self.api.clone(),
            reason,
        };
        let address = Uri::try_from(url).map_err(|error| unreachable(error.to_string()))?;
        let agent = http_client::agent(&address, deadline).map_err(|error| match error {
            ClientError::Late(_) => self.too_late(),
            error => unreachable(error.to_string()),
        })?;
        let request = agent
            .post(url)
            .header("Authorization", format!("Bearer {}", jwt.expose()))
            .header("Accept", "application/vnd.github+json")
            .header("X-GitHub-Api-Version", "2022-11-28");
        let mut answer = request.send_empty().map_err(|error| self.failed(&error))?;
        let body = answer.body_mut().with_config().limit(LONGEST_ANSWER);
        let body = body.read_to_vec().map_err(|error| self.failed(&error))?;
        if answer.status() != StatusCode::CREATED {
            return Err(refused(&answer, &body));
        }
        Token::read(&body, now)
    }

    fn failed(&self, error: &ureq::Error) -> GithubAppError {
        match error {
            ureq::Error::Timeout(_) => self.too_late(),
            error => GithubAppError::Unreachable {
                api: self.api.clone(),
                reason: error.to_string(),
            },
        }
    }

    fn too_late(&self) -> GithubAppError {
        GithubAppError::Deadline {
            api: self.api.clone(),
        }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        deadline: Deadline,
    ) -> Option<MutexGuard<'a, State>> {
        let left = deadline.remaining().ok()?;
        let woken = self.changed.wait_timeout(state, left);
        Some(woken.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn is_of_use(&self, now: Timestamp) -> bool {
        let state = self.lock();
        let lasts = state.token.as_ref().is_some_and(|token| token.lasts(now));
        state.asking || lasts
    }
}

/// A question under way: however it ends, the next one may be asked.
struct Question<'a>(&'a Slot);

impl Question<'_> {
    fn answered(&self, outcome: Result<Token, GithubAppError>) {
        let mut state = self.0.lock();
        state.answers += 1;
        match outcome {
            Ok(token) => (state.token, state.failure) = (Some(token), None),
            Err(failure) => state.failure = Some(failure),
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.0.lock().asking = false;
        self.0.changed.notify_all();
    }
}

impl Token {
    fn read(body: &[u8], now: Timestamp) -> Result<Self, GithubAppError> {
        let answer: Answer = serde_json::from_slice(body).map_err(|_| GithubAppError::Answer)?;
        if answer.token.trim().is_empty() {
            return Err(GithubAppError::Empty);
        }
        let unsaid = now.checked_add(UNSAID_LIFETIME).unwrap_or(now);
        Ok(Self {
            text: Redacted::new(answer.token.trim().to_owned()),
            end: answer.expires_at.unwrap_or(unsaid),
        })
    }

    fn lasts(&self, now: Timestamp) -> bool {
        now.checked_add(MARGIN).is_ok_and(|later| later < self.end)
    }
}

fn refused(answer: &Response<ureq::Body>, body: &[u8]) -> GithubAppError {
    let text = String::from_utf8_lossy(body);
    // What looks like success may have a token in it.
    let quoted = if answer.status().is_success() {
        0
    } else {
        LONGEST_QUOTE
    };
    let text = text.trim().chars().take(quoted);
    GithubAppError::Status {
        status: answer.status().as_u16(),
        body: text.collect(),
        retry_after: http_client::retry_after(answer.headers(), Timestamp::now()),
    }
}

fn may_pass(status: u16) -> bool {
    status == 429 || (500..600).contains(&status)
}

/// What may stand in an address or a claim; Secrets often end with a line end.
fn plain(id: &str) -> Option<&str> {
    let id = id.trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let dots = id.bytes().all(|byte| byte == b'.');
    (id.bytes().all(plain) && !dots).then_some(id)
}

/// An app with another key is another one. What is kept in memory is no key but its hash.
fn name_of(app: &GithubApp) -> [u8; 32] {
    let mut hash = digest::Context::new(&digest::SHA256);
    for part in [&app.app_id, &app.installation_id, app.private_key.expose()] {
        hash.update(part.len().to_string().as_bytes());
        hash.update(b":");
        hash.update(part.as_bytes());
    }
    let mut name = [0; 32];
    name.copy_from_slice(hash.finish().as_ref());
    name
}

#[cfg(test)]
mod tests;
