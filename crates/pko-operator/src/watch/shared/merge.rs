//! Merges the watches of several namespaces into one.
//!
//! A cache replaces its content at the end of each list. With a list for each namespace, the second
//! would drop the first. So the cache gets one list once every namespace has been listed; a later
//! list of one namespace becomes single events: each object in it, and a deletion of each that it
//! lacks.

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

/// A namespace, empty for all, and the events of its watch.
pub(in crate::watch) type NamespaceEvents<K> = (String, EventStream<K>);

/// `cache` is the one that the result fills.
pub(super) fn merge_streams<K>(sources: Vec<NamespaceEvents<K>>, cache: Store<K>) -> EventStream<K>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    if let [_] = sources.as_slice() {
        return stream::iter(sources).flat_map(|(_, events)| events).boxed();
    }
    let mut merge = ListMerge::new(sources.iter().map(|(namespace, _)| namespace.clone()));
    let named = sources
        .into_iter()
        .map(|(namespace, events)| events.map(move |event| (namespace.clone(), event)));
    let events = stream::select_all(named);
    translate_events(events, move |namespace: String, event| {
        merge.next(&namespace, event, || cache.state())
    })
    .boxed()
}

/// Translates events; errors pass through.
fn translate_events<K: Send + 'static>(
    events: impl Stream<Item = (String, watcher::Result<Event<K>>)> + Send + 'static,
    mut translate: impl FnMut(String, Event<K>) -> Vec<Event<K>> + Send + 'static,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send {
    events.flat_map(move |(namespace, event)| {
        let translated = match event {
            Ok(event) => translate(namespace, event).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(translated)
    })
}

enum ListMerge<K> {
    /// Some namespaces have not been listed yet.
    Listing {
        waiting: HashSet<String>,
        found: HashMap<(String, String), K>,
    },
    /// All namespaces have been listed. For those that are listed again, the names so far.
    Listed(HashMap<String, HashSet<String>>),
}

impl<K: Resource + Clone> ListMerge<K> {
    fn new(namespaces: impl Iterator<Item = String>) -> Self {
        Self::Listing {
            waiting: namespaces.collect(),
            found: HashMap::new(),
        }
    }

