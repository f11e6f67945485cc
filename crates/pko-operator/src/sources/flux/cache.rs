//! The artifacts of all objects of a kind.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use pko_core::stack::Artifact;

/// Namespace and name.
pub(super) type ObjectKey = (String, String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CachedObject {
    pub(super) artifact: Option<Artifact>,
}

/// Has objects without an artifact, too.
#[derive(Default)]
pub(super) struct ArtifactCache(Mutex<CacheContent>);

#[derive(Default)]
struct CacheContent {
    artifacts: HashMap<ObjectKey, Option<Artifact>>,
    failure: Option<WatchFailure>,
}

impl CacheContent {
    /// A new object counts as changed even without an artifact: a Stack may wait for it.
    fn set(&mut self, key: ObjectKey, artifact: Option<Artifact>) -> bool {
        let news = self
            .artifacts
            .get(&key)
            .is_none_or(|before| Artifact::is_news(before.as_ref(), artifact.as_ref()));
        self.artifacts.insert(key, artifact);
        news
    }
}

/// Why a watch delivers nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchFailure {
    /// The API server's message.
    Forbidden(String),
    /// The kind is not served any more.
    Gone,
}

impl ArtifactCache {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<CachedObject> {
        let key = (namespace.to_owned(), name.to_owned());
        let content = self.lock();
        let artifact = content.artifacts.get(&key)?.clone();
        Some(CachedObject { artifact })
    }

    pub(super) fn failure(&self) -> Option<WatchFailure> {
        self.lock().failure.clone()
    }

    pub(super) fn set_failure(&self, failure: Option<WatchFailure>) {
        self.lock().failure = failure;
    }

    /// Returns whether the artifact has changed.
    pub(super) fn set(&self, key: ObjectKey, artifact: Option<Artifact>) -> bool {
        self.lock().set(key, artifact)
    }

    pub(super) fn remove(&self, key: &ObjectKey) {
        self.lock().artifacts.remove(key);
    }

    /// Replaces the objects of a namespace, or of all. Returns those that have changed; objects
    /// that the list lacks are deleted.
    pub(super) fn replace(
        &self,
        namespace: Option<&str>,
        listed: HashMap<ObjectKey, Option<Artifact>>,
    ) -> Vec<ObjectKey> {
        let mut content = self.lock();
        let is_here = |key: &ObjectKey| namespace.is_none_or(|namespace| key.0 == namespace);
        let known = content.artifacts.keys();
        let gone: Vec<ObjectKey> = known
            .filter(|key| is_here(key) && !listed.contains_key(*key))
            .cloned()
            .collect();
        for key in &gone {
            content.artifacts.remove(key);
        }
        let mut changed = gone;
        for (key, artifact) in listed {
            if content.set(key.clone(), artifact) {
                changed.push(key);
            }
        }
        changed
    }

    fn lock(&self) -> MutexGuard<'_, CacheContent> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artifact(revision: &str) -> Option<Artifact> {
        let artifact = json!({ "url": "http://a", "revision": revision, "digest": "sha256:1" });
        Artifact::of(&json!({ "status": { "artifact": artifact } }))
    }

    #[expect(clippy::unnecessary_wraps, reason = "the type of a cache entry")]
    fn at(artifact: Option<Artifact>) -> Option<CachedObject> {
        Some(CachedObject { artifact })
    }

    fn key(namespace: &str, name: &str) -> ObjectKey {
        (namespace.to_owned(), name.to_owned())
    }

    #[test]
    fn artifact_cache_has_objects_without_artifact() {
        let cache = ArtifactCache::default();
        assert_eq!(cache.get("shop", "a"), None);
        assert!(cache.set(key("shop", "a"), None), "there is one");
        assert!(!cache.set(key("shop", "a"), None));
        assert_eq!(cache.get("shop", "a"), at(None));
        assert!(cache.set(key("shop", "a"), artifact("1")));
        assert!(!cache.set(key("shop", "a"), artifact("1")), "the same");
        assert!(cache.set(key("shop", "a"), artifact("2")));
        assert_eq!(cache.get("shop", "a"), at(artifact("2")));
        assert_eq!(cache.get("other", "a"), None);
        cache.remove(&key("shop", "a"));
        assert_eq!(cache.get("shop", "a"), None);
    }

    #[test]
    fn artifact_cache_list_reports_missed_changes() {
        let cache = ArtifactCache::default();
        for (name, revision) in [("same", "1"), ("new", "1"), ("gone", "1")] {
            cache.set(key("shop", name), artifact(revision));
        }
        cache.set(key("other", "elsewhere"), artifact("1"));
        let listed = [
            (key("shop", "same"), artifact("1")),
            (key("shop", "new"), artifact("2")),
            (key("shop", "appeared"), artifact("1")),
            (key("shop", "empty"), None),
        ];
        let mut touched = cache.replace(Some("shop"), listed.into());
        touched.sort();
        let expected = ["appeared", "empty", "gone", "new"].map(|name| key("shop", name));
        assert_eq!(touched, expected);
        assert_eq!(cache.get("shop", "gone"), None);
        assert_eq!(cache.get("shop", "empty"), at(None));
        assert_eq!(
            cache.get("other", "elsewhere"),
            at(artifact("1")),
            "not listed"
        );
        let touched = cache.replace(None, HashMap::from([(key("shop", "same"), artifact("1"))]));
        assert_eq!(touched.len(), 4, "all others are gone");
        assert_eq!(cache.get("other", "elsewhere"), None);
    }
}
