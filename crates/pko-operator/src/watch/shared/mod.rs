//! One watch for each kind, and one cache that all controllers read.
//!
//! # Guarantees
//! Whoever is woken by an event finds it in the cache: the cache is written first. With a watch for each controller, one
//! could be woken by an Update's end, read another's cache that has not seen it, and wait for an event that has
//! been. A deleted object wakes, too. Before it does, [`WatchProgress`] records the deletion, so that a copy of our
//! own last write no longer counts as newer than the cache.
//!
//! # Costs
//! Objects are listed in pages, and kept without their managed fields, which nobody here reads and which can be as
//! large as the rest. A foreign kind is watched by a label, and of each object only what is read is kept;
//! `Feed::<PartialObjectMeta<K>>` keeps its metadata only.

mod merge;
mod progress;

use std::{fmt::Debug, hash::Hash, pin::pin, sync::Arc};

use futures::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Client, Resource,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(super) use merge::Source;
pub(crate) use progress::WatchProgress;

use crate::leader_election::Elected;

/// How many objects are listed at a time.
const PAGE: u32 = 100;

/// Takes off an object what nobody here reads, before it is kept.
pub(super) type Keep<K> = fn(&mut K);

/// Keeps an object as it is.
pub(super) fn whole<K>(_: &mut K) {}

/// Where is watched, and for whom.
#[derive(Clone)]
pub(crate) struct Watching {
    client: Client,
    elected: Elected,
    namespaces: Vec<String>,
}

impl Watching {
    /// Whether this manager leads.
    pub(super) fn elected(&self) -> Elected {
        self.elected.clone()
    }

    /// Watches these namespaces, or all if there are none; whoever listens is told while this manager leads.
    pub(crate) fn new(client: &Client, elected: &Elected, namespaces: Vec<String>) -> Self {
        Self {
            client: client.clone(),
            elected: elected.clone(),
            namespaces,
        }
    }

    /// What happens to the objects of a kind, for each namespace.
    pub(super) fn events<K>(&self, config: &watcher::Config, keep: Keep<K>) -> Vec<Source<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let events = |namespace: Option<&str>| {
            pko_kube::watch(&self.client, namespace, config.clone())
                .modify(move |object: &mut K| {
                    object.meta_mut().managed_fields = None;
                    keep(object);
                })
                .boxed()
        };
        if self.namespaces.is_empty() {
            return vec![(String::new(), events(None))];
        }
        let namespaces = self.namespaces.iter();
        namespaces
            .map(|namespace| (namespace.clone(), events(Some(namespace))))
            .collect()
    }
}

/// The watch of one kind, before it runs.
pub(crate) struct Feed<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    sources: Vec<Source<K>>,
    store: Store<K>,
    writer: Writer<K>,
    progress: WatchProgress,
    listeners: Vec<UnboundedSender<Arc<K>>>,
    elected: Elected,
}

impl<K> Feed<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash,
{
    /// A watch of all objects of a kind.
    pub(crate) fn new(watching: &Watching) -> Self {
        Self::configured(watching, &watcher::Config::default(), whole)
    }

    /// A watch of those objects of a kind that have these labels, such as `auto.pulumi.com/component=workspace`; of each,
    /// no more is kept than `keep` leaves.
    pub(crate) fn selected(watching: &Watching, labels: &str, keep: Keep<K>) -> Self {
        Self::configured(watching, &watcher::Config::default().labels(labels), keep)
    }

    fn configured(watching: &Watching, config: &watcher::Config, keep: Keep<K>) -> Self {
        let (store, writer) = reflector::store();
        Self {
            sources: watching.events(&config.clone().page_size(PAGE), keep),
            store,
            writer,
            progress: WatchProgress::default(),
            listeners: Vec::new(),
            elected: watching.elected.clone(),
        }
    }

    /// The cache that it fills.
    pub(crate) fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// How far the watch has got.
    pub(crate) fn progress(&self) -> WatchProgress {
        self.progress.clone()
    }

    /// Each object that appears, changes or goes while this manager leads; at the beginning of that, all that
    /// there are. Until then the cache is filled, and nothing else gathers.
    pub(crate) fn listen(&mut self) -> impl Stream<Item = Arc<K>> + Send + use<K> {
        let (sender, mut receiver) = unbounded_channel();
        self.listeners.push(sender);
        let (store, mut elected) = (self.store.clone(), self.elected.clone());
        let beginning = async move {
            loop {
                tokio::select! {
                    biased;
                    () = elected.wait() => break,
                    object = receiver.recv() => if object.is_none() { break },
                }
            }
            futures::stream::iter(store.state()).chain(receiving(receiver))
        };
        futures::stream::once(beginning).flatten()
    }

    /// Watches until the manager ends.
    pub(crate) async fn run(self) {
        let Self {
            sources,
            store,
            writer,
            progress,
            listeners,
            ..
        } = self;
        let events = merge::merged(sources, store.clone());
        let mut events = pin!(reflector::reflector(writer, events));
        let mut before = Vec::new();
        while let Some(event) = events.next().await {
            let touched = match event {
                Ok(Event::Init) => {
                    before = store.state();
                    Vec::new()
                }
                // A new list is in the cache only once it is complete.
                Ok(Event::InitApply(_)) => Vec::new(),
                // What is not in the new list was deleted while nobody watched.
                Ok(Event::InitDone) => {
                    let gone = std::mem::take(&mut before);
                    let gone = gone.into_iter().filter(|object| {
                        store.get(&ObjectRef::from_obj(object.as_ref())).is_none()
                    });
                    store.state().into_iter().chain(gone).collect()
                }
                Ok(Event::Apply(object) | Event::Delete(object)) => vec![Arc::new(object)],
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "Watch was cut off; it is tried again");
                    Vec::new()
                }
            };
            for object in touched {
                progress.record(object.as_ref());
                for listener in &listeners {
                    let _ = listener.send(object.clone());
                }
            }
        }
    }
}

/// A channel as a stream.
pub(crate) fn receiving<T: Send + 'static>(
    receiver: UnboundedReceiver<T>,
) -> impl Stream<Item = T> + Send + use<T> {
    futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|item| (item, receiver))
    })
}
