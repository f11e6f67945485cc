//! Leader election: the manager that holds the Lease leads. Pure: the input is the observed Lease
//! and the time since the start, the output is a [`LeaseAction`].
//!
//! Only the local clock counts: a Lease has expired when *this* manager has observed it unchanged
//! for the duration in its spec.
//!
//! The decision is hand-written, in 110 lines, because kube has no leader election. The requests
//! are in `pko-operator/src/leader_election.rs`. Upstream's Lease, flags and timing are kept, so
//! that managers of both versions exclude each other.

use std::time::Duration;

/// The durations of leader election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTiming {
    /// How long a Lease is valid without renewal.
    pub lease: Duration,
    /// How long a leader retries a renewal before it exits.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry: Duration,
}

/// Durations with which no leader could keep the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTiming {
    /// Another manager could take over before the leader gives up.
    #[error(
        "--leader-election-lease-duration must be longer than --leader-election-renew-deadline"
    )]
    Lease,
    /// The leader could not retry a renewal.
    #[error("--leader-election-renew-deadline must be longer than --leader-election-retry-period")]
    Renewal,
    /// Attempts without a pause are a busy loop.
    #[error("--leader-election-retry-period must be greater than zero")]
    Retry,
}

impl LeaseTiming {
    pub fn check(self) -> Result<Self, InvalidTiming> {
        if self.retry.is_zero() {
            return Err(InvalidTiming::Retry);
        }
        if self.renew_deadline <= self.retry {
            return Err(InvalidTiming::Renewal);
        }
        if self.lease <= self.renew_deadline {
            return Err(InvalidTiming::Lease);
        }
        Ok(self)
    }
}

/// A Lease, as read from the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedLease {
    /// The holder's identity; empty if the Lease is free.
    pub holder: String,
    /// The resource version, which changes with every write.
    pub version: String,
    /// The duration that the holder wrote.
    pub lasts: Duration,
}

/// The next action of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// No Lease exists.
    Create,
    /// The Lease is free, ours, or expired.
    Take,
    /// Another manager holds the Lease; read it again after the pause.
    Wait,
}

/// A manager that takes part in leader election.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    /// The last observed version, and the time of its first observation.
    last: Option<(String, Duration)>,
}

impl Candidate {
    /// The identity must be unique.
    #[must_use]
    pub fn new(identity: String) -> Self {
        Self {
            identity,
            last: None,
        }
    }

    /// Decides, and remembers the observed Lease. `now` is the time since the start.
    pub fn next_action(&mut self, lease: Option<&ObservedLease>, now: Duration) -> LeaseAction {
        let Some(lease) = lease else {
            return LeaseAction::Create;
        };
        if lease.holder.is_empty() || lease.holder == self.identity {
            return LeaseAction::Take;
        }
        match &self.last {
            Some((version, since)) if *version == lease.version => {
                if now.saturating_sub(*since) >= lease.lasts {
                    LeaseAction::Take
                } else {
                    LeaseAction::Wait
                }
            }
            _ => {
                self.last = Some((lease.version.clone(), now));
                LeaseAction::Wait
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(20);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn lease(holder: &str, version: &str) -> ObservedLease {
        ObservedLease {
            holder: holder.to_owned(),
            version: version.to_owned(),
            lasts: LEASE,
        }
    }

    fn candidate() -> Candidate {
        Candidate::new("me".to_owned())
    }

    #[test]
    fn free_lease_is_taken_at_once() {
        assert_eq!(
            candidate().next_action(None, seconds(0)),
            LeaseAction::Create
        );
        assert_eq!(
            candidate().next_action(Some(&lease("", "1")), seconds(0)),
            LeaseAction::Take
        );
        assert_eq!(
            candidate().next_action(Some(&lease("me", "1")), seconds(0)),
            LeaseAction::Take
        );
    }

    #[test]
    fn renewing_leader_stays_leader() {
        let mut candidate = candidate();
        for time in 0..100 {
            let version = format!("{}", time / 5);
            assert_eq!(
                candidate.next_action(Some(&lease("other", &version)), seconds(time)),
                LeaseAction::Wait
            );
        }
    }

    #[test]
    fn expired_lease_is_taken_over() {
        let mut candidate = candidate();
        let other = lease("other", "7");
        for time in [3, 10, 22] {
            assert_eq!(
                candidate.next_action(Some(&other), seconds(time)),
                LeaseAction::Wait,
                "{time}"
            );
        }
        assert_eq!(
            candidate.next_action(Some(&other), seconds(23)),
            LeaseAction::Take
        );
        let renewed = lease("other", "8");
        assert_eq!(
            candidate.next_action(Some(&renewed), seconds(24)),
            LeaseAction::Wait,
            "it was not dead"
        );
    }

    #[test]
    fn lease_duration_is_that_of_the_holder() {
        let mut candidate = candidate();
        let short = ObservedLease {
            lasts: seconds(1),
            ..lease("other", "1")
        };
        assert_eq!(
            candidate.next_action(Some(&short), seconds(0)),
            LeaseAction::Wait
        );
        assert_eq!(
            candidate.next_action(Some(&short), seconds(1)),
            LeaseAction::Take
        );
    }

    #[test]
    fn lease_with_invalid_times_is_handled() {
        let timing = |lease, renew_deadline, retry| {
            let timing = LeaseTiming {
                lease: seconds(lease),
                renew_deadline: seconds(renew_deadline),
                retry: seconds(retry),
            };
            timing.check().map(drop)
        };
        assert_eq!(timing(20, 15, 5), Ok(()));
        assert_eq!(timing(15, 15, 5), Err(InvalidTiming::Lease));
        assert_eq!(timing(20, 5, 5), Err(InvalidTiming::Renewal));
        assert_eq!(timing(20, 15, 0), Err(InvalidTiming::Retry));
    }
}
