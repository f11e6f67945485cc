//! Which of several managers leads: the one that holds the Lease. Pure: what is seen goes in, with the time
//! since the start, and what to do comes out.
//!
//! Nobody's clock is believed but our own: a Lease is over when *we* have seen it unchanged for as long as its
//! holder said that it lasts.

use std::time::Duration;

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTiming {
    /// How long a Lease lasts that is not renewed.
    pub lease: Duration,
    /// How long a leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry: Duration,
}

/// Times with which no leader could stay one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTiming {
    /// A leader would still believe in itself when others take over.
    #[error(
        "--leader-election-lease-duration must be longer than --leader-election-renew-deadline"
    )]
    Lease,
    /// There would be no time for a second try.
    #[error("--leader-election-renew-deadline must be longer than --leader-election-retry-period")]
    Renewal,
    /// A pause of no time is a hot loop.
    #[error("--leader-election-retry-period must be greater than zero")]
    Retry,
}

impl LeaseTiming {
    /// Whether a leader could stay one.
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

/// A Lease, as the API server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedLease {
    /// Who has it; nobody if empty.
    pub holder: String,
    /// Changes with every write.
    pub version: String,
    /// How long its holder says that it lasts.
    pub lasts: Duration,
}

/// What a candidate does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// There is no Lease: make it.
    Create,
    /// Nobody has it, or not any more: take it.
    Take,
    /// Somebody has it: look again after the pause.
    Wait,
}

/// One who wants to lead.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    /// The version that was seen last, and since when.
    last: Option<(String, Duration)>,
}

impl Candidate {
    /// Under this name, which nobody else has.
    #[must_use]
    pub fn new(identity: String) -> Self {
        Self {
            identity,
            last: None,
        }
    }

    /// What to do about the Lease, so long after the start.
    pub fn next(&mut self, seen: Option<&ObservedLease>, now: Duration) -> LeaseAction {
        let Some(seen) = seen else {
            return LeaseAction::Create;
        };
        if seen.holder.is_empty() || seen.holder == self.identity {
            return LeaseAction::Take;
        }
        match &self.last {
            Some((version, since)) if *version == seen.version => {
                if now.saturating_sub(*since) >= seen.lasts {
                    LeaseAction::Take
                } else {
                    LeaseAction::Wait
                }
            }
            _ => {
                self.last = Some((seen.version.clone(), now));
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

    fn seen(holder: &str, version: &str) -> ObservedLease {
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
        assert_eq!(candidate().next(None, seconds(0)), LeaseAction::Create);
        assert_eq!(
            candidate().next(Some(&seen("", "1")), seconds(0)),
            LeaseAction::Take
        );
        assert_eq!(
            candidate().next(Some(&seen("me", "1")), seconds(0)),
            LeaseAction::Take
        );
    }

    #[test]
    fn renewing_leader_stays_leader() {
        let mut candidate = candidate();
        for time in 0..100 {
            let version = format!("{}", time / 5);
            assert_eq!(
                candidate.next(Some(&seen("other", &version)), seconds(time)),
                LeaseAction::Wait
            );
        }
    }

    #[test]
    fn expired_lease_is_taken_over() {
        let mut candidate = candidate();
        let other = seen("other", "7");
        for time in [3, 10, 22] {
            assert_eq!(
                candidate.next(Some(&other), seconds(time)),
                LeaseAction::Wait,
                "{time}"
            );
        }
        assert_eq!(candidate.next(Some(&other), seconds(23)), LeaseAction::Take);
        let renewed = seen("other", "8");
        assert_eq!(
            candidate.next(Some(&renewed), seconds(24)),
            LeaseAction::Wait,
            "it was not dead"
        );
    }

    #[test]
    fn lease_duration_is_that_of_the_holder() {
        let mut candidate = candidate();
        let short = ObservedLease {
            lasts: seconds(1),
            ..seen("other", "1")
        };
        assert_eq!(candidate.next(Some(&short), seconds(0)), LeaseAction::Wait);
        assert_eq!(candidate.next(Some(&short), seconds(1)), LeaseAction::Take);
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
