//! Several watches as one: what a cache gets that is filled from several namespaces.
//!
//! A cache replaces all that it has at the end of each new list. With a list for each namespace, the second would
//! throw out the first. So the cache gets one list when every namespace has been listed once; a list that comes later
//! is told as what is different: each object that is there, and each that is gone.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures::{Stream, StreamExt as _, stream};
use kube::{
    Resource, ResourceExt as _,
    runtime::{
        reflector::Store,
        watcher::{self, Event},
    },
};
use pko_kube::EventStream;

/// A namespace, and what happens in it.
pub(in crate::watch) type Source<K> = (String, EventStream<K>);

/// What happens in all of them. The cache is the one that is filled by this.
pub(super) fn merged<K>(sources: Vec<Source<K>>, cache: Store<K>) -> EventStream<K>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    if let [_] = sources.as_slice() {
        return stream::iter(sources).flat_map(|(_, events)| events).boxed();
    }
    let mut merge = Merge::new(sources.iter().map(|(namespace, _)| namespace.clone()));
    let named = sources
        .into_iter()
        .map(|(namespace, events)| events.map(move |event| (namespace.clone(), event)));
    let events = stream::select_all(named);
    told_apart(events, move |namespace: String, event| {
        merge.next(&namespace, event, || cache.state())
    })
    .boxed()
}

/// Each event as the events that it comes to; errors as they are.
fn told_apart<K: Send + 'static>(
    events: impl Stream<Item = (String, watcher::Result<Event<K>>)> + Send + 'static,
    mut translate: impl FnMut(String, Event<K>) -> Vec<Event<K>> + Send + 'static,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send {
    events.flat_map(move |(namespace, event)| {
        let told = match event {
            Ok(event) => translate(namespace, event).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(told)
    })
}

/// How far the lists are.
enum Merge<K> {
    /// Not every namespace has been listed.
    Listing {
        waiting: HashSet<String>,
        found: HashMap<(String, String), K>,
    },
    /// Every namespace has been listed; for those that are listed again, the names so far.
    Listed(HashMap<String, HashSet<String>>),
}

impl<K: Resource + Clone> Merge<K> {
    fn new(namespaces: impl Iterator<Item = String>) -> Self {
        Self::Listing {
            waiting: namespaces.collect(),
            found: HashMap::new(),
        }
    }

    /// What an event of a namespace comes to, if this is what the cache has.
    fn next(
        &mut self,
        namespace: &str,
        event: Event<K>,
        cached: impl FnOnce() -> Vec<Arc<K>>,
    ) -> Vec<Event<K>> {
        match self {
            Self::Listing { waiting, found } => {
                collect(found, namespace, &event);
                if matches!(event, Event::InitDone) {
                    waiting.remove(namespace);
                }
                if let Event::Apply(object) | Event::InitApply(object) = event {
                    found.insert(key(namespace, &object), object);
                }
                if !waiting.is_empty() {
                    return Vec::new();
                }
                let found = std::mem::take(found);
                *self = Self::Listed(HashMap::new());
                first_list(found.into_values())
            }
            Self::Listed(again) => difference(again, namespace, event, cached),
        }
    }
}

/// Takes out of what was found what this event says is not there.
fn collect<K: Resource>(
    found: &mut HashMap<(String, String), K>,
    namespace: &str,
    event: &Event<K>,
) {
    match event {
        // A list that begins anew forgets the one that broke off.
        Event::Init => found.retain(|(known, _), _| known != namespace),
        Event::Delete(object) => {
            found.remove(&key(namespace, object));
        }
        Event::Apply(_) | Event::InitApply(_) | Event::InitDone => {}
    }
}

fn key<K: Resource>(namespace: &str, object: &K) -> (String, String) {
    (namespace.to_owned(), name(object))
}

fn name<K: Resource>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

fn first_list<K>(objects: impl Iterator<Item = K>) -> Vec<Event<K>> {
    let listed = objects.map(Event::InitApply);
    [Event::Init]
        .into_iter()
        .chain(listed)
        .chain([Event::InitDone])
        .collect()
}

/// What a namespace's event comes to once all have been listed.
fn difference<K: Resource + Clone>(
    again: &mut HashMap<String, HashSet<String>>,
    namespace: &str,
    event: Event<K>,
    cached: impl FnOnce() -> Vec<Arc<K>>,
) -> Vec<Event<K>> {
    match event {
        Event::Init => {
            again.insert(namespace.to_owned(), HashSet::new());
            Vec::new()
        }
        Event::InitApply(object) => {
            let names = again.entry(namespace.to_owned()).or_default();
            names.insert(name(&object));
            vec![Event::Apply(object)]
        }
        Event::InitDone => {
            let names = again.remove(namespace).unwrap_or_default();
            let gone = cached().into_iter().filter(|object| {
                object.namespace().as_deref() == Some(namespace)
                    && !names.contains(&name(&**object))
            });
            gone.map(|object| Event::Delete(object.as_ref().clone()))
                .collect()
        }
        Event::Apply(_) | Event::Delete(_) => vec![event],
    }
}

