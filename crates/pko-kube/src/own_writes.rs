//! Detects copies of objects that are older than our own last write.
//!
//! A reconcile of such a copy decides on a past state: it could start a second Update before the
//! cache shows the first.

use std::collections::HashMap;

use kube::ResourceExt;
use parking_lot::Mutex;

/// The resource versions of our last writes, by uid.
#[derive(Debug, Default)]
pub struct OwnWrites(Mutex<HashMap<String, u64>>);

impl OwnWrites {
    /// Records a write by the object that the API server returned.
    pub fn record(&self, object: &impl ResourceExt) {
        if let (Some(uid), Some(version)) = (object.uid(), resource_version(object)) {
            self.0.lock().insert(uid, version);
        }
    }

    /// The higher resource version of this copy and our last write.
    pub fn newest(&self, object: &impl ResourceExt) -> Option<String> {
        let written = object.uid().and_then(|uid| self.written(&uid));
        let newest = resource_version(object).max(written);
        newest.map(|version| version.to_string())
    }

    /// Whether this copy of an object lacks our last write.
    pub fn is_stale(&self, object: &impl ResourceExt) -> bool {
        let written = object.uid().and_then(|uid| self.written(&uid));
        resource_version(object).is_some_and(|version| Some(version) < written)
    }

    /// Forgets the write of an object if this copy contains it.
    pub fn forget_if_reached(&self, object: &impl ResourceExt) {
        if let (Some(uid), Some(version)) = (object.uid(), resource_version(object)) {
            let mut writes = self.0.lock();
            if writes.get(&uid).is_some_and(|written| *written <= version) {
                writes.remove(&uid);
            }
        }
    }

    fn written(&self, uid: &str) -> Option<u64> {
        self.0.lock().get(uid).copied()
    }
}

/// An object's resource version. The API server guarantees that those of one kind are increasing
/// numbers.
pub fn resource_version(object: &impl ResourceExt) -> Option<u64> {
    object.resource_version()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn object(version: &str) -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "uid": "u", "resourceVersion": version } }))
            .unwrap()
    }

    #[test]
    fn newest_version_is_our_own_write_or_the_copy() {
        let writes = OwnWrites::default();
        assert_eq!(writes.newest(&object("5")).as_deref(), Some("5"));
        writes.record(&object("10"));
        assert_eq!(writes.newest(&object("9")).as_deref(), Some("10"));
        assert_eq!(writes.newest(&object("11")).as_deref(), Some("11"));
    }

    #[test]
    fn copy_older_than_our_write_is_stale() {
        let writes = OwnWrites::default();
        assert!(!writes.is_stale(&object("5")), "nothing was written");
        writes.record(&object("10"));
        assert!(writes.is_stale(&object("9")));
        assert!(!writes.is_stale(&object("10")));
        writes.forget_if_reached(&object("9"));
        assert!(writes.is_stale(&object("9")), "not reached yet");
        writes.forget_if_reached(&object("10"));
        assert!(!writes.is_stale(&object("9")), "forgotten");
    }
}
