//! Decides when each repository is polled. Does no I/O: the time and the random seed are arguments.
//!
//! | event | the next request |
//! |---|---|
//! | a subscriber needs a revision that is not cached | after the debounce time, so that simultaneous subscribers share it |
//! | a response | after the shortest interval of all subscribers, ±10% |
//! | a failure | after 30 s, doubling up to 10 min or the interval |
//! | a failure with `Retry-After` | not before that time |
//! | a requested poll (webhook) | immediately, but not within the debounce time of the last request |
//!
//! Requests in flight are limited in total and per host, and half of the slots are reserved for
//! repositories whose last request succeeded. So a hanging server delays its own repositories, and
//! servers that never answered delay each other.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollerSettings {
    pub min_interval: Duration,
    /// The time in which simultaneous subscribers are collected, and the minimum between two
    /// requests.
    pub debounce: Duration,
    pub deadline: Duration,
    pub initial_backoff: Duration,
    /// Unless the interval is longer.
    pub max_backoff: Duration,
    /// The longest `Retry-After` that is respected.
    pub max_retry_after: Duration,
    pub max_in_flight: usize,
    pub max_in_flight_per_host: usize,
}

impl Default for PollerSettings {
    fn default() -> Self {
        Self {
            min_interval: Duration::from_secs(15),
            debounce: Duration::from_millis(500),
            deadline: Duration::from_mins(1),
            initial_backoff: Duration::from_secs(30),
            max_backoff: Duration::from_mins(10),
            max_retry_after: Duration::from_hours(1),
            max_in_flight: 32,
            max_in_flight_per_host: 4,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListOutcome {
    Answered,
    Failed { retry_after: Option<Duration> },
}

pub(super) struct Schedule<K> {
    settings: PollerSettings,
    repositories: HashMap<K, ScheduledRepository>,
    /// Repositories without a request in flight, by due time.
    queue: BTreeMap<(Instant, u64), K>,
    next_number: u64,
    /// Includes repositories without subscribers until their request ends.
    in_flight: HashMap<K, RequestSlot>,
    in_flight_by_host: HashMap<Arc<str>, usize>,
    /// Requests in flight to repositories whose last request did not succeed.
    unproven: usize,
    random: u64,
}

struct ScheduledRepository {
    /// Orders repositories that are due at the same time.
    number: u64,
    host: Arc<str>,
    /// The number of subscribers per interval.
    intervals: BTreeMap<Duration, usize>,
    due: Instant,
    last_request: Option<Instant>,
    /// From `Retry-After`.
    held_until: Option<Instant>,
    failures: u32,
    proven: bool,
    /// A subscriber came that the request in flight does not cover.
    needs_another_list: bool,
}

struct RequestSlot {
    host: Arc<str>,
    proven: bool,
}

impl<K: Clone + Eq + Hash> Schedule<K> {
    pub(super) fn new(settings: PollerSettings, seed: u64) -> Self {
        Self {
            settings,
            repositories: HashMap::new(),
            queue: BTreeMap::new(),
            next_number: 0,
            in_flight: HashMap::new(),
            in_flight_by_host: HashMap::new(),
            unproven: 0,
            random: seed,
        }
    }

    /// Adds a subscriber. `needs_list` is whether it needs a revision that is not cached.
    pub(super) fn add_subscriber(
        &mut self,
        key: &K,
        host: &str,
        interval: Duration,
        needs_list: bool,
        now: Instant,
    ) {
        let interval = self.clamp(interval);
        let debounce = self.settings.debounce;
        if !self.repositories.contains_key(key) {
            self.next_number += 1;
            let repository = ScheduledRepository::new(self.next_number, host, now);
            self.repositories.insert(key.clone(), repository);
        }
        self.change(key, |repository, listing| {
            *repository.intervals.entry(interval).or_default() += 1;
            if repository.failures > 0 {
                // A new subscriber does not shorten the backoff.
            } else if needs_list {
                repository.request_at(now + debounce, debounce, listing);
            } else if let Some(last) = repository.last_request {
                // Its interval may be shorter than the others'.
                repository.due = repository.due.min((last + interval).max(now));
            }
        });
    }

    /// Removes a subscriber. With the last one, the repository is dropped.
    pub(super) fn remove_subscriber(&mut self, key: &K, interval: Duration) {
        let interval = self.clamp(interval);
        let Some(repository) = self.repositories.get_mut(key) else {
            return;
        };
        if let Some(count) = repository.intervals.get_mut(&interval) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                repository.intervals.remove(&interval);
            }
        }
        if repository.intervals.is_empty() {
            self.queue.remove(&repository.queue_key());
            self.repositories.remove(key);
        }
    }

    pub(super) fn request_poll(&mut self, key: &K, now: Instant) {
        let debounce = self.settings.debounce;
        self.change(key, |repository, listing| {
            repository.request_at(now, debounce, listing);
        });
    }

    /// Starts requests for repositories that are due, longest waiting first.
    pub(super) fn start(&mut self, now: Instant) -> Vec<K> {
        let due = self.queue.range(..=(now, u64::MAX));
        let due: Vec<_> = due.map(|(_, key)| key.clone()).collect();
        due.into_iter()
            .filter(|key| self.acquire_slot(key, now))
            .collect()
    }

    /// The next time at which [`Schedule::start`] has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        let has_free_slot = |key| {
            let repository = self.repositories.get(key);
            repository.is_some_and(|repository| self.has_free_slot(key, repository))
        };
        let mut waiting = self.queue.iter();
        let first = waiting.find(|(_, key)| has_free_slot(*key));
        first.map(|((due, _), _)| *due)
    }

    pub(super) fn finish(&mut self, key: &K, outcome: ListOutcome, now: Instant) {
        self.release_slot(key);
        let settings = self.settings;
        let jitter = self.next_jitter();
        self.change(key, |repository, _| {
            repository.record_outcome(outcome, &settings, jitter, now);
            if std::mem::take(&mut repository.needs_another_list) && repository.failures == 0 {
                repository.request_at(now, settings.debounce, false);
            }
        });
    }

    /// Changes a repository and requeues it. The closure is told whether a request is in flight.
    fn change(&mut self, key: &K, change: impl FnOnce(&mut ScheduledRepository, bool)) {
        let listing = self.in_flight.contains_key(key);
        if let Some(repository) = self.repositories.get_mut(key) {
            self.queue.remove(&repository.queue_key());
            change(repository, listing);
            if !listing {
                self.queue.insert(repository.queue_key(), key.clone());
            }
        }
    }

    /// The numbers of repositories and of requests in flight.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.repositories.len(), self.in_flight.len())
    }

    fn clamp(&self, interval: Duration) -> Duration {
        interval.max(self.settings.min_interval)
    }

    fn has_free_slot(&self, key: &K, repository: &ScheduledRepository) -> bool {
        let on_host = self.in_flight_by_host.get(&repository.host).copied();
        let for_unproven = (self.settings.max_in_flight / 2).max(1);
        self.in_flight.len() < self.settings.max_in_flight
            && (repository.proven || self.unproven < for_unproven)
            && on_host.unwrap_or_default() < self.settings.max_in_flight_per_host
            && !self.in_flight.contains_key(key)
    }

    fn acquire_slot(&mut self, key: &K, now: Instant) -> bool {
        let repository = self.repositories.get(key);
        let Some(repository) = repository.filter(|one| self.has_free_slot(key, one)) else {
            return false;
        };
        let slot = RequestSlot {
            host: Arc::clone(&repository.host),
            proven: repository.proven,
        };
        *self
            .in_flight_by_host
            .entry(Arc::clone(&slot.host))
            .or_default() += 1;
        self.unproven += usize::from(!slot.proven);
        self.in_flight.insert(key.clone(), slot);
        self.change(key, |repository, _| repository.last_request = Some(now));
        true
    }

    fn release_slot(&mut self, key: &K) {
        let Some(slot) = self.in_flight.remove(key) else {
            return;
        };
        let unproven = usize::from(!slot.proven);
        self.unproven = self.unproven.saturating_sub(unproven);
        if let Some(count) = self.in_flight_by_host.get_mut(&slot.host) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.in_flight_by_host.remove(&slot.host);
            }
        }
    }

    /// `SplitMix64` (Steele, Lea, Flood).
    fn next_jitter(&mut self) -> Jitter {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Jitter((bits ^ (bits >> 31)) % 2001)
    }
}

/// Varies an interval by ±10%, so that repositories spread out.
#[derive(Debug, Clone, Copy)]
struct Jitter(u64);

impl Jitter {
    fn apply(self, time: Duration) -> Duration {
        let share = u32::try_from(9000 + self.0).unwrap_or(10_000);
        time.saturating_mul(share) / 10_000
    }
}

impl ScheduledRepository {
    fn new(number: u64, host: &str, now: Instant) -> Self {
        Self {
            number,
            host: host.into(),
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

    fn record_outcome(
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

    fn queue_key(&self) -> (Instant, u64) {
        (self.due, self.number)
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
    fn request_at(&mut self, time: Instant, debounce: Duration, listing: bool) {
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

#[cfg(test)]
mod tests;
