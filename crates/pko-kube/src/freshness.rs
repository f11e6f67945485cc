//! Whether an object from a cache is older than our own last write of it.
//!
//! A pass on such an object would decide on a world that is gone: it could start a second Update before
//! it has seen the first.

use std::{collections::HashMap, sync::Mutex};

use kube::ResourceExt;

/// The versions of the objects that we wrote last.
#[derive(Debug, Default)]
pub struct Written(Mutex<HashMap<String, u64>>);

impl Written {
    /// Remembers a write by what the API server answered.
    pub fn remember(&self, object: &impl ResourceExt) {
        if let (Some(uid), Some(version)) = (object.uid(), resource_version(object))
            && let Ok(mut versions) = self.0.lock()
        {
            versions.insert(uid, version);
        }
    }

    /// The newest version of an object that is known here: this copy's, or that of our own last write.
    pub fn newest(&self, object: &impl ResourceExt) -> Option<String> {
        let written = object
            .uid()
            .and_then(|uid| self.0.lock().ok()?.get(&uid).copied());
        let newest = resource_version(object).max(written);
        newest.map(|version| version.to_string())
    }

    /// Whether this copy of an object lacks our last write. Once it does not, nothing needs to be
    /// remembered.
    pub fn is_stale(&self, object: &impl ResourceExt) -> bool {
        let (Some(uid), Some(version)) = (object.uid(), resource_version(object)) else {
            return false;
        };
        let Ok(mut versions) = self.0.lock() else {
            return false;
        };
        match versions.get(&uid) {
            Some(written) if version < *written => true,
            Some(_) => {
                versions.remove(&uid);
                false
            }
            None => false,
        }
    }
}

/// An object's resource version. Those of one kind are numbers that grow, as the API server guarantees.
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
    fn the_newest_version_is_our_own_write_or_the_copy() {
        let written = Written::default();
        assert_eq!(written.newest(&object("5")).as_deref(), Some("5"));
        written.remember(&object("10"));
        assert_eq!(written.newest(&object("9")).as_deref(), Some("10"));
        assert_eq!(written.newest(&object("11")).as_deref(), Some("11"));
    }

    #[test]
    fn a_copy_older_than_our_write_is_stale() {
        let written = Written::default();
        assert!(!written.is_stale(&object("5")), "nothing was written");
        written.remember(&object("10"));
        assert!(written.is_stale(&object("9")));
        assert!(!written.is_stale(&object("10")));
        assert!(
            !written.is_stale(&object("9")),
            "forgotten once it was seen"
        );
    }
}
