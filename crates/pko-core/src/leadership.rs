//! Which of several managers leads: the one that holds the Lease. Pure: what is seen goes in, with the time
//! since the start, and what to do comes out.
//!
//! Nobody's clock is believed but our own: a Lease is over when *we* have seen it unchanged for as long as its
//! holder said that it lasts.

use std::time::Duration;

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a Lease lasts that is not renewed.
    pub lease: Duration,
    /// How long a leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry: Duration,
}

/// Times with which no leader could stay one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTiming {
    /// A leader would still believe in itself when others take over.
    #[error(
        "--leader-election-lease-duration must be longer than --leader-election-renew-deadline"
    )]
    Lease,
    /// There would be no time for a second try.
    #[error("--leader-election-renew-deadline must be longer than --leader-election-retry-period")]
    Renewal,
    /// A pause of no time is a hot loop.
    #[error("--leader-election-retry-period must be longer than nothing")]
    Retry,
}

impl Timing {
    /// Whether a leader could stay one.
    pub fn check(self) -> Result<Self, BadTiming> {
        if self.retry.is_zero() {
            return Err(BadTiming::Retry);
        }
        if self.renew_deadline <= self.retry {
            return Err(BadTiming::Renewal);
        }
        if self.lease <= self.renew_deadline {
            return Err(BadTiming::Lease);
        }
        Ok(self)
    }
}

/// A Lease, as the API server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Who has it; nobody if empty.
    pub holder: String,
    /// Changes with every write.
    pub version: String,
    /// How long its holder says that it lasts.
    pub lasts: Duration,
}

/// What a candidate does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
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
    pub fn next(&mut self, seen: Option<&Seen>, now: Duration) -> Next {
        let Some(seen) = seen else {
            return Next::Create;
        };
        if seen.holder.is_empty() || seen.holder == self.identity {
            return Next::Take;
        }
        match &self.last {
            Some((version, since)) if *version == seen.version => {
                if now.saturating_sub(*since) >= seen.lasts {
                    Next::Take
                } else {
                    Next::Wait
                }
            }
            _ => {
                self.last = Some((seen.version.clone(), now));
                Next::Wait
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

    fn seen(holder: &str, version: &str) -> Seen {
        Seen {
            holder: holder.to_owned(),
            version: version.to_owned(),
            lasts: LEASE,
        }
    }

    fn candidate() -> Candidate {
        Candidate::new("me".to_owned())
    }

    #[test]
    fn what_nobody_has_is_taken_at_once() {
        assert_eq!(candidate().next(None, seconds(0)), Next::Create);
        assert_eq!(
            candidate().next(Some(&seen("", "1")), seconds(0)),
            Next::Take
        );
        assert_eq!(
            candidate().next(Some(&seen("me", "1")), seconds(0)),
            Next::Take
        );
    }

    #[test]
    fn a_leader_that_renews_stays() {
        let mut candidate = candidate();
        for time in 0..100 {
            let version = format!("{}", time / 5);
            assert_eq!(
                candidate.next(Some(&seen("other", &version)), seconds(time)),
                Next::Wait
            );
        }
    }

    #[test]
    fn one_that_does_not_is_followed_when_its_lease_is_over() {
        let mut candidate = candidate();
        let other = seen("other", "7");
        for time in [3, 10, 22] {
            assert_eq!(
                candidate.next(Some(&other), seconds(time)),
                Next::Wait,
                "{time}"
            );
        }
        assert_eq!(candidate.next(Some(&other), seconds(23)), Next::Take);
        let renewed = seen("other", "8");
        assert_eq!(
            candidate.next(Some(&renewed), seconds(24)),
            Next::Wait,
            "it was not dead"
        );
    }

    #[test]
    fn how_long_it_lasts_is_the_holders_word() {
        let mut candidate = candidate();
        let short = Seen {
            lasts: seconds(1),
            ..seen("other", "1")
        };
        assert_eq!(candidate.next(Some(&short), seconds(0)), Next::Wait);
        assert_eq!(candidate.next(Some(&short), seconds(1)), Next::Take);
    }

    #[test]
    fn times_that_make_no_sense() {
        let timing = |lease, renew_deadline, retry| {
            let timing = Timing {
                lease: seconds(lease),
                renew_deadline: seconds(renew_deadline),
                retry: seconds(retry),
            };
            timing.check().map(drop)
        };
        assert_eq!(timing(20, 15, 5), Ok(()));
        assert_eq!(timing(15, 15, 5), Err(BadTiming::Lease));
        assert_eq!(timing(20, 5, 5), Err(BadTiming::Renewal));
        assert_eq!(timing(20, 15, 0), Err(BadTiming::Retry));
    }
}
