//! Decisions that hold for a while.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// More than this are not remembered.
const LARGEST: usize = 8192;

/// Values with an end.
pub(super) struct Cache<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (end, value) = entries.get(key)?;
        (*end > now).then(|| value.clone())
    }

    pub(super) fn put(&self, key: K, value: V, lasting: Duration, now: Instant) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= LARGEST {
            entries.retain(|_, (end, _)| *end > now);
        }
        if entries.len() >= LARGEST {
            remove_next_to_end(&mut entries);
        }
        entries.insert(key, (now + lasting, value));
    }
}

/// Refusals end long before what was allowed does: whoever sends one bad token after the other drives out only these.
fn remove_next_to_end<K: Clone + Eq + Hash, V>(entries: &mut HashMap<K, (Instant, V)>) {
    let next = entries.iter().min_by_key(|(_, (end, _))| *end);
    if let Some(key) = next.map(|(key, _)| key.clone()) {
        entries.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends() {
        let cache = Cache::new();
        let now = Instant::now();
        cache.put("a", 1, Duration::from_secs(5), now);
        assert_eq!(cache.get(&"a", now + Duration::from_secs(4)), Some(1));
        assert_eq!(cache.get(&"a", now + Duration::from_secs(5)), None);
    }

    #[test]
    fn it_does_not_grow_without_end_and_keeps_what_lasts_longest() {
        let cache = Cache::new();
        let now = Instant::now();
        cache.put(usize::MAX, (), Duration::from_hours(1), now);
        for key in 0..LARGEST + 10 {
            cache.put(key, (), Duration::from_mins(1), now);
        }
        assert_eq!(cache.0.lock().unwrap().len(), LARGEST);
        assert!(cache.get(&usize::MAX, now).is_some());
        assert!(cache.get(&(LARGEST + 9), now).is_some());
        let later = now + Duration::from_mins(2);
        cache.put(0, (), Duration::from_mins(1), later);
        assert_eq!(cache.0.lock().unwrap().len(), 2);
    }
}
