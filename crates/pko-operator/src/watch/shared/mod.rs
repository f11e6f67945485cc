//! One watch for each kind, and one cache that all controllers read.
//!
//! # Guarantees
//! The cache has an event before any listener gets it. With a watch for each controller, one could
//! be triggered by the end of an Update, read the cache of another that lacks it, and wait for an
//! event that has passed. Deletions trigger, too. Before, [`WatchProgress`] records them, so that a
//! copy of our own last write no longer counts as newer than the cache.
//!
//! # Costs
//! Objects are listed in pages of a few megabytes. They are read without their managed fields and
//! cached without large annotations, which nothing here reads and which can be as large as the
//! rest. Programs are cached without their bodies. Foreign kinds are selected by label, and
//! stripped of what is not read; `SharedWatch::<PartialObjectMeta<K>>` caches metadata only.

mod merge;
mod progress;

use std::{pin::pin, sync::Arc};

use futures::{Stream, StreamExt as _};
use kube::{
    Client, Resource,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher::Event,
    },
};
use pko_core::cached_metadata::trim_metadata;
use pko_kube::Namespaced;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(super) use merge::NamespaceEvents;
pub(crate) use progress::WatchProgress;

use crate::leader_election::LeaderStatus;

/// Strips an object of what nothing here reads, before it is cached.
pub(super) type Keep<K> = fn(&mut K);

pub(super) fn keep_all<K>(_: &mut K) {}

#[derive(Clone)]
pub(crate) struct WatchConfig {
    client: Client,
    leader: LeaderStatus,
    namespaces: Vec<String>,
}

impl WatchConfig {
    pub(super) fn leader(&self) -> LeaderStatus {
        self.leader.clone()
    }

    /// Watches these namespaces, or all if there are none. Listeners get events only while this
    /// manager leads.
    pub(crate) fn new(client: &Client, leader: &LeaderStatus, namespaces: Vec<String>) -> Self {
        Self {
            client: client.clone(),
            leader: leader.clone(),
            namespaces,
        }
    }

    /// One watch for each namespace.
    pub(super) fn events<K>(&self, labels: Option<&str>, keep: Keep<K>) -> Vec<NamespaceEvents<K>>
    where
        K: Namespaced + Send + Sync + 'static,
    {
        let events = |namespace: Option<&str>| {
            pko_kube::watch(&self.client, namespace, labels)
                .modify(move |object: &mut K| {
                    trim_metadata(object.meta_mut());
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

/// A watch before it runs.
pub(crate) struct SharedWatch<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    sources: Vec<NamespaceEvents<K>>,
    store: Store<K>,
    writer: Writer<K>,
    progress: WatchProgress,
    listeners: Vec<UnboundedSender<Arc<K>>>,
    leader: LeaderStatus,
}

impl<K> SharedWatch<K>
where
    K: Namespaced + Send + Sync + 'static,
{
    /// Watches all objects of a kind.
    pub(crate) fn new(config: &WatchConfig) -> Self {
        Self::configured(config, None, keep_all)
    }

    /// Watches all objects of a kind, and strips them before they are cached.
    pub(super) fn stripped(config: &WatchConfig, keep: Keep<K>) -> Self {
        Self::configured(config, None, keep)
    }

    /// Watches the objects with these labels, such as `auto.pulumi.com/component=workspace`.
    pub(crate) fn selected(config: &WatchConfig, labels: &str, keep: Keep<K>) -> Self {
        Self::configured(config, Some(labels), keep)
    }

    fn configured(watch: &WatchConfig, labels: Option<&str>, keep: Keep<K>) -> Self {
        let (store, writer) = reflector::store();
        Self {
            sources: watch.events(labels, keep),
            store,
            writer,
            progress: WatchProgress::default(),
            listeners: Vec::new(),
            leader: watch.leader.clone(),
        }
    }

    pub(crate) fn store(&self) -> Store<K> {
        self.store.clone()
    }

    pub(crate) fn progress(&self) -> WatchProgress {
        self.progress.clone()
    }

    /// Each object that is created, changed or deleted while this manager leads, after all that
    /// exist when it begins to lead. Until then only the cache is filled.
    pub(crate) fn listen(&mut self) -> impl Stream<Item = Arc<K>> + Send + use<K> {
        let (sender, mut receiver) = unbounded_channel();
        self.listeners.push(sender);
        let (store, mut leader) = (self.store.clone(), self.leader.clone());
        let beginning = async move {
            loop {
                tokio::select! {
                    biased;
                    () = leader.wait() => break,
                    object = receiver.recv() => if object.is_none() { break },
                }
            }
            futures::stream::iter(store.state()).chain(receiver_stream(receiver))
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
        let events = merge::merge_streams(sources, store.clone());
        let mut events = pin!(reflector::reflector(writer, events));
        let mut before = Vec::new();
        while let Some(event) = events.next().await {
            let changed = match event {
                Ok(Event::Init) => {
                    before = store.state();
                    Vec::new()
                }
                // The cache has a new list only once it is complete.
                Ok(Event::InitApply(_)) => Vec::new(),
                // Objects that the new list lacks were deleted while the watch was interrupted.
                Ok(Event::InitDone) => {
                    let deleted = std::mem::take(&mut before);
                    let deleted = deleted.into_iter().filter(|object| {
                        store.get(&ObjectRef::from_obj(object.as_ref())).is_none()
                    });
                    store.state().into_iter().chain(deleted).collect()
                }
                Ok(Event::Apply(object) | Event::Delete(object)) => vec![Arc::new(object)],
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "Watch failed; retrying");
                    Vec::new()
                }
            };
            for object in changed {
                progress.record(object.as_ref());
                for listener in &listeners {
                    let _ = listener.send(object.clone());
                }
            }
        }
    }
}

pub(crate) fn receiver_stream<T: Send + 'static>(
    receiver: UnboundedReceiver<T>,
) -> impl Stream<Item = T> + Send + use<T> {
    futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|item| (item, receiver))
    })
}
