//! When which repository is asked. Knows no server, no clock and no chance of its own: the time is an argument, and so
//! is the seed.
//!
//! | what happens | when the repository is asked next |
//! |---|---|
//! | somebody comes who wants to know something new | a moment later, so that those who come at once are one question |
//! | an answer | after the shortest interval of all who want to know, more or less a tenth |
//! | a failure | after half a minute, then twice that, and so on up to ten minutes or the interval |
//! | a failure with `Retry-After` | not before that |
//! | a hint (a webhook) | at once, but not sooner than a moment after the last question |
//!
//! Places are limited: for all, for each host, and half of them are kept for repositories that answered the last time.
//! So whoever hangs holds up its own host, and those who have never answered hold up each other.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

/// How often, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// No interval is shorter than this.
    pub shortest_interval: Duration,
    /// The time between two questions at least, and the time in which those who come at once gather.
    pub moment: Duration,
    /// What a question may take.
    pub deadline: Duration,
    /// The wait after the first failure.
    pub first_wait: Duration,
    /// The longest wait after a failure, unless the interval is longer.
    pub longest_wait: Duration,
    /// The longest time for which a server is left alone because it says so.
    pub longest_retry_after: Duration,
    /// Questions under way, of all.
    pub places: usize,
    /// Questions under way to one host.
    pub places_per_host: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shortest_interval: Duration::from_secs(15),
            moment: Duration::from_millis(500),
            deadline: Duration::from_mins(1),
            first_wait: Duration::from_secs(30),
            longest_wait: Duration::from_mins(10),
            longest_retry_after: Duration::from_hours(1),
            places: 32,
            places_per_host: 4,
        }
    }
}

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Answered,
    Failed { retry_after: Option<Duration> },
}

/// All repositories that somebody wants to know about.
pub(super) struct Schedule<K> {
    settings: Settings,
    repositories: HashMap<K, Repository>,
    /// Those that no question is under way for, in the order in which they are due.
    queue: BTreeMap<(Instant, u64), K>,
    next_number: u64,
    /// Also of repositories that nobody wants to know about any more: a question ends when it ends.
    under_way: HashMap<K, Place>,
    /// Those under way, by host.
    at_host: HashMap<Arc<str>, usize>,
    /// Those under way that have not answered the last time.
    unproven: usize,
    random: u64,
}

struct Repository {
    /// Tells apart what is due at the same time.
    number: u64,
    host: Arc<str>,
    /// How many want to know how often.
    intervals: BTreeMap<Duration, usize>,
    due: Instant,
    last_asked: Option<Instant>,
    /// The server wants to be left alone until then.
    held_until: Option<Instant>,
    failures: u32,
    /// It answered the last time.
    proven: bool,
    /// While a question is under way: somebody came whom its answer will not help.
    stale: bool,
}

struct Place {
    host: Arc<str>,
    proven: bool,
}

