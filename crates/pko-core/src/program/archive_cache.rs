//! Archives in memory, within a budget of bytes.

use std::collections::{BTreeMap, HashMap};

use super::Archive;

/// The uid and the generation of a Program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArchiveKey {
    pub uid: String,
    pub generation: i64,
}

/// A least-recently-used cache. An archive never changes, so no entry becomes stale.
#[derive(Debug)]
pub struct ArchiveCache {
    budget: usize,
    used: usize,
    /// Counts uses.
    clock: u64,
    archives: HashMap<ArchiveKey, (Archive, u64)>,
    by_use: BTreeMap<u64, ArchiveKey>,
}

impl ArchiveCache {
    /// The budget is in bytes, including keys.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self {
            budget,
            used: 0,
            clock: 0,
            archives: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// The archive, which becomes the most recently used.
    pub fn get(&mut self, key: &ArchiveKey) -> Option<Archive> {
        let (archive, used) = self.archives.get_mut(key)?;
        self.by_use.remove(used);
        self.clock += 1;
        *used = self.clock;
        self.by_use.insert(self.clock, key.clone());
        Some(archive.clone())
    }

    /// Adds an archive and drops the least recently used ones. An archive above the budget is not
    /// stored.
    pub fn insert(&mut self, key: ArchiveKey, archive: Archive) {
        self.remove(&key);
        let size = size(&key, &archive);
        if size > self.budget {
            return;
        }
        while self.used + size > self.budget {
            let Some(oldest) = self.by_use.first_entry() else {
                break;
            };
            let oldest = oldest.get().clone();
            self.remove(&oldest);
        }
        self.clock += 1;
        self.used += size;
        self.by_use.insert(self.clock, key.clone());
        self.archives.insert(key, (archive, self.clock));
    }

    pub fn remove(&mut self, key: &ArchiveKey) {
        if let Some((archive, used)) = self.archives.remove(key) {
            self.by_use.remove(&used);
            self.used = self.used.saturating_sub(size(key, &archive));
        }
    }
}

/// A small archive costs its key twice.
fn size(key: &ArchiveKey, archive: &Archive) -> usize {
    const ENTRY: usize = 256;
    archive.bytes.len() + archive.digest.len() + 2 * key.uid.len() + ENTRY
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(generation: i64) -> ArchiveKey {
        ArchiveKey {
            uid: "u".to_owned(),
            generation,
        }
    }

    fn archive(size: usize) -> Archive {
        Archive {
            bytes: vec![0; size].into(),
            digest: String::new(),
        }
    }

    #[test]
    fn archive_used_least_recently_is_dropped() {
        let mut cache = ArchiveCache::new(3000);
        for generation in [1, 2] {
            cache.insert(key(generation), archive(1000));
        }
        assert!(cache.get(&key(1)).is_some());
        cache.insert(key(3), archive(1000));
        assert!(cache.get(&key(2)).is_none());
        assert!(cache.get(&key(1)).is_some() && cache.get(&key(3)).is_some());
        cache.insert(key(4), archive(4000));
        assert!(cache.get(&key(4)).is_none(), "larger than the budget");
        assert!(cache.get(&key(1)).is_some());
    }

    proptest! {
        #[test]
        fn archive_cache_stays_within_its_budget(
            sizes in prop::collection::vec((0_i64..20, 0_usize..5000), 0..60),
        ) {
            let mut cache = ArchiveCache::new(10_000);
            for (generation, bytes) in sizes {
                cache.insert(key(generation), archive(bytes));
                let held = cache.archives.iter();
                let held: usize = held.map(|(key, (archive, _))| size(key, archive)).sum();
                prop_assert_eq!(held, cache.used);
                prop_assert!(cache.used <= 10_000);
                prop_assert_eq!(cache.by_use.len(), cache.archives.len());
            }
        }
    }
}
