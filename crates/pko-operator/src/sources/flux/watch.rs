//! The watch of one kind: fills the cache, then tells the Stacks.

use std::{collections::HashMap, sync::Arc};

use futures::{StreamExt as _, future::join_all};
use kube::{
    ResourceExt as _,
    api::DynamicObject,
    runtime::watcher::{self, Event},
};
use pko_core::stack::Artifact;
use pko_kube::EventStream;

use super::{
    Listener, artifact_of,
    cache::{Cache, Key, Trouble},
};

/// Watches the objects of a kind in these namespaces until it is gone.
pub(super) async fn run(
    events: Vec<(Option<String>, EventStream<DynamicObject>)>,
    cache: Arc<Cache>,
    listener: Listener,
) {
    let watches = events.into_iter().map(|(namespace, events)| {
        let watch = Watch {
            namespace,
            cache: &cache,
            listener: &listener,
            listed: HashMap::new(),
        };
        watch.run(events)
    });
    join_all(watches).await;
}

struct Watch<'watch> {
    namespace: Option<String>,
    cache: &'watch Cache,
    listener: &'watch Listener,
    /// What has been listed so far.
    listed: HashMap<Key, Option<Artifact>>,
}

impl Watch<'_> {
    async fn run(mut self, mut events: EventStream<DynamicObject>) {
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.absorb(event),
                Err(error) => {
                    if self.is_over(&error) {
                        return;
                    }
                }
            }
        }
    }

    fn absorb(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                self.listed.insert(key(&object), artifact_of(&object));
            }
            Event::InitDone => {
                self.cache.set_trouble(None);
                let listed = std::mem::take(&mut self.listed);
                for (namespace, name) in self.cache.replace(self.namespace.as_deref(), listed) {
                    self.listener.tell(&namespace, &name);
                }
            }
            Event::Apply(object) => {
                let (namespace, name) = key(&object);
                let key = (namespace.clone(), name.clone());
                if self.cache.set(key, artifact_of(&object)) {
                    self.listener.tell(&namespace, &name);
                }
            }
            Event::Delete(object) => {
                let key = key(&object);
                self.cache.remove(&key);
                self.listener.tell(&key.0, &key.1);
            }
        }
    }

    /// Takes in what went wrong; whether there is nothing more to watch.
    fn is_over(&self, error: &watcher::Error) -> bool {
        let kind = &self.listener.kind.kind;
        tracing::warn!(kind, %error, "Watch of sources was cut off; it is tried again");
        let trouble = match answer(error) {
            Some((404, _)) => Trouble::Gone,
            Some((403, said)) => Trouble::Forbidden(said),
            _ => return false,
        };
        let is_over = trouble == Trouble::Gone;
        let before = self.cache.trouble();
        if before.as_ref() != Some(&trouble) {
            self.cache.set_trouble(Some(trouble));
            self.listener.tell_all();
        }
        is_over
    }
}

fn key(object: &DynamicObject) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// What the API server said, if it did.
fn answer(error: &watcher::Error) -> Option<(u16, String)> {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return None;
    };
    Some((status.code, status.message.clone()))
}
