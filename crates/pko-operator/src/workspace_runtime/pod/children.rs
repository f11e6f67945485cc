//! The children of Workspaces, from the caches or from our own last write if that is newer.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Pod, Service},
};
use kube::{
    Resource, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use parking_lot::Mutex;
use pko_api::Workspace;
use pko_core::workspace::pod::{
    ExistingResources, child_name, pod_name, trim_service, trim_stateful_set,
};
use pko_kube::resource_version;

use crate::{watch::shared::WatchProgress, workspace_runtime::ServedPrograms};

/// How long our own write counts as newer than a cache that lacks it. By then the cache has it, or
/// what came after it.
const OWN_WRITE_TTL: Duration = Duration::from_secs(10);

pub(crate) struct Children {
    services: Cached<Service>,
    stateful_sets: Cached<StatefulSet>,
    pods: Store<Pod>,
    programs: ServedPrograms,
}

impl Children {
    pub(crate) fn new(
        services: (Store<Service>, WatchProgress),
        stateful_sets: (Store<StatefulSet>, WatchProgress),
        pods: Store<Pod>,
        programs: ServedPrograms,
    ) -> Self {
        Self {
            services: Cached::new(services.0, services.1),
            stateful_sets: Cached::new(stateful_sets.0, stateful_sets.1),
            pods,
            programs,
        }
    }

    /// Waits until the caches are filled. Only one caller may wait: a cache wakes one waiter.
    pub(super) async fn wait_until_synced(&self) -> bool {
        self.services.store.wait_until_ready().await.is_ok()
            && self.stateful_sets.store.wait_until_ready().await.is_ok()
            && self.pods.wait_until_ready().await.is_ok()
    }

    pub(super) fn of(&self, workspace: &Workspace) -> ExistingResources {
        let namespace = workspace.namespace().unwrap_or_default();
        let name = child_name(workspace);
        ExistingResources {
            service: self.services.get(&namespace, &name),
            stateful_set: self.stateful_sets.get(&namespace, &name),
            pod: self.pod(workspace),
            artifact: self.programs.artifact(workspace),
        }
    }

    pub(super) fn pod(&self, workspace: &Workspace) -> Option<Pod> {
        let namespace = workspace.namespace().unwrap_or_default();
        let pod = ObjectRef::new(&pod_name(workspace)).within(&namespace);
        Some(self.pods.get(&pod)?.as_ref().clone())
    }

    pub(super) fn has_pod(&self, uid: &str) -> bool {
        let pods = self.pods.state();
        pods.iter().any(|pod| pod.uid().as_deref() == Some(uid))
    }

    pub(super) fn remember_service(&self, mut service: Service) {
        trim_service(&mut service);
        self.services.remember(service);
    }

    pub(super) fn remember_stateful_set(&self, mut set: StatefulSet) {
        trim_stateful_set(&mut set);
        self.stateful_sets.remember(set);
    }

    pub(super) fn forget_stateful_set(&self, set: &StatefulSet) {
        self.stateful_sets.forget(set);
    }
}

/// A cache, and our own writes that it may lack.
struct Cached<K: Resource<DynamicType = ()> + Clone + 'static> {
    store: Store<K>,
    progress: WatchProgress,
    written: Mutex<HashMap<(String, String), (K, Instant)>>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Cached<K> {
    fn new(store: Store<K>, progress: WatchProgress) -> Self {
        Self {
            store,
            progress,
            written: Mutex::default(),
        }
    }

    fn get(&self, namespace: &str, name: &str) -> Option<K> {
        let cached = self.store.get(&ObjectRef::new(name).within(namespace));
        let mut all = self.written.lock();
        all.retain(|_, (_, at)| at.elapsed() < OWN_WRITE_TTL);
        let written = all.get(&(namespace.to_owned(), name.to_owned()));
        match (cached, written) {
            (Some(cached), Some((written, _)))
                if resource_version(cached.as_ref()) < resource_version(written) =>
            {
                Some(written.clone())
            }
            // The watch has not delivered it yet. Otherwise it was deleted since.
            (None, Some((written, _))) if !self.progress.has_reached(written) => {
                Some(written.clone())
            }
            (cached, _) => cached.map(|cached| cached.as_ref().clone()),
        }
    }

    fn remember(&self, object: K) {
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        let mut all = self.written.lock();
        all.insert(key, (object, Instant::now()));
    }

    fn forget(&self, object: &K) {
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        let mut all = self.written.lock();
        all.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher::Event};
    use serde_json::json;

    use super::*;

    fn service(version: &str) -> Service {
        let metadata = json!({ "name": "demo", "namespace": "shop", "resourceVersion": version });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn found(cached: &Cached<Service>) -> Option<String> {
        cached.get("shop", "demo")?.resource_version()
    }

    #[test]
    fn children_newer_of_cache_and_own_write_counts() {
        let (store, mut writer) = reflector::store();
        let cached = Cached::new(store, WatchProgress::default());
        assert_eq!(found(&cached), None);
        cached.remember(service("7"));
        assert_eq!(
            found(&cached).as_deref(),
            Some("7"),
            "the cache has nothing"
        );
        writer.apply_watcher_event(&Event::Apply(service("6")));
        assert_eq!(found(&cached).as_deref(), Some("7"), "the cache is older");
        writer.apply_watcher_event(&Event::Apply(service("10")));
        assert_eq!(found(&cached).as_deref(), Some("10"), "the cache is newer");
        cached.forget(&service("7"));
        writer.apply_watcher_event(&Event::Delete(service("11")));
        assert_eq!(found(&cached), None);
    }

    #[test]
    fn children_delivered_deletion_overrides_own_write() {
        let (store, mut writer) = reflector::store();
        let progress = WatchProgress::default();
        let cached = Cached::new(store, progress.clone());
        cached.remember(service("7"));
        progress.record(&service("6"));
        assert_eq!(found(&cached).as_deref(), Some("7"), "not delivered yet");
        let deleted = service("9");
        writer.apply_watcher_event(&Event::Delete(deleted.clone()));
        progress.record(&deleted);
        assert_eq!(found(&cached), None);
        cached.remember(service("12"));
        assert_eq!(found(&cached).as_deref(), Some("12"), "a newer write");
    }
}
