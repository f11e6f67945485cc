//! The resource versions of a kind, from the events of its watch.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use kube::{Resource, runtime::watcher::Event};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

/// By namespace.
pub(super) type ObjectNames = HashMap<Box<str>, HashSet<Box<str>>>;

fn add(names: &mut ObjectNames, namespace: &str, name: &str) {
    match names.get_mut(namespace) {
        Some(names) => names.insert(name.into()),
        None => names
            .entry(namespace.into())
            .or_default()
            .insert(name.into()),
    };
}

/// By namespace and name.
type VersionsByName = HashMap<Box<str>, HashMap<Box<str>, Box<str>>>;

#[derive(Debug)]
pub(super) struct VersionIndex {
    versions: Mutex<VersionsByName>,
    /// Set when everything has been listed, or listing failed: nothing waits for it then.
    listed: watch::Sender<bool>,
}

impl Default for VersionIndex {
    fn default() -> Self {
        Self {
            versions: Mutex::default(),
            listed: watch::Sender::new(false),
        }
    }
}

impl VersionIndex {
    /// Waits until everything has been listed, or listing failed. Without it, each Stack would read
    /// each object after a start.
    pub(super) async fn wait_until_listed(&self) {
        // The sender is this one.
        let _ = self.listed.subscribe().wait_for(|listed| *listed).await;
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<String> {
        let versions = self.locked();
        let version = versions.get(namespace)?.get(name)?;
        Some(version.to_string())
    }

    fn set<K: Resource>(&self, object: &K) -> ObjectNames {
        let (namespace, name) = key(object);
        let version = object
            .meta()
            .resource_version
            .as_deref()
            .unwrap_or_default();
        let mut all = self.locked();
        let versions = match all.get_mut(namespace) {
            Some(versions) => versions,
            None => all.entry(namespace.into()).or_default(),
        };
        match versions.get_mut(name) {
            Some(known) if **known == *version => return ObjectNames::new(),
            Some(known) => *known = version.into(),
            None => {
                versions.insert(name.into(), version.into());
            }
        }
        one(namespace, name)
    }

    fn remove<K: Resource>(&self, object: &K) -> ObjectNames {
        let (namespace, name) = key(object);
        let mut all = self.locked();
        let removed = all.get_mut(namespace).and_then(|names| names.remove(name));
        removed.map_or_else(ObjectNames::new, |_| one(namespace, name))
    }

    /// Removes what the new list of a namespace, or of all, lacks. Returns it.
    fn keep_only(&self, source: &str, listed: &ObjectNames) -> ObjectNames {
        let mut gone = ObjectNames::new();
        let mut all = self.locked();
        all.retain(|namespace, versions| {
            if source.is_empty() || source == &**namespace {
                let listed = listed.get(namespace);
                versions.retain(|name, _| {
                    let is_there = listed.is_some_and(|names| names.contains(name));
                    if !is_there {
                        add(&mut gone, namespace, name);
                    }
                    is_there
                });
            }
            !versions.is_empty()
        });
        gone
    }

    fn locked(&self) -> MutexGuard<'_, VersionsByName> {
        self.versions.lock()
    }
}

/// The lists of the namespaces; an empty name stands for all.
pub(super) struct ListProgress {
    known: Arc<VersionIndex>,
    /// Not complete yet.
    awaited: HashSet<String>,
    /// In progress, with the names so far.
    begun: HashMap<String, ObjectNames>,
}

impl ListProgress {
    pub(super) fn new(known: Arc<VersionIndex>, namespaces: impl Iterator<Item = String>) -> Self {
        Self {
            known,
            awaited: namespaces.collect(),
            begun: HashMap::new(),
        }
    }

    /// Applies an event. Returns the objects that were created, changed or deleted.
    pub(super) fn apply<K: Resource>(&mut self, namespace: &str, event: Event<K>) -> ObjectNames {
        match event {
            Event::Init => {
                self.begun.insert(namespace.to_owned(), ObjectNames::new());
                ObjectNames::new()
            }
            Event::InitApply(object) => {
                if let Some(list) = self.begun.get_mut(namespace) {
                    let (namespace, name) = key(&object);
                    add(list, namespace, name);
                }
                self.known.set(&object)
            }
            Event::InitDone => {
                let listed = self.begun.remove(namespace).unwrap_or_default();
                let gone = self.known.keep_only(namespace, &listed);
                self.stop_waiting(namespace);
                gone
            }
            Event::Apply(object) => self.known.set(&object),
            Event::Delete(object) => self.known.remove(&object),
        }
    }