impl<K: Clone + Eq + Hash> Schedule<K> {
    pub(super) fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            repositories: HashMap::new(),
            queue: BTreeMap::new(),
            next_number: 0,
            under_way: HashMap::new(),
            at_host: HashMap::new(),
            unproven: 0,
            random: seed,
        }
    }

    /// Somebody wants to know about a repository. `news` is whether it needs an answer that nobody has yet.
    pub(super) fn join(
        &mut self,
        key: &K,
        host: &str,
        interval: Duration,
        news: bool,
        now: Instant,
    ) {
        let interval = self.clamp(interval);
        let moment = self.settings.moment;
        if !self.repositories.contains_key(key) {
            self.next_number += 1;
            let repository = Repository::new(self.next_number, host, now);
            self.repositories.insert(key.clone(), repository);
        }
        self.change(key, |repository, asking| {
            *repository.intervals.entry(interval).or_default() += 1;
            if repository.failures > 0 {
                // Whoever comes does not make a server in trouble answer sooner.
            } else if news {
                repository.wanted_at(now + moment, moment, asking);
            } else if let Some(last) = repository.last_asked {
                // Its interval may be shorter than those of the others.
                repository.due = repository.due.min((last + interval).max(now));
            }
        });
    }

    /// Somebody does not want to know any more. With the last one, the repository is forgotten.
    pub(super) fn leave(&mut self, key: &K, interval: Duration) {
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
            self.queue.remove(&repository.turn());
            self.repositories.remove(key);
        }
    }

    /// There may be news.
    pub(super) fn hint(&mut self, key: &K, now: Instant) {
        let moment = self.settings.moment;
        self.change(key, |repository, asking| {
            repository.wanted_at(now, moment, asking);
        });
    }

    /// Takes places for those that are due, those that waited longest first.
    pub(super) fn start(&mut self, now: Instant) -> Vec<K> {
        let due = self.queue.range(..=(now, u64::MAX));
        let due: Vec<_> = due.map(|(_, key)| key.clone()).collect();
        due.into_iter()
            .filter(|key| self.take_place(key, now))
            .collect()
    }

    /// When [`Schedule::start`] has something to do, if nothing else happens before.
    pub(super) fn next(&self) -> Option<Instant> {
        let has_place = |key| {
            let repository = self.repositories.get(key);
            repository.is_some_and(|repository| self.has_place(key, repository))
        };
        let mut waiting = self.queue.iter();
        let first = waiting.find(|(_, key)| has_place(*key));
        first.map(|((due, _), _)| *due)
    }

    /// A question has ended.
    pub(super) fn finish(&mut self, key: &K, outcome: Outcome, now: Instant) {
        self.give_back_place(key);
        let settings = self.settings;
        let spread = self.spread();
        self.change(key, |repository, _| {
            repository.ended(outcome, &settings, spread, now);
            if std::mem::take(&mut repository.stale) && repository.failures == 0 {
                repository.wanted_at(now, settings.moment, false);
            }
        });
    }

    /// Changes a repository, and its turn with it. The change is told whether a question is under way.
    fn change(&mut self, key: &K, change: impl FnOnce(&mut Repository, bool)) {
        let asking = self.under_way.contains_key(key);
        if let Some(repository) = self.repositories.get_mut(key) {
            self.queue.remove(&repository.turn());
            change(repository, asking);
            if !asking {
                self.queue.insert(repository.turn(), key.clone());
            }
        }
    }

    /// How many repositories there are, and how many questions are under way.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.repositories.len(), self.under_way.len())
    }

    fn clamp(&self, interval: Duration) -> Duration {
        interval.max(self.settings.shortest_interval)
    }

    fn has_place(&self, key: &K, repository: &Repository) -> bool {
        let at_host = self.at_host.get(&repository.host).copied();
        let for_unproven = (self.settings.places / 2).max(1);
        self.under_way.len() < self.settings.places
            && (repository.proven || self.unproven < for_unproven)
            && at_host.unwrap_or_default() < self.settings.places_per_host
            && !self.under_way.contains_key(key)
    }

    fn take_place(&mut self, key: &K, now: Instant) -> bool {
        let repository = self.repositories.get(key);
        let Some(repository) = repository.filter(|one| self.has_place(key, one)) else {
            return false;
        };
        let place = Place {
            host: Arc::clone(&repository.host),
            proven: repository.proven,
        };
        *self.at_host.entry(Arc::clone(&place.host)).or_default() += 1;
        self.unproven += usize::from(!place.proven);
        self.under_way.insert(key.clone(), place);
        self.change(key, |repository, _| repository.last_asked = Some(now));
        true
    }

    fn give_back_place(&mut self, key: &K) {
        let Some(place) = self.under_way.remove(key) else {
            return;
        };
        let unproven = usize::from(!place.proven);
        self.unproven = self.unproven.saturating_sub(unproven);
        if let Some(count) = self.at_host.get_mut(&place.host) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.at_host.remove(&place.host);
            }
        }
    }

    /// The next random number, by the method of Steele, Lea and Flood (`SplitMix64`).
    fn spread(&mut self) -> Spread {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Spread((bits ^ (bits >> 31)) % 2001)
    }
}

/// A tenth more or less, so that those who start together do not stay together.
#[derive(Debug, Clone, Copy)]
struct Spread(u64);

impl Spread {
    fn of(self, time: Duration) -> Duration {
        let share = u32::try_from(9000 + self.0).unwrap_or(10_000);
        time.saturating_mul(share) / 10_000
    }
}

impl Repository {
    fn new(number: u64, host: &str, now: Instant) -> Self {
        Self {
            number,
            host: host.into(),
            intervals: BTreeMap::new(),
            // Whoever comes first says when.
            due: now + Duration::from_hours(24 * 365),
            last_asked: None,
            held_until: None,
            failures: 0,
            proven: false,
            stale: false,
        }
    }

    fn ended(&mut self, outcome: Outcome, settings: &Settings, spread: Spread, now: Instant) {
        self.proven = outcome == Outcome::Answered;
        self.held_until = None;
        match outcome {
            Outcome::Answered => {
                self.failures = 0;
                self.due = now + spread.of(self.interval());
            }
            Outcome::Failed { retry_after } => {
                self.failures = self.failures.saturating_add(1);
                let held = retry_after.map(|time| now + time.min(settings.longest_retry_after));
                self.held_until = held;
                let due = now + spread.of(self.wait(settings));
                self.due = held.map_or(due, |held| due.max(held));
            }
        }
    }

    fn turn(&self) -> (Instant, u64) {
        (self.due, self.number)
    }

    fn interval(&self) -> Duration {
        let shortest = self.intervals.keys().next();
        shortest.copied().unwrap_or(Duration::from_hours(1))
    }

    fn wait(&self, settings: &Settings) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(20);
        let wait = settings.first_wait.saturating_mul(1 << doublings);
        wait.min(settings.longest_wait.max(self.interval()))
    }

    /// Somebody needs the answer to a question that is asked no sooner than this.
    fn wanted_at(&mut self, time: Instant, moment: Duration, asking: bool) {
        if asking {
            self.stale = true;
            return;
        }
        let spaced = self.last_asked.map(|last| last + moment);
        let times = [Some(time), spaced, self.held_until];
        if let Some(earliest) = times.into_iter().flatten().max() {
            self.due = self.due.min(earliest);
        }
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
