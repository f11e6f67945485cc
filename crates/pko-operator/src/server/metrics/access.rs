//! Who may read the metrics: whoever shows a token that the API server knows, of somebody who may `get` `/metrics`.
//!
//! An answer is remembered briefly, so that each scrape is not two requests; a question that got none is not.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use kube::Client;
use sha2::{Digest as _, Sha256};

/// How long a yes holds: a right that is taken away is gone after that.
const YES_HOLDS: Duration = Duration::from_mins(1);
/// How long a no holds: a right that was given holds after that.
const NO_HOLDS: Duration = Duration::from_secs(10);
/// Answers that are remembered at a time; nobody fills our memory with tokens.
const MOST_ANSWERS: usize = 1000;

/// What somebody with a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read the metrics.
    Granted,
    /// Nothing: the API server does not know the token.
    Unknown,
    /// Nothing here.
    Forbidden,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("failed to ask the API server who wants to read the metrics: {0}")]
pub(crate) struct AccessError(#[from] Box<kube::Error>);

/// Says who may read the metrics.
pub(crate) trait Judge: Send + Sync + 'static {
    /// What the holder of this token may do.
    fn judge(&self, token: &str) -> impl Future<Output = Result<Access, AccessError>> + Send;
}

/// The API server.
pub(crate) struct ClusterAccess(Client);

impl ClusterAccess {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }
}

impl Judge for ClusterAccess {
    async fn judge(&self, token: &str) -> Result<Access, AccessError> {
        let user = pko_kube::review_token(&self.0, token).await;
        let Some(user) = user.map_err(Box::new)? else {
            return Ok(Access::Unknown);
        };
        let may_read = pko_kube::may_access_path(&self.0, user, "/metrics").await;
        Ok(if may_read.map_err(Box::new)? {
            Access::Granted
        } else {
            Access::Forbidden
        })
    }
}

/// Asks, and remembers for a while. Of a token its digest is kept, not itself.
pub(super) struct Remembering<J> {
    judge: J,
    answers: Mutex<HashMap<[u8; 32], (Access, Instant)>>,
}

impl<J: Judge> Remembering<J> {
    pub(super) fn new(judge: J) -> Self {
        Self {
            judge,
            answers: Mutex::default(),
        }
    }

    /// What the holder of this token may do.
    pub(super) async fn judge(&self, token: &str, now: Instant) -> Result<Access, AccessError> {
        let digest = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.remembered(&digest, now) {
            return Ok(known);
        }
        let answer = self.judge.judge(token).await?;
        self.remember(digest, answer, now);
        Ok(answer)
    }

    fn remembered(&self, digest: &[u8; 32], now: Instant) -> Option<Access> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (access, end) = answers.get(digest)?;
        (now < *end).then_some(*access)
    }

    fn remember(&self, digest: [u8; 32], access: Access, now: Instant) {
        let holds = if access == Access::Granted {
            YES_HOLDS
        } else {
            NO_HOLDS
        };
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|_, (_, end)| now < *end);
        if answers.len() < MOST_ANSWERS {
            answers.insert(digest, (access, now + holds));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Answers by the token's text, and counts the questions.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Judge for Counted {
        async fn judge(&self, token: &str) -> Result<Access, AccessError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            match token {
                "good" => Ok(Access::Granted),
                "broken" => Err(AccessError(Box::new(
                    kube::Error::LinesCodecMaxLineLengthExceeded,
                ))),
                _ => Ok(Access::Unknown),
            }
        }
    }

    async fn asked(access: &Remembering<Counted>, token: &str, at: Instant) -> usize {
        let before = access.judge.0.load(Ordering::Relaxed);
        let _ = access.judge(token, at).await;
        access.judge.0.load(Ordering::Relaxed) - before
    }

    #[tokio::test]
    async fn an_answer_is_remembered_for_a_while() {
        let (access, start) = (Remembering::new(Counted::default()), Instant::now());
        for (token, holds) in [("good", YES_HOLDS), ("bad", NO_HOLDS)] {
            assert_eq!(asked(&access, token, start).await, 1);
            let just_before = start + holds.mul_f32(0.9);
            assert_eq!(asked(&access, token, just_before).await, 0);
            assert_eq!(asked(&access, token, start + holds).await, 1);
        }
    }

    #[tokio::test]
    async fn no_answer_is_not_remembered() {
        let (access, start) = (Remembering::new(Counted::default()), Instant::now());
        assert!(access.judge("broken", start).await.is_err());
        assert_eq!(asked(&access, "broken", start).await, 1);
    }

    #[tokio::test]
    async fn many_tokens_do_not_fill_the_memory() {
        let (access, start) = (Remembering::new(Counted::default()), Instant::now());
        for number in 0..MOST_ANSWERS + 10 {
            let answer = access.judge(&number.to_string(), start).await.unwrap();
            assert_eq!(answer, Access::Unknown);
        }
        assert_eq!(access.answers.lock().unwrap().len(), MOST_ANSWERS);
        assert_eq!(access.judge("good", start).await.unwrap(), Access::Granted);
    }
}
