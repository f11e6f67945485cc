//! One watch for each kind, and one cache that all controllers read.
//!
//! # Guarantees
//! Whoever is woken by an event finds it in the cache: the cache is written first. With a watch for each controller, one
//! could be woken by an Update's end, read another's cache that has not seen it, and wait for an event that has
//! been. A deleted object wakes, too.

use std::{fmt::Debug, hash::Hash, pin::pin, sync::Arc};

use futures::{Stream, StreamExt as _};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::leadership::Elected;

/// The watch of one kind, before it runs.
pub(crate) struct Feed<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    objects: Api<K>,
    store: Store<K>,
    writer: Writer<K>,
    listeners: Vec<UnboundedSender<Arc<K>>>,
    elected: Elected,
}

impl<K> Feed<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash,
{
    /// A watch of all objects of a kind.
    pub(crate) fn new(client: &Client, elected: &Elected) -> Self {
        let (store, writer) = reflector::store();
        Self {
            objects: Api::all(client.clone()),
            store,
            writer,
            listeners: Vec::new(),
            elected: elected.clone(),
        }
    }

    /// The cache that it fills.
    pub(crate) fn store(&self) -> Store<K> {
        self.store.clone()
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
            objects,
            store,
            writer,
            listeners,
            ..
        } = self;
        let events = watcher(objects, watcher::Config::default()).default_backoff();
        let mut events = pin!(reflector::reflector(writer, events));
        // A new list is in the cache only once it is complete.
        let (mut listed, mut before) = (Vec::new(), Vec::new());
        while let Some(event) = events.next().await {
            let touched = match event {
                Ok(Event::Init) => {
                    listed.clear();
                    before = store.state();
                    Vec::new()
                }
                Ok(Event::InitApply(object)) => {
                    listed.push(Arc::new(object));
                    Vec::new()
                }
                // What is not in the new list was deleted while nobody watched.
                Ok(Event::InitDone) => {
                    let gone = std::mem::take(&mut before);
                    let gone = gone.into_iter().filter(|object| {
                        store.get(&ObjectRef::from_obj(object.as_ref())).is_none()
                    });
                    std::mem::take(&mut listed)
                        .into_iter()
                        .chain(gone)
                        .collect()
                }
                Ok(Event::Apply(object) | Event::Delete(object)) => vec![Arc::new(object)],
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "Watch was cut off; it is tried again");
                    Vec::new()
                }
            };
            for object in touched {
                for listener in &listeners {
                    let _ = listener.send(object.clone());
                }
            }
        }
    }
}

/// A channel as a stream.
pub(super) fn receiving<T: Send + 'static>(
    receiver: UnboundedReceiver<T>,
) -> impl Stream<Item = T> + Send + use<T> {
    futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|item| (item, receiver))
    })
}
