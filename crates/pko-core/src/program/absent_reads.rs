//! [`AbsentReads`]: limits reads of objects that do not exist.
//!
//! A client that requests unknown names must not cause a request to the API server for each. An
//! absent name is remembered for a while. When the memory is full, no other name is read until one
//! expires.

use std::{
    collections::{HashSet, VecDeque},
    hash::Hash,
    time::{Duration, Instant},
};

/// Whether an object may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAdmission {
    Allowed,
    /// It did not exist recently.
    Absent,
    /// Too many reads found nothing; retry after this long.
    Later(Duration),
}

/// Reads that found nothing, the oldest first.
#[derive(Debug)]
pub struct AbsentReads<K> {
    capacity: usize,
    memory: Duration,
    names: HashSet<K>,
    by_time: VecDeque<(Instant, K)>,
}

impl<K: Clone + Eq + Hash> AbsentReads<K> {
    /// Remembers at most `capacity` names, each for `memory`. This limits the reads of absent names
    /// in that time.
    #[must_use]
    pub fn new(capacity: usize, memory: Duration) -> Self {
        Self {
            capacity,
            memory,
            names: HashSet::new(),
            by_time: VecDeque::new(),
        }
    }

    pub fn admit(&mut self, name: &K, now: Instant) -> ReadAdmission {
        self.forget_old(now);
        if self.names.contains(name) {
            return ReadAdmission::Absent;
        }
        match self.by_time.front() {
            Some((oldest, _)) if self.names.len() >= self.capacity => {
                let age = now.saturating_duration_since(*oldest);
                ReadAdmission::Later(self.memory.saturating_sub(age))
            }
            _ => ReadAdmission::Allowed,
        }
    }

    /// Records a read that found nothing.
    pub fn record(&mut self, name: K, now: Instant) {
        if self.names.insert(name.clone()) {
            self.by_time.push_back((now, name));
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some((time, _)) = self.by_time.front() {
            if now.saturating_duration_since(*time) < self.memory {
                return;
            }
            if let Some((_, name)) = self.by_time.pop_front() {
                self.names.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Duration = Duration::from_secs(5);

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn flood_of_absent_names_is_bounded() {
        let start = Instant::now();
        let at = |millisecond| start + Duration::from_millis(millisecond);
        let mut reads = AbsentReads::new(3, MEMORY);
        let mut allowed = 0;
        for millisecond in 0..10_000 {
            let name = format!("name-{millisecond}");
            if reads.admit(&name, at(millisecond)) == ReadAdmission::Allowed {
                allowed += 1;
                reads.record(name, at(millisecond));
            }
            assert!(reads.names.len() <= 3);
        }
        assert_eq!(allowed, 6, "three in each five seconds");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn absent_name_is_forgotten_after_a_while() {
        let start = Instant::now();
        let mut reads = AbsentReads::new(1, MEMORY);
        assert_eq!(reads.admit(&"a", start), ReadAdmission::Allowed);
        reads.record("a", start);
        let later = start + Duration::from_secs(2);
        assert_eq!(reads.admit(&"a", later), ReadAdmission::Absent);
        let wait = ReadAdmission::Later(Duration::from_secs(3));
        assert_eq!(reads.admit(&"b", later), wait);
        assert_eq!(reads.admit(&"a", start + MEMORY), ReadAdmission::Allowed);
    }
}