    /// The merged events of one event.
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

/// Removes what this event invalidates.
fn collect<K: Resource>(
    found: &mut HashMap<(String, String), K>,
    namespace: &str,
    event: &Event<K>,
) {
    match event {
        // A list that restarts drops the interrupted one.
        Event::Init => found.retain(|(other, _), _| other != namespace),
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

/// The merged events once all namespaces have been listed.
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

    /// A cache with watches that a test drives.
    struct TestWatch {
        senders: HashMap<String, mpsc::UnboundedSender<watcher::Result<Event<ConfigMap>>>>,
        events: EventStream<ConfigMap>,
        cache: Store<ConfigMap>,
    }

    impl TestWatch {
        fn new(namespaces: &[&str]) -> Self {
            let (cache, writer) = reflector::store();
            let (mut senders, mut sources) = (HashMap::new(), Vec::new());
            for namespace in namespaces {
                let (sender, receiver) = mpsc::unbounded();
                senders.insert((*namespace).to_owned(), sender);
                sources.push(((*namespace).to_owned(), receiver.boxed()));
            }
            let events = reflector(writer, merge_streams(sources, cache.clone())).boxed();
            Self {
                senders,
                events,
                cache,
            }
        }

        /// Sends an event. Returns the merged events, and the content of the cache.
        async fn feed(&mut self, namespace: &str, event: Event<ConfigMap>) -> (String, String) {
            let sender = self.senders.get_mut(namespace).unwrap();
            sender.send(Ok(event)).await.unwrap();
            let mut events = Vec::new();
            while let Some(event) = futures::FutureExt::now_or_never(self.events.next()) {
                events.push(text(&event.unwrap().unwrap()));
            }
            let mut cached: Vec<String> = self
                .cache
                .state()
                .iter()
                .map(|object| path(object))
                .collect();
            cached.sort();
            (events.join(" "), cached.join(" "))
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

    async fn listed(watch: &mut TestWatch, namespace: &str, names: &[&str]) -> (String, String) {
        watch.feed(namespace, Event::Init).await;
        for name in names {
            watch
                .feed(namespace, Event::InitApply(object(namespace, name)))
                .await;
        }
        watch.feed(namespace, Event::InitDone).await
    }

    #[tokio::test]
    async fn merge_of_one_namespace_passes_events_through() {
        let mut watch = TestWatch::new(&["a"]);
        assert_eq!(watch.feed("a", Event::Init).await.0, "[");
        let event = Event::InitApply(object("a", "1"));
        assert_eq!(watch.feed("a", event).await.0, "a/1");
        assert_eq!(watch.feed("a", Event::InitDone).await.0, "]");
    }

    #[tokio::test]
    async fn merge_is_ready_when_every_namespace_is_listed() {
        let mut watch = TestWatch::new(&["a", "b"]);
        assert_eq!(listed(&mut watch, "a", &["1"]).await.0, "");
        assert!(!watch.is_ready());
        let (events, cached) = listed(&mut watch, "b", &["2"]).await;
        assert!(watch.is_ready());
        assert!(
            events.starts_with("[ ") && events.ends_with(" ]"),
            "{events}"
        );
        assert!(cached.contains("1.a") && cached.contains("2.b"), "{cached}");
    }

    #[tokio::test]
    async fn merge_first_list_has_events_between_the_lists() {
        let mut watch = TestWatch::new(&["a", "b"]);
        listed(&mut watch, "a", &["1", "2"]).await;
        watch.feed("a", Event::Delete(object("a", "1"))).await;
        watch.feed("a", Event::Apply(object("a", "3"))).await;
        let (events, cached) = listed(&mut watch, "b", &[]).await;
        assert_eq!(events.matches("a/").count(), 2, "{events}");
        assert!(cached.contains("2.a") && cached.contains("3.a"), "{cached}");
    }

    #[tokio::test]
    async fn merge_drops_an_interrupted_list() {
        let mut watch = TestWatch::new(&["a", "b"]);
        watch.feed("a", Event::Init).await;
        watch.feed("a", Event::InitApply(object("a", "1"))).await;
        listed(&mut watch, "a", &["2"]).await;
        let (events, _) = listed(&mut watch, "b", &[]).await;
        assert_eq!(events, "[ a/2 ]");
    }

    #[tokio::test]
    async fn merge_later_list_keeps_other_namespaces() {
        let mut watch = TestWatch::new(&["a", "b"]);
        listed(&mut watch, "a", &["1", "2"]).await;
        listed(&mut watch, "b", &["1"]).await;
        assert_eq!(watch.feed("a", Event::Init).await.0, "");
        let event = Event::InitApply(object("a", "2"));
        assert_eq!(watch.feed("a", event).await.0, "+a/2");
        let event = Event::InitApply(object("a", "3"));
        assert_eq!(watch.feed("a", event).await.0, "+a/3");
        let (events, cached) = watch.feed("a", Event::InitDone).await;
        assert_eq!(events, "-a/1");
        assert_eq!(cached, "1.b 2.a 3.a");
    }

    #[tokio::test]
    async fn merge_passes_later_events_through() {
        let mut watch = TestWatch::new(&["a", "b"]);
        listed(&mut watch, "a", &[]).await;
        listed(&mut watch, "b", &[]).await;
        let event = Event::Apply(object("b", "1"));
        assert_eq!(
            watch.feed("b", event).await,
            ("+b/1".to_owned(), "1.b".to_owned())
        );
        let event = Event::Delete(object("b", "1"));
        assert_eq!(
            watch.feed("b", event).await,
            ("-b/1".to_owned(), String::new())
        );
    }
}
