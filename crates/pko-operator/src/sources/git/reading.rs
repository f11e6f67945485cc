//! Credentials that were read a moment ago. A run, a retry and a server that refuses them have them read again; the few
//! looks at a Stack that belong together do not.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pko_core::stack::GitSourceRef;

use super::credentials::Login;

/// For so long what was read is good.
const GOOD_FOR: Duration = Duration::from_secs(10);

/// What was read for a Stack.
pub(super) struct Reading {
    wanted: GitSourceRef,
    login: Arc<Login>,
    at: Instant,
}

impl Reading {
    pub(super) fn new(wanted: &GitSourceRef, login: &Arc<Login>, now: Instant) -> Self {
        Self {
            wanted: wanted.clone(),
            login: Arc::clone(login),
            at: now,
        }
    }

    /// The credentials, if they are for this and still good.
    pub(super) fn of(&self, wanted: &GitSourceRef, now: Instant) -> Option<Arc<Login>> {
        let good = self.wanted == *wanted && now < self.at + GOOD_FOR;
        good.then(|| Arc::clone(&self.login))
    }
}

#[cfg(test)]
mod tests {
    use pko_core::stack::{GitLogin, GitRevision};

    use super::*;

    #[test]
    fn what_was_read_is_good_for_a_moment_and_for_the_same_spec() {
        let wanted = |branch: &str| GitSourceRef {
            repository: "https://git.test/a/b".to_owned(),
            revision: GitRevision::Followed(branch.to_owned()),
            login: GitLogin::Secret("credentials".to_owned()),
            interval: None,
        };
        let now = Instant::now();
        let reading = Reading::new(&wanted("main"), &Arc::default(), now);
        assert!(reading.of(&wanted("main"), now).is_some());
        assert!(reading.of(&wanted("other"), now).is_none());
        assert!(reading.of(&wanted("main"), now + GOOD_FOR).is_none());
    }
}
