//! Credentials that were read a moment ago, for the reconciles of a Stack that follow each other
//! closely. A run, a retry and a rejection read them again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pko_core::stack::GitSourceRef;

use super::credentials::Login;

const TTL: Duration = Duration::from_secs(10);

pub(super) struct CachedLogin {
    wanted: GitSourceRef,
    login: Arc<Login>,
    at: Instant,
}

impl CachedLogin {
    pub(super) fn new(wanted: &GitSourceRef, login: &Arc<Login>, now: Instant) -> Self {
        Self {
            wanted: wanted.clone(),
            login: Arc::clone(login),
            at: now,
        }
    }

    /// The credentials, if they are for this spec and not expired.
    pub(super) fn of(&self, wanted: &GitSourceRef, now: Instant) -> Option<Arc<Login>> {
        let good = self.wanted == *wanted && now < self.at + TTL;
        good.then(|| Arc::clone(&self.login))
    }
}

#[cfg(test)]
mod tests {
    use pko_core::stack::{GitLogin, GitRevision};

    use super::*;

    #[test]
    fn cached_login_expires_and_is_for_one_spec() {
        let wanted = |branch: &str| GitSourceRef {
            repository: "https://git.test/a/b".to_owned(),
            revision: GitRevision::Followed(branch.to_owned()),
            login: GitLogin::Secret("credentials".to_owned()),
            interval: None,
        };
        let now = Instant::now();
        let reading = CachedLogin::new(&wanted("main"), &Arc::default(), now);
        assert!(reading.of(&wanted("main"), now).is_some());
        assert!(reading.of(&wanted("other"), now).is_none());
        assert!(reading.of(&wanted("main"), now + TTL).is_none());
    }
}
