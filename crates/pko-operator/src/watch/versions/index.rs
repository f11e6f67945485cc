//! What is known of the objects of a kind, from what their watch says; no I/O.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::{Resource, runtime::watcher::Event};
use tokio::sync::watch;

/// Names by namespace.
pub(super) type Names = HashMap<Box<str>, HashSet<Box<str>>>;

fn add(names: &mut Names, namespace: &str, name: &str) {
    match names.get_mut(namespace) {
        Some(names) => names.insert(name.into()),
        None => names
            .entry(namespace.into())
            .or_default()
            .insert(name.into()),
    };
}

/// Versions by namespace and name.
type ByPlace = HashMap<Box<str>, HashMap<Box<str>, Box<str>>>;

/// The versions of all objects of a kind.
#[derive(Debug)]
pub(super) struct Known {
    versions: Mutex<ByPlace>,
    /// Everything was listed once, or that did not work: nobody waits for it any more.
    listed: watch::Sender<bool>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            versions: Mutex::default(),
            listed: watch::Sender::new(false),
        }
    }
}

impl Known {
    /// Comes when everything was listed once, or that did not work: until then, each Stack would ask for each object.
    pub(super) async fn are_listed(&self) {
        // The sender is ours, so it is there.
        let _ = self.listed.subscribe().wait_for(|listed| *listed).await;
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<String> {
        let versions = self.locked();
        let version = versions.get(namespace)?.get(name)?;
        Some(version.to_string())
    }

    fn set<K: Resource>(&self, object: &K) -> Names {
        let (namespace, name) = place(object);
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
            Some(known) if **known == *version => return Names::new(),
            Some(known) => *known = version.into(),
            None => {
                versions.insert(name.into(), version.into());
            }
        }
        one(namespace, name)
    }

    fn remove<K: Resource>(&self, object: &K) -> Names {
        let (namespace, name) = place(object);
        let mut all = self.locked();
        let removed = all.get_mut(namespace).and_then(|names| names.remove(name));
        removed.map_or_else(Names::new, |_| one(namespace, name))
    }

    /// What was deleted while nobody watched: it is not in the new list of this namespace, or of all.
    fn keep_only(&self, source: &str, listed: &Names) -> Names {
        let mut gone = Names::new();
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

    fn locked(&self) -> MutexGuard<'_, ByPlace> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far the lists of the namespaces are, or of all at once, which goes by an empty name.
pub(super) struct Lists {
    known: Arc<Known>,
    /// Those that were not complete yet.
    awaited: HashSet<String>,
    /// What those have so far that are under way.
    begun: HashMap<String, Names>,
}

impl Lists {
    pub(super) fn new(known: Arc<Known>, namespaces: impl Iterator<Item = String>) -> Self {
        Self {
            known,
            awaited: namespaces.collect(),
            begun: HashMap::new(),
        }
    }

    /// Takes in what a watch says; these objects have appeared, have another version, or are gone.
    pub(super) fn follow<K: Resource>(&mut self, namespace: &str, event: Event<K>) -> Names {
        match event {
            Event::Init => {
                self.begun.insert(namespace.to_owned(), Names::new());
                Names::new()
            }
            Event::InitApply(object) => {
                if let Some(list) = self.begun.get_mut(namespace) {
                    let (namespace, name) = place(&object);
                    add(list, namespace, name);
                }
                self.known.set(&object)
            }
            Event::InitDone => {
                let listed = self.begun.remove(namespace).unwrap_or_default();
                let gone = self.known.keep_only(namespace, &listed);
                self.give_up(namespace);
                gone
            }
            Event::Apply(object) => self.known.set(&object),
            Event::Delete(object) => self.known.remove(&object),
        }
    }

    /// Nobody waits for this list any more.
    pub(super) fn give_up(&mut self, namespace: &str) {
        self.awaited.remove(namespace);
        if self.awaited.is_empty() {
            self.known.listed.send_replace(true);
        }
    }
}

fn one(namespace: &str, name: &str) -> Names {
    let mut names = Names::new();
    add(&mut names, namespace, name);
    names
}

fn place<K: Resource>(object: &K) -> (&str, &str) {
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

    /// What changed with each event of a source, as text.
    fn followed(lists: &mut Lists, source: &str, events: Vec<Event<ConfigMap>>) -> Vec<String> {
        let text = |names: Names| {
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
            .map(|event| text(lists.follow(source, event)))
            .collect()
    }

    fn watched(namespaces: &[&str]) -> (Arc<Known>, Lists) {
        let known = Arc::new(Known::default());
        let namespaces = namespaces.iter().map(|name| (*name).to_owned());
        (known.clone(), Lists::new(known, namespaces))
    }

    #[test]
    fn a_change_is_one_of_the_version() {
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
            followed(&mut lists, "", events),
            ["shop/a", "", "shop/a", "shop/a", "", "shop/a"]
        );
        assert_eq!(known.get("shop", "a").as_deref(), Some("1"));
        assert_eq!(known.get("shop", "b"), None);
        assert_eq!(known.get("other", "a"), None);
    }

    #[test]
    fn a_new_list_tells_what_was_missed() {
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
            followed(&mut lists, "", first),
            ["", "shop/a", "shop/b", "shop/c", ""]
        );
        let second = vec![
            Event::Init,
            listed("a", "1"),
            listed("b", "2"),
            Event::InitDone,
        ];
        assert_eq!(
            followed(&mut lists, "", second),
            ["", "", "shop/b", "shop/c"]
        );
        assert_eq!(known.get("shop", "c"), None);
    }

    #[test]
    fn the_list_of_a_namespace_says_nothing_of_others() {
        let (known, mut lists) = watched(&["one", "two"]);
        let listed = |namespace| Event::InitApply(config_map(namespace, "a", "1"));
        followed(
            &mut lists,
            "one",
            vec![Event::Init, listed("one"), Event::InitDone],
        );
        followed(
            &mut lists,
            "two",
            vec![Event::Init, listed("two"), Event::InitDone],
        );
        assert_eq!(
            followed(&mut lists, "two", vec![Event::Init, Event::InitDone]),
            ["", "two/a"]
        );
        assert_eq!(known.get("one", "a").as_deref(), Some("1"));
        assert_eq!(known.get("two", "a"), None);
    }

    #[test]
    fn nobody_waits_longer_than_for_the_first_lists() {
        let (known, mut lists) = watched(&["one", "two"]);
        assert!(!has_come(known.are_listed()));
        followed(&mut lists, "one", vec![Event::Init, Event::InitDone]);
        assert!(!has_come(known.are_listed()));
        lists.give_up("two");
        assert!(has_come(known.are_listed()), "that did not work");
        followed(&mut lists, "two", vec![Event::Init]);
        assert!(has_come(known.are_listed()), "a later list holds up nobody");
    }

    fn has_come(future: impl Future<Output = ()>) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(future).poll(&mut context).is_ready()
    }
}
