//! What is known of the objects of a kind: their artifacts, and nothing else. Does no I/O.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pko_core::stack::Artifact;

/// The namespace and the name of an object.
pub(super) type Key = (String, String);

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) artifact: Option<Artifact>,
}

/// The artifacts of all objects of a kind; an object without one is known, too.
#[derive(Default)]
pub(super) struct Cache(Mutex<Content>);

#[derive(Default)]
struct Content {
    artifacts: HashMap<Key, Option<Artifact>>,
    trouble: Option<Trouble>,
}

impl Content {
    /// An object that was not known is news, even without an artifact: somebody may wait for it.
    fn set(&mut self, key: Key, artifact: Option<Artifact>) -> bool {
        let news = self
            .artifacts
            .get(&key)
            .is_none_or(|before| Artifact::is_news(before.as_ref(), artifact.as_ref()));
        self.artifacts.insert(key, artifact);
        news
    }
}

/// Why nothing more will be heard of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The API server does not let us, in its words.
    Forbidden(String),
    /// There is no such kind any more.
    Gone,
}

impl Cache {
    /// An object, if it is known.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Object> {
        let key = (namespace.to_owned(), name.to_owned());
        let content = self.lock();
        let artifact = content.artifacts.get(&key)?.clone();
        Some(Object { artifact })
    }

    /// What is wrong with the watch.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.lock().trouble.clone()
    }

    pub(super) fn set_trouble(&self, trouble: Option<Trouble>) {
        self.lock().trouble = trouble;
    }

    /// Takes in an object; whether somebody has to look.
    pub(super) fn set(&self, key: Key, artifact: Option<Artifact>) -> bool {
        self.lock().set(key, artifact)
    }

    /// Forgets an object.
    pub(super) fn remove(&self, key: &Key) {
        self.lock().artifacts.remove(key);
    }

    /// Takes in all objects of a namespace, or of all; those for which somebody has to look. What is not in the list was
    /// deleted while nobody watched.
    pub(super) fn replace(
        &self,
        namespace: Option<&str>,
        listed: HashMap<Key, Option<Artifact>>,
    ) -> Vec<Key> {
        let mut content = self.lock();
        let is_here = |key: &Key| namespace.is_none_or(|namespace| key.0 == namespace);
        let known = content.artifacts.keys();
        let gone: Vec<Key> = known
            .filter(|key| is_here(key) && !listed.contains_key(*key))
            .cloned()
            .collect();
        for key in &gone {
            content.artifacts.remove(key);
        }
        let mut touched = gone;
        for (key, artifact) in listed {
            if content.set(key.clone(), artifact) {
                touched.push(key);
            }
        }
        touched
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[expect(
        clippy::unnecessary_wraps,
        reason = "what a cache says of an object that it knows"
    )]
    fn at(artifact: Option<Artifact>) -> Option<Object> {
        Some(Object { artifact })
    }

    fn key(namespace: &str, name: &str) -> Key {
        (namespace.to_owned(), name.to_owned())
    }

    #[test]
    fn an_object_without_an_artifact_is_known() {
        let cache = Cache::default();
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
    fn a_list_tells_what_was_missed() {
        let cache = Cache::default();
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
