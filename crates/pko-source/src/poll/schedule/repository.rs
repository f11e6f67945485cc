//! A repository of the schedule: when it is due.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ListOutcome, PollerSettings,
    rounds::{Lane, Turn},
};

pub(super) struct ScheduledRepository {
    /// Orders repositories that are due at the same time.
    number: u64,
    host: Arc<str>,
    /// The number of subscribers per tenant.
    tenants: BTreeMap<Arc<str>, usize>,
    /// The number of subscribers per interval.
    intervals: BTreeMap<Duration, usize>,
    pub(super) due: Instant,
    pub(super) last_request: Option<Instant>,
    /// From `Retry-After`.
    held_until: Option<Instant>,
    pub(super) failures: u32,
    proven: bool,
    /// A subscriber came that the request in flight does not cover.
    pub(super) needs_another_list: bool,
}

/// Varies an interval by ±10%, so that repositories spread out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jitter(pub(super) u64);

impl Jitter {
    pub(super) fn apply(self, time: Duration) -> Duration {
        let share = u32::try_from(9000 + self.0).unwrap_or(10_000);
        time.saturating_mul(share) / 10_000
    }
}

impl ScheduledRepository {
    pub(super) fn new(number: u64, host: &str, now: Instant) -> Self {
        Self {
            number,
            host: host.into(),
            tenants: BTreeMap::new(),
            intervals: BTreeMap::new(),
            // The first subscriber sets it.
            due: now + Duration::from_hours(24 * 365),
            last_request: None,
            held_until: None,
            failures: 0,
            proven: false,
            needs_another_list: false,
        }
    }

    pub(super) fn record_outcome(
        &mut self,
        outcome: ListOutcome,
        settings: &PollerSettings,
        jitter: Jitter,
        now: Instant,
    ) {
        self.proven = outcome == ListOutcome::Answered;
        self.held_until = None;
        match outcome {
            ListOutcome::Answered => {
                self.failures = 0;
                self.due = now + jitter.apply(self.interval());
            }
            ListOutcome::Failed { retry_after } => {
                self.failures = self.failures.saturating_add(1);
                let held = retry_after.map(|time| now + time.min(settings.max_retry_after));
                self.held_until = held;
                let due = now + jitter.apply(self.backoff(settings));
                self.due = held.map_or(due, |held| due.max(held));
            }
        }
    }

    pub(super) fn add(&mut self, tenant: &Arc<str>, interval: Duration) {
        *self.tenants.entry(Arc::clone(tenant)).or_default() += 1;
        *self.intervals.entry(interval).or_default() += 1;
    }

    pub(super) fn remove(&mut self, tenant: &Arc<str>, interval: Duration) {
        remove_one(&mut self.tenants, tenant);
        remove_one(&mut self.intervals, &interval);
    }

    pub(super) fn is_unused(&self) -> bool {
        self.tenants.is_empty()
    }

    pub(super) fn turn(&self) -> Turn {
        Turn {
            due: self.due,
            number: self.number,
        }
    }

    /// Where it waits: with each of its tenants, so that none delays it for another.
    pub(super) fn lanes(&self) -> impl Iterator<Item = Lane> + use<'_> {
        self.tenants.keys().map(|tenant| Lane {
            tenant: Arc::clone(tenant),
            host: Arc::clone(&self.host),
            proven: self.proven,
        })
    }

    fn interval(&self) -> Duration {
        let shortest = self.intervals.keys().next();
        shortest.copied().unwrap_or(Duration::from_hours(1))
    }

    fn backoff(&self, settings: &PollerSettings) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(20);
        let backoff = settings.initial_backoff.saturating_mul(1 << doublings);
        backoff.min(settings.max_backoff.max(self.interval()))
    }

    /// Requests a poll that starts no sooner than `time`.
    pub(super) fn request_at(&mut self, time: Instant, debounce: Duration, listing: bool) {
        if listing {
            self.needs_another_list = true;
            return;
        }
        let spaced = self.last_request.map(|last| last + debounce);
        let times = [Some(time), spaced, self.held_until];
        if let Some(earliest) = times.into_iter().flatten().max() {
            self.due = self.due.min(earliest);
        }
    }
}

/// Counts one less, and forgets what is not there any more.
fn remove_one<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