#[cfg(test)]
mod tests {
    use futures::{SinkExt as _, channel::mpsc};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        core::ObjectMeta,
        runtime::reflector::{self, reflector},
    };

    use super::*;

    fn object(namespace: &str, name: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    /// A cache that is fed by hand.
    struct Fed {
        senders: HashMap<String, mpsc::UnboundedSender<watcher::Result<Event<ConfigMap>>>>,
        events: EventStream<ConfigMap>,
        cache: Store<ConfigMap>,
    }

    impl Fed {
        fn new(namespaces: &[&str]) -> Self {
            let (cache, writer) = reflector::store();
            let (mut senders, mut sources) = (HashMap::new(), Vec::new());
            for namespace in namespaces {
                let (sender, receiver) = mpsc::unbounded();
                senders.insert((*namespace).to_owned(), sender);
                sources.push(((*namespace).to_owned(), receiver.boxed()));
            }
            let events = reflector(writer, merged(sources, cache.clone())).boxed();
            Self {
                senders,
                events,
                cache,
            }
        }

        /// Sends an event, and gives what came of it and what is in the cache then.
        async fn feed(&mut self, namespace: &str, event: Event<ConfigMap>) -> (String, String) {
            let sender = self.senders.get_mut(namespace).unwrap();
            sender.send(Ok(event)).await.unwrap();
            let mut told = Vec::new();
            while let Some(event) = futures::FutureExt::now_or_never(self.events.next()) {
                told.push(text(&event.unwrap().unwrap()));
            }
            let mut cached: Vec<String> = self
                .cache
                .state()
                .iter()
                .map(|object| path(object))
                .collect();
            cached.sort();
            (told.join(" "), cached.join(" "))
        }

        fn is_ready(&self) -> bool {
            futures::FutureExt::now_or_never(self.cache.wait_until_ready()).is_some()
        }
    }

    fn path(object: &ConfigMap) -> String {
        format!("{}.{}", object.name_any(), object.namespace().unwrap())
    }

    fn text(event: &Event<ConfigMap>) -> String {
        let name =
            |object: &ConfigMap| format!("{}/{}", object.namespace().unwrap(), object.name_any());
        match event {
            Event::Init => "[".to_owned(),
            Event::InitApply(object) => name(object),
            Event::InitDone => "]".to_owned(),
            Event::Apply(object) => format!("+{}", name(object)),
            Event::Delete(object) => format!("-{}", name(object)),
        }
    }

    async fn listed(fed: &mut Fed, namespace: &str, names: &[&str]) -> (String, String) {
        fed.feed(namespace, Event::Init).await;
        for name in names {
            fed.feed(namespace, Event::InitApply(object(namespace, name)))
                .await;
        }
        fed.feed(namespace, Event::InitDone).await
    }

    #[tokio::test]
    async fn one_source_goes_through_as_it_is() {
        let mut fed = Fed::new(&["a"]);
        assert_eq!(fed.feed("a", Event::Init).await.0, "[");
        let event = Event::InitApply(object("a", "1"));
        assert_eq!(fed.feed("a", event).await.0, "a/1");
        assert_eq!(fed.feed("a", Event::InitDone).await.0, "]");
    }

    #[tokio::test]
    async fn the_cache_is_ready_when_every_namespace_has_been_listed() {
        let mut fed = Fed::new(&["a", "b"]);
        assert_eq!(listed(&mut fed, "a", &["1"]).await.0, "");
        assert!(!fed.is_ready());
        let (told, cached) = listed(&mut fed, "b", &["2"]).await;
        assert!(fed.is_ready());
        assert!(told.starts_with("[ ") && told.ends_with(" ]"), "{told}");
        assert!(cached.contains("1.a") && cached.contains("2.b"), "{cached}");
    }

    #[tokio::test]
    async fn what_happens_between_the_first_lists_is_in_the_first_list() {
        let mut fed = Fed::new(&["a", "b"]);
        listed(&mut fed, "a", &["1", "2"]).await;
        fed.feed("a", Event::Delete(object("a", "1"))).await;
        fed.feed("a", Event::Apply(object("a", "3"))).await;
        let (told, cached) = listed(&mut fed, "b", &[]).await;
        assert_eq!(told.matches("a/").count(), 2, "{told}");
        assert!(cached.contains("2.a") && cached.contains("3.a"), "{cached}");
    }

    #[tokio::test]
    async fn a_list_that_broke_off_leaves_nothing_behind() {
        let mut fed = Fed::new(&["a", "b"]);
        fed.feed("a", Event::Init).await;
        fed.feed("a", Event::InitApply(object("a", "1"))).await;
        listed(&mut fed, "a", &["2"]).await;
        let (told, _) = listed(&mut fed, "b", &[]).await;
        assert_eq!(told, "[ a/2 ]");
    }

    #[tokio::test]
    async fn a_later_list_of_one_namespace_leaves_the_others_alone() {
        let mut fed = Fed::new(&["a", "b"]);
        listed(&mut fed, "a", &["1", "2"]).await;
        listed(&mut fed, "b", &["1"]).await;
        assert_eq!(fed.feed("a", Event::Init).await.0, "");
        let event = Event::InitApply(object("a", "2"));
        assert_eq!(fed.feed("a", event).await.0, "+a/2");
        let event = Event::InitApply(object("a", "3"));
        assert_eq!(fed.feed("a", event).await.0, "+a/3");
        let (told, cached) = fed.feed("a", Event::InitDone).await;
        assert_eq!(told, "-a/1");
        assert_eq!(cached, "1.b 2.a 3.a");
    }

    #[tokio::test]
    async fn later_events_go_through() {
        let mut fed = Fed::new(&["a", "b"]);
        listed(&mut fed, "a", &[]).await;
        listed(&mut fed, "b", &[]).await;
        let event = Event::Apply(object("b", "1"));
        assert_eq!(
            fed.feed("b", event).await,
            ("+b/1".to_owned(), "1.b".to_owned())
        );
        let event = Event::Delete(object("b", "1"));
        assert_eq!(
            fed.feed("b", event).await,
            ("-b/1".to_owned(), String::new())
        );
    }
}
