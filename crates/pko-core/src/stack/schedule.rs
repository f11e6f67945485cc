//! When a Stack runs again without a change: resyncs, and retries after failures.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pko_api::{
    names::failures::FailureClass,
    pulumi::v1::{LastUpdate, StackSpec},
};

/// The shortest interval of resyncs, and of polls of a branch.
const SHORTEST_RESYNC: Duration = Duration::from_mins(1);
/// The wait after the first failure.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
/// The wait after the first failure because of a lock, without `spec.retryOnUpdateConflict`.
const FIRST_SLOW_BACKOFF: Duration = Duration::from_mins(5);
/// Each further failure makes the wait this many times longer.
const BACKOFF_FACTOR: u32 = 3;
/// The longest wait after a failure.
const LONGEST_BACKOFF: Duration = Duration::from_hours(24);
/// The longest wait after a transient failure.
const LONGEST_TRANSIENT_BACKOFF: Duration = Duration::from_mins(10);
/// After this many failures in a row the Stack is stalled.
const RETRY_LIMIT: i64 = 3;

/// The interval of resyncs, for a Stack that has them.
pub(super) fn resync_period(spec: &StackSpec) -> Duration {
    let seconds = spec
        .resync_frequency_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    seconds
        .map_or(SHORTEST_RESYNC, Duration::from_secs)
        .max(SHORTEST_RESYNC)
}

/// Whether so many failures in a row stall a Stack.
pub(super) fn is_too_many(spec: &StackSpec, failures: i64) -> bool {
    let limit = spec.retry_limit.unwrap_or(RETRY_LIMIT);
    limit >= 0 && failures >= limit
}

/// What a failure means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// It counts towards `spec.retryLimit`.
    Counted,
    /// Its cause is outside the stack, so it does not count.
    Transient,
    /// Another update has locked the stack, and the spec does not ask for retries: the user should
    /// check.
    Locked,
}

pub(super) fn failure_kind(spec: &StackSpec, class: Option<&str>) -> FailureKind {
    let is = |other: FailureClass| class == Some(other.as_str());
    if is(FailureClass::Conflict) {
        let retries = spec.retry_on_update_conflict.unwrap_or(false);
        return if retries {
            FailureKind::Transient
        } else {
            FailureKind::Locked
        };
    }
    if is(FailureClass::Transient) || is(FailureClass::Interrupted) {
        return FailureKind::Transient;
    }
    FailureKind::Counted
}

/// How long to wait after the last failure.
pub(super) fn wait_after(spec: &StackSpec, last: &LastUpdate) -> Duration {
    let retries = last.retries.unwrap_or(1).saturating_sub(1);
    match failure_kind(spec, last.failure_class.as_deref()) {
        FailureKind::Counted => backoff(FIRST_BACKOFF, longest(spec), last.failures.unwrap_or(0)),
        FailureKind::Transient => {
            let longest = longest(spec).min(LONGEST_TRANSIENT_BACKOFF);
            backoff(FIRST_BACKOFF, longest, retries)
        }
        FailureKind::Locked => backoff(FIRST_SLOW_BACKOFF, longest(spec), retries),
    }
}

fn longest(spec: &StackSpec) -> Duration {
    spec.retry_max_backoff_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0)
        .map_or(LONGEST_BACKOFF, Duration::from_secs)
}

fn backoff(first: Duration, longest: Duration, times: i64) -> Duration {
    let times = u32::try_from(times.max(0)).unwrap_or(u32::MAX);
    let wait = first.saturating_mul(BACKOFF_FACTOR.saturating_pow(times));
    wait.min(longest)
}

/// When a wait that began with the last result ends.
pub(super) fn end_of(last: &LastUpdate, wait: Duration) -> Option<Timestamp> {
    let began = last.last_resync_time.as_ref()?.0;
    began.checked_add(SignedDuration::try_from(wait).ok()?).ok()
}

/// What is left of a wait that began with the last result, if it has not ended.
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
    fn resync_interval_is_at_least_a_minute() {
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
    fn backoff_triples_up_to_its_limit() {
        let spec = StackSpec::default();
        let after = |spec: &StackSpec, failures| {
            let failed = LastUpdate {
                failures: Some(failures),
                ..LastUpdate::default()
            };
            wait_after(spec, &failed).as_secs()
        };
        let waits: Vec<u64> = (0..10).map(|failures| after(&spec, failures)).collect();
        assert_eq!(
            waits,
            [10, 30, 90, 270, 810, 2_430, 7_290, 21_870, 65_610, 86_400]
        );
        let short = StackSpec {
            retry_max_backoff_duration_seconds: Some(60),
            ..spec
        };
        assert_eq!(after(&short, 1), 30);
        assert_eq!(after(&short, 2), 60);
        assert_eq!(after(&short, i64::MAX), 60);
        assert_eq!(after(&short, -1), 10);
    }

    #[test]
    fn backoff_remaining_is_bounded_by_wait() {
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
        // A clock that was set back extends no wait beyond its full length.
        assert_eq!(remaining(&last, wait, at(50)), Some(wait));
        assert_eq!(remaining(&LastUpdate::default(), wait, at(104)), None);
    }
}
