//! What a subscriber knows. Does no I/O.

use std::{fmt::Display, sync::Arc};

use jiff::Timestamp;

/// The last good answer, and what went wrong since.
#[derive(Debug)]
pub struct Status<C, E> {
    /// The commit of the last good answer; nothing if there was none yet
    pub commit: Option<C>,
    /// Why that is not the last answer
    pub failure: Option<Failure<E>>,
}

/// An error that is still there.
#[derive(Debug)]
pub struct Failure<E> {
    /// The last one
    pub error: Arc<PollError<E>>,
    /// When the first one came after the last good answer
    pub since: Timestamp,
}

/// Why there is no commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PollError<E> {
    /// The server said no, or something else.
    #[error("{0}")]
    Lister(E),
    /// The server took too long.
    #[error("the server took too long")]
    Deadline,
    /// A bug of ours; the next question may do better.
    #[error("the question crashed")]
    Crashed,
}

impl<C: Clone + Eq, E: Display> Status<C, E> {
    /// Whether anything is known.
    pub(super) fn is_known(&self) -> bool {
        self.commit.is_some() || self.failure.is_some()
    }

    /// Takes in an answer; whether that changed anything that somebody would want to hear of.
    pub(super) fn absorb(&mut self, answer: Result<C, Arc<PollError<E>>>, now: Timestamp) -> bool {
        match answer {
            Ok(commit) => {
                let failed = self.failure.take().is_some();
                let same = self.commit.as_ref() == Some(&commit);
                self.commit = Some(commit);
                failed || !same
            }
            Err(error) => {
                let before = self.failure.as_ref();
                let same = before.is_some_and(|old| old.error.to_string() == error.to_string());
                let since = before.map_or(now, |old| old.since);
                self.failure = Some(Failure { error, since });
                !same
            }
        }
    }
}

impl<C: Clone, E> Clone for Status<C, E> {
    fn clone(&self) -> Self {
        Self {
            commit: self.commit.clone(),
            failure: self.failure.clone(),
        }
    }
}

impl<E> Clone for Failure<E> {
    fn clone(&self) -> Self {
        Self {
            error: Arc::clone(&self.error),
            since: self.since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_the_last_good_commit_and_its_own_beginning() {
        let time = |second| Timestamp::from_second(second).unwrap();
        let error = |text| Err(Arc::new(PollError::Lister(text)));
        let mut status = Status::<u8, &str> {
            commit: None,
            failure: None,
        };
        assert!(!status.is_known());
        assert!(status.absorb(error("no route"), time(1)));
        assert!(status.is_known() && status.commit.is_none());
        assert!(status.absorb(Ok(1), time(2)));
        assert!(!status.absorb(Ok(1), time(3)), "nothing new");
        assert!(status.absorb(error("no route"), time(4)));
        assert!(!status.absorb(error("no route"), time(5)), "nothing new");
        assert!(status.absorb(error("denied"), time(6)));
        let failure = status.failure.clone().unwrap();
        assert_eq!(
            (failure.since, failure.error.to_string()),
            (time(4), "denied".to_owned())
        );
        assert_eq!(status.commit, Some(1));
        assert!(status.absorb(Ok(1), time(7)), "it is good again");
        assert!(status.failure.is_none());
    }
}