    /// Stops waiting for this list.
    pub(super) fn stop_waiting(&mut self, namespace: &str) {
        self.awaited.remove(namespace);
        if self.awaited.is_empty() {
            self.known.listed.send_replace(true);
        }
    }
}

fn one(namespace: &str, name: &str) -> ObjectNames {
    let mut names = ObjectNames::new();
    add(&mut names, namespace, name);
    names
}

fn key<K: Resource>(object: &K) -> (&str, &str) {
    let metadata = object.meta();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    (namespace, metadata.name.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn config_map(namespace: &str, name: &str, version: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some(namespace.to_owned());
        object.metadata.name = Some(name.to_owned());
        object.metadata.resource_version = Some(version.to_owned());
        object
    }

    /// The changes of each event, as text.
    fn apply_all(
        lists: &mut ListProgress,
        source: &str,
        events: Vec<Event<ConfigMap>>,
    ) -> Vec<String> {
        let text = |names: ObjectNames| {
            let mut all: Vec<String> = names
                .iter()
                .flat_map(|(namespace, names)| {
                    names.iter().map(move |name| format!("{namespace}/{name}"))
                })
                .collect();
            all.sort();
            all.join(" ")
        };
        let events = events.into_iter();
        events
            .map(|event| text(lists.apply(source, event)))
            .collect()
    }

    fn watched(namespaces: &[&str]) -> (Arc<VersionIndex>, ListProgress) {
        let known = Arc::new(VersionIndex::default());
        let namespaces = namespaces.iter().map(|name| (*name).to_owned());
        (known.clone(), ListProgress::new(known, namespaces))
    }

    #[test]
    fn version_index_reports_changed_versions() {
        let (known, mut lists) = watched(&[""]);
        let apply = |version| Event::Apply(config_map("shop", "a", version));
        let delete = || Event::Delete(config_map("shop", "a", "9"));
        let events = vec![
            apply("1"),
            apply("1"),
            apply("2"),
            delete(),
            delete(),
            apply("1"),
        ];
        assert_eq!(
            apply_all(&mut lists, "", events),
            ["shop/a", "", "shop/a", "shop/a", "", "shop/a"]
        );
        assert_eq!(known.get("shop", "a").as_deref(), Some("1"));
        assert_eq!(known.get("shop", "b"), None);
        assert_eq!(known.get("other", "a"), None);
    }

    #[test]
    fn version_index_new_list_reports_missed_changes() {
        let (known, mut lists) = watched(&[""]);
        let listed = |name, version| Event::InitApply(config_map("shop", name, version));
        let first = vec![
            Event::Init,
            listed("a", "1"),
            listed("b", "1"),
            listed("c", "1"),
            Event::InitDone,
        ];
        assert_eq!(
            apply_all(&mut lists, "", first),
            ["", "shop/a", "shop/b", "shop/c", ""]
        );
        let second = vec![
            Event::Init,
            listed("a", "1"),
            listed("b", "2"),
            Event::InitDone,
        ];
        assert_eq!(
            apply_all(&mut lists, "", second),
            ["", "", "shop/b", "shop/c"]
        );
        assert_eq!(known.get("shop", "c"), None);
    }

    #[test]
    fn version_index_list_of_a_namespace_keeps_others() {
        let (known, mut lists) = watched(&["one", "two"]);
        let listed = |namespace| Event::InitApply(config_map(namespace, "a", "1"));
        apply_all(
            &mut lists,
            "one",
            vec![Event::Init, listed("one"), Event::InitDone],
        );
        apply_all(
            &mut lists,
            "two",
            vec![Event::Init, listed("two"), Event::InitDone],
        );
        assert_eq!(
            apply_all(&mut lists, "two", vec![Event::Init, Event::InitDone]),
            ["", "two/a"]
        );
        assert_eq!(known.get("one", "a").as_deref(), Some("1"));
        assert_eq!(known.get("two", "a"), None);
    }

    #[test]
    fn version_index_waits_for_the_first_lists_only() {
        let (known, mut lists) = watched(&["one", "two"]);
        assert!(!is_done(known.wait_until_listed()));
        apply_all(&mut lists, "one", vec![Event::Init, Event::InitDone]);
        assert!(!is_done(known.wait_until_listed()));
        lists.stop_waiting("two");
        assert!(is_done(known.wait_until_listed()), "listing failed");
        apply_all(&mut lists, "two", vec![Event::Init]);
        assert!(
            is_done(known.wait_until_listed()),
            "a later list is not waited for"
        );
    }

    fn is_done(future: impl Future<Output = ()>) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(future).poll(&mut context).is_ready()
    }
}
