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
//!
//! Of each limit, one tenant gets half ([`slots`]). A free slot goes to the tenant that has the
//! fewest ([`rounds`]). So whatever the servers of one tenant do, a repository of another waits for
//! one request to end at most.

mod repository;
mod rounds;
mod slots;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use self::{
    repository::{Jitter, ScheduledRepository},
    rounds::Rounds,
    slots::{Slot, Slots},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollerSettings {
    pub min_interval: Duration,
    /// A longer interval counts as this one, unless `min_interval` is longer.
    pub max_interval: Duration,
    /// The time in which simultaneous subscribers are collected, and the minimum between two
    /// requests.
    pub debounce: Duration,
    pub deadline: Duration,
    pub initial_backoff: Duration,
    /// Unless the interval is longer.
    pub max_backoff: Duration,
    /// The longest `Retry-After` that is respected.
    pub max_retry_after: Duration,
    /// Of all tenants; one gets half.
    pub max_in_flight: usize,
    /// Of all tenants; one gets half.
    pub max_in_flight_per_host: usize,
}

impl Default for PollerSettings {
    fn default() -> Self {
        Self {
            min_interval: Duration::from_secs(15),
            max_interval: Duration::from_hours(24),
            debounce: Duration::from_millis(500),
            deadline: Duration::from_mins(1),
            initial_backoff: Duration::from_secs(30),
            max_backoff: Duration::from_mins(10),
            max_retry_after: Duration::from_hours(1),
            max_in_flight: 32,
            max_in_flight_per_host: 8,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListOutcome {
    Answered,
    Failed { retry_after: Option<Duration> },
}

/// Who subscribes, and how often it wants an answer.
#[derive(Debug, Clone)]
pub(super) struct SubscriberTerms {
    pub(super) tenant: Arc<str>,
    pub(super) interval: Duration,
}

impl SubscriberTerms {
    pub(super) fn new(tenant: &str, interval: Duration) -> Self {
        Self {
            tenant: tenant.into(),
            interval,
        }
    }
}

pub(super) struct Schedule<K> {
    settings: PollerSettings,
    repositories: HashMap<K, ScheduledRepository>,
    /// Repositories without a request in flight.
    rounds: Rounds<K>,
    next_number: u64,
    /// Includes repositories without subscribers until their request ends.
    in_flight: HashMap<K, Slot>,
    slots: Slots,
    random: u64,
}

impl<K: Clone + Eq + Hash> Schedule<K> {
    pub(super) fn new(settings: PollerSettings, seed: u64) -> Self {
        Self {
            settings,
            repositories: HashMap::new(),
            rounds: Rounds::default(),
            next_number: 0,
            in_flight: HashMap::new(),
            slots: Slots::new(&settings),
            random: seed,
        }
    }

    /// Adds a subscriber. `needs_list` is whether it needs a revision that is not cached.
    pub(super) fn add_subscriber(
        &mut self,
        key: &K,
        host: &str,
        terms: &SubscriberTerms,
        needs_list: bool,
        now: Instant,
    ) {
        let interval = self.clamp(terms.interval);
        let debounce = self.settings.debounce;
        if !self.repositories.contains_key(key) {
            self.next_number += 1;
            let repository = ScheduledRepository::new(self.next_number, host, now);
            self.repositories.insert(key.clone(), repository);
        }
        self.change(key, |repository, listing| {
            repository.add(&terms.tenant, interval);
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
    pub(super) fn remove_subscriber(&mut self, key: &K, terms: &SubscriberTerms) {
        let interval = self.clamp(terms.interval);
        self.change(key, |repository, _| {
            repository.remove(&terms.tenant, interval);
        });
        let repository = self.repositories.get(key);
        if repository.is_some_and(ScheduledRepository::is_unused) {
            self.repositories.remove(key);
        }
    }

    pub(super) fn request_poll(&mut self, key: &K, now: Instant) {
        let debounce = self.settings.debounce;
        self.change(key, |repository, listing| {
            repository.request_at(now, debounce, listing);
        });
    }

    /// Starts requests for repositories that are due: by turns of the tenants, of one tenant the
    /// one that has waited longest.
    pub(super) fn start(&mut self, now: Instant) -> Vec<K> {
        let mut started = Vec::new();
        while let Some((key, slot)) = self.rounds.next(&self.slots, now) {
            self.slots.acquire(&slot);
            self.rounds.serve(&slot.tenant);
            // Before the slot counts as in flight, so that it leaves the rounds.
            self.change(&key, |repository, _| repository.last_request = Some(now));
            self.withdraw(&key);
            self.in_flight.insert(key.clone(), slot);
            started.push(key);
        }
        started
    }

    /// The next time at which [`Schedule::start`] has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        self.rounds.next_due(&self.slots)
    }

    pub(super) fn finish(&mut self, key: &K, outcome: ListOutcome, now: Instant) {
        if let Some(slot) = self.in_flight.remove(key) {
            self.slots.release(&slot);
        }
        let settings = self.settings;
        let jitter = self.next_jitter();
        self.change(key, |repository, _| {
            repository.record_outcome(outcome, &settings, jitter, now);
            if std::mem::take(&mut repository.needs_another_list) && repository.failures == 0 {
                repository.request_at(now, settings.debounce, false);
            }
        });
    }

    /// Changes a repository and requeues it. The closure gets whether a request is in flight.
    fn change(&mut self, key: &K, change: impl FnOnce(&mut ScheduledRepository, bool)) {
        self.withdraw(key);
        let listing = self.in_flight.contains_key(key);
        if let Some(repository) = self.repositories.get_mut(key) {
            change(repository, listing);
            for lane in repository.lanes().filter(|_| !listing) {
                self.rounds.insert(lane, repository.turn(), key.clone());
            }
        }
    }

    /// Takes a repository out of the rounds.
    fn withdraw(&mut self, key: &K) {
        if let Some(repository) = self.repositories.get(key) {
            for lane in repository.lanes() {
                self.rounds.remove(&lane, &repository.turn());
            }
        }
    }

    /// The numbers of repositories and of requests in flight.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.repositories.len(), self.in_flight.len())
    }

    fn clamp(&self, interval: Duration) -> Duration {
        let settings = &self.settings;
        interval
            .min(settings.max_interval)
            .max(settings.min_interval)
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
