//! The status of a subscription. Does no I/O.

use std::{fmt::Display, sync::Arc};

use jiff::Timestamp;

#[derive(Debug)]
pub struct PollStatus<C, E> {
    /// The commit of the last successful response.
    pub commit: Option<C>,
    /// Set if the last request failed.
    pub failure: Option<PollFailure<E>>,
}

#[derive(Debug)]
pub struct PollFailure<E> {
    pub error: Arc<PollError<E>>,
    /// The first failure after the last success.
    pub since: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PollError<E> {
    #[error("{0}")]
    Lister(E),
    #[error("the server did not respond in time")]
    Deadline,
    /// A bug in the lister.
    #[error("the request panicked")]
    Crashed,
}

impl<C: Clone + Eq, E: Display> PollStatus<C, E> {
    pub(super) fn has_result(&self) -> bool {
        self.commit.is_some() || self.failure.is_some()
    }

    /// Records a result. Returns whether subscribers should be notified.
    pub(super) fn record_result(
        &mut self,
        answer: Result<C, Arc<PollError<E>>>,
        now: Timestamp,
    ) -> bool {
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
                self.failure = Some(PollFailure { error, since });
                !same
            }
        }
    }
}

impl<C: Clone, E> Clone for PollStatus<C, E> {
    fn clone(&self) -> Self {
        Self {
            commit: self.commit.clone(),
            failure: self.failure.clone(),
        }
    }
}

impl<E> Clone for PollFailure<E> {
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
    fn status_failure_keeps_commit_and_start_time() {
        let time = |second| Timestamp::from_second(second).unwrap();
        let error = |text| Err(Arc::new(PollError::Lister(text)));
        let mut status = PollStatus::<u8, &str> {
            commit: None,
            failure: None,
        };
        assert!(!status.has_result());
        assert!(status.record_result(error("no route"), time(1)));
        assert!(status.has_result() && status.commit.is_none());
        assert!(status.record_result(Ok(1), time(2)));
        assert!(!status.record_result(Ok(1), time(3)), "nothing new");
        assert!(status.record_result(error("no route"), time(4)));
        assert!(
            !status.record_result(error("no route"), time(5)),
            "nothing new"
        );
        assert!(status.record_result(error("denied"), time(6)));
        let failure = status.failure.clone().unwrap();
        assert_eq!(
            (failure.since, failure.error.to_string()),
            (time(4), "denied".to_owned())
        );
        assert_eq!(status.commit, Some(1));
        assert!(status.record_result(Ok(1), time(7)), "it is good again");
        assert!(status.failure.is_none());
    }
}
