//! The watch of one kind: updates the cache, then triggers Stacks.

use std::{collections::HashMap, sync::Arc};

use futures::{StreamExt as _, future::join_all};
use kube::{
    ResourceExt as _,
    runtime::watcher::{self, Event},
};
use pko_core::stack::Artifact;
use pko_kube::{EventStream, StatusObject};

use super::{
    StackNotifier, artifact_of,
    cache::{ArtifactCache, ObjectKey, WatchFailure},
};

/// Runs until the kind is gone.
pub(super) async fn run(
    events: Vec<(Option<String>, EventStream<StatusObject>)>,
    cache: Arc<ArtifactCache>,
    listener: StackNotifier,
) {
    let watches = events.into_iter().map(|(namespace, events)| {
        let watch = KindWatch {
            namespace,
            cache: &cache,
            listener: &listener,
            listed: HashMap::new(),
        };
        watch.run(events)
    });
    join_all(watches).await;
}

struct KindWatch<'watch> {
    namespace: Option<String>,
    cache: &'watch ArtifactCache,
    listener: &'watch StackNotifier,
    listed: HashMap<ObjectKey, Option<Artifact>>,
}

impl KindWatch<'_> {
    async fn run(mut self, mut events: EventStream<StatusObject>) {
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.apply(event),
                Err(error) => {
                    if self.record_failure(&error) {
                        return;
                    }
                }
            }
        }
    }

    fn apply(&mut self, event: Event<StatusObject>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                self.listed.insert(key(&object), artifact_of(&object));
            }
            Event::InitDone => {
                self.cache.set_failure(None);
                let listed = std::mem::take(&mut self.listed);
                for (namespace, name) in self.cache.replace(self.namespace.as_deref(), listed) {
                    self.listener.notify(&namespace, &name);
                }
            }
            Event::Apply(object) => {
                let (namespace, name) = key(&object);
                let key = (namespace.clone(), name.clone());
                if self.cache.set(key, artifact_of(&object)) {
                    self.listener.notify(&namespace, &name);
                }
            }
            Event::Delete(object) => {
                let key = key(&object);
                self.cache.remove(&key);
                self.listener.notify(&key.0, &key.1);
            }
        }
    }

    /// Records a failure. Returns whether the watch is over, because the kind is gone.
    fn record_failure(&self, error: &watcher::Error) -> bool {
        let kind = &self.listener.kind.kind;
        tracing::warn!(kind, %error, "Watch of sources failed; retrying");
        let failure = match api_status(error) {
            Some((404, _)) => WatchFailure::Gone,
            Some((403, message)) => WatchFailure::Forbidden(message),
            _ => return false,
        };
        let is_over = failure == WatchFailure::Gone;
        let before = self.cache.failure();
        if before.as_ref() != Some(&failure) {
            self.cache.set_failure(Some(failure));
            self.listener.notify_all();
        }
        is_over
    }
}

fn key(object: &StatusObject) -> ObjectKey {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The response of the API server, if any.
fn api_status(error: &watcher::Error) -> Option<(u16, String)> {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return None;
    };
    Some((status.code, status.message.clone()))
}
