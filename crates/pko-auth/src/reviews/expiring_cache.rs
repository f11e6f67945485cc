//! A bounded cache whose entries expire.

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Enough for the callers of one process; bounds what a client with many tokens can allocate.
const MAX_ENTRIES: usize = 8192;

pub(super) struct ExpiringCache<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K: Clone + Eq + Hash, V: Clone> ExpiringCache<K, V> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        let entries = self.0.lock();
        let (expiry, value) = entries.get(key)?;
        (*expiry > now).then(|| value.clone())
    }

    pub(super) fn put(&self, key: K, value: V, lifetime: Duration, now: Instant) {
        let mut entries = self.0.lock();
        if entries.len() >= MAX_ENTRIES {
            entries.retain(|_, (expiry, _)| *expiry > now);
        }
        if entries.len() >= MAX_ENTRIES {
            remove_first_to_expire(&mut entries);
        }
        entries.insert(key, (now + lifetime, value));
    }
}

/// Denials expire long before grants do, so a client that sends many bad tokens evicts only
/// denials.
fn remove_first_to_expire<K: Clone + Eq + Hash, V>(entries: &mut HashMap<K, (Instant, V)>) {
    let first = entries.iter().min_by_key(|(_, (expiry, _))| *expiry);
    if let Some(key) = first.map(|(key, _)| key.clone()) {
        entries.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_expires() {
        let cache = ExpiringCache::new();
        let now = Instant::now();
        cache.put("a", 1, Duration::from_secs(5), now);
        assert_eq!(cache.get(&"a", now + Duration::from_secs(4)), Some(1));
        assert_eq!(cache.get(&"a", now + Duration::from_secs(5)), None);
    }

    #[test]
    fn full_cache_evicts_first_to_expire() {
        let cache = ExpiringCache::new();
        let now = Instant::now();
        cache.put(usize::MAX, (), Duration::from_hours(1), now);
        for key in 0..MAX_ENTRIES + 10 {
            cache.put(key, (), Duration::from_mins(1), now);
        }
        assert_eq!(cache.0.lock().len(), MAX_ENTRIES);
        assert!(cache.get(&usize::MAX, now).is_some());
        assert!(cache.get(&(MAX_ENTRIES + 9), now).is_some());
        let later = now + Duration::from_mins(2);
        cache.put(0, (), Duration::from_mins(1), later);
        assert_eq!(cache.0.lock().len(), 2);
    }
}
