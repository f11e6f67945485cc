//! When a Stack runs again without a change: resync, retry after failures.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pko_api::pulumi::v1::{LastUpdate, StackSpec};

/// No resync and no look at a branch is more frequent.
const SHORTEST_RESYNC: Duration = Duration::from_mins(1);
/// The wait after the first failure.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
/// Each further failure makes the wait this many times longer.
const BACKOFF_FACTOR: u32 = 3;
/// The longest wait after a failure.
const LONGEST_BACKOFF: Duration = Duration::from_hours(24);
/// After this many failures in a row the Stack is stalled.
pub(super) const RETRY_LIMIT: i64 = 3;

/// How often a Stack is resynced, if it is at all.
pub(super) fn resync_period(spec: &StackSpec) -> Duration {
    let seconds = spec
        .resync_frequency_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    seconds
        .map_or(SHORTEST_RESYNC, Duration::from_secs)
        .max(SHORTEST_RESYNC)
}

/// How long to wait after this many failures.
pub(super) fn backoff(spec: &StackSpec, failures: i64) -> Duration {
    let longest = spec
        .retry_max_backoff_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0)
        .map_or(LONGEST_BACKOFF, Duration::from_secs);
    let times = u32::try_from(failures.max(0)).unwrap_or(u32::MAX);
    let wait = FIRST_BACKOFF.saturating_mul(BACKOFF_FACTOR.saturating_pow(times));
    wait.min(longest)
}

/// How much of a wait that began with the last result is left; nothing where it is over.
pub(super) fn remaining(last: &LastUpdate, wait: Duration, now: Timestamp) -> Option<Duration> {
    let began = last.last_resync_time.as_ref()?.0;
    let elapsed = now.duration_since(began).max(SignedDuration::ZERO);
    let left = SignedDuration::try_from(wait).ok()?.checked_sub(elapsed)?;
    left.is_positive().then(|| left.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn a_resync_is_never_more_frequent_than_once_a_minute() {
        let period = |seconds| {
            resync_period(&StackSpec {
                resync_frequency_seconds: seconds,
                ..StackSpec::default()
            })
            .as_secs()
        };
        assert_eq!(period(None), 60);
        assert_eq!(period(Some(5)), 60);
        assert_eq!(period(Some(-5)), 60);
        assert_eq!(period(Some(3_600)), 3_600);
    }

    #[test]
    fn waits_grow_threefold_up_to_their_limit() {
        let spec = StackSpec::default();
        let waits: Vec<u64> = (0..10)
            .map(|failures| backoff(&spec, failures).as_secs())
            .collect();
        assert_eq!(
            waits,
            [10, 30, 90, 270, 810, 2_430, 7_290, 21_870, 65_610, 86_400]
        );
        let short = StackSpec {
            retry_max_backoff_duration_seconds: Some(60),
            ..spec
        };
        assert_eq!(backoff(&short, 1).as_secs(), 30);
        assert_eq!(backoff(&short, 2).as_secs(), 60);
        assert_eq!(backoff(&short, i64::MAX).as_secs(), 60);
        assert_eq!(backoff(&short, -1).as_secs(), 10);
    }

    #[test]
    fn a_wait_ends() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let last = LastUpdate {
            last_resync_time: Some(Time(at(100))),
            ..LastUpdate::default()
        };
        let wait = Duration::from_secs(10);
        assert_eq!(
            remaining(&last, wait, at(104)),
            Some(Duration::from_secs(6))
        );
        assert_eq!(remaining(&last, wait, at(110)), None);
        // A clock that went back makes nobody wait longer than the whole time.
        assert_eq!(remaining(&last, wait, at(50)), Some(wait));
        assert_eq!(remaining(&LastUpdate::default(), wait, at(104)), None);
    }
}
