//! The progress of a watch: what it has delivered, including deletions.

use std::{collections::HashMap, sync::Arc};

use kube::ResourceExt;
use parking_lot::Mutex;
use pko_kube::resource_version;

/// The highest resource version that a watch has delivered in each namespace.
///
/// A cache alone can't distinguish an object that the watch has not delivered yet from one that was
/// deleted since. A deletion has a resource version that is higher than that of any write before
/// it.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchProgress(Arc<Mutex<HashMap<String, u64>>>);

impl WatchProgress {
    /// Records an object that the watch delivered, also for its deletion.
    pub(crate) fn record(&self, object: &impl ResourceExt) {
        let Some(version) = resource_version(object) else {
            return;
        };
        let namespace = object.namespace().unwrap_or_default();
        let mut versions = self.0.lock();
        let highest = versions.entry(namespace).or_default();
        *highest = version.max(*highest);
    }

    /// Whether the watch has delivered this version of an object, or a later one.
    pub(crate) fn has_reached(&self, object: &impl ResourceExt) -> bool {
        let namespace = object.namespace().unwrap_or_default();
        let versions = self.0.lock();
        let highest = versions.get(&namespace).copied();
        resource_version(object).is_none_or(|version| Some(version) <= highest)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn object(namespace: &str, version: &str) -> ConfigMap {
        let metadata = json!({ "namespace": namespace, "resourceVersion": version });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    #[test]
    fn watch_progress_is_the_highest_version_of_each_namespace() {
        let progress = WatchProgress::default();
        assert!(!progress.has_reached(&object("shop", "7")));
        progress.record(&object("shop", "9"));
        progress.record(&object("shop", "8"));
        assert!(progress.has_reached(&object("shop", "9")));
        assert!(!progress.has_reached(&object("shop", "10")));
        assert!(!progress.has_reached(&object("other", "7")));
    }
}
