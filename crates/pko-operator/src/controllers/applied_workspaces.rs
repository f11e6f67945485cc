//! The last apply of each Workspace, so that an unchanged one is not applied at each reconcile.

use std::collections::HashMap;

use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use pko_api::Workspace;
use sha2::{Digest as _, Sha256};

#[derive(Debug, Default)]
pub(crate) struct AppliedWorkspaces(Mutex<HashMap<ObjectRef<Workspace>, AppliedWorkspace>>);

/// What was applied, and the object that resulted.
#[derive(Debug)]
struct AppliedWorkspace {
    desired: Fingerprint,
    uid: Option<String>,
    generation: Option<i64>,
}

type Fingerprint = [u8; 32];

/// How a copy of a Workspace relates to the last apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyState {
    /// It is the result of the apply.
    Current,
    /// It is older than the apply.
    NotObserved,
    /// Something else was applied, or the Workspace has changed since.
    Differs,
}

impl AppliedWorkspaces {
    /// Records what was applied and the object that the API server returned.
    pub(crate) fn record(&self, desired: &Workspace, applied: &Workspace) {
        let Some(fingerprint) = fingerprint(desired) else {
            return;
        };
        let record = AppliedWorkspace {
            desired: fingerprint,
            uid: applied.metadata.uid.clone(),
            generation: applied.metadata.generation,
        };
        self.0.lock().insert(ObjectRef::from_obj(desired), record);
    }

    /// Compares a copy of a Workspace, or its absence, with the last apply of the desired one.
    pub(crate) fn state_of(&self, desired: &Workspace, found: Option<&Workspace>) -> ApplyState {
        let applied = self.0.lock();
        let last = applied.get(&ObjectRef::from_obj(desired));
        let Some(last) = last.filter(|last| Some(last.desired) == fingerprint(desired)) else {
            return ApplyState::Differs;
        };
        match found {
            None => ApplyState::NotObserved,
            Some(found) if found.metadata.deletion_timestamp.is_some() => ApplyState::Differs,
            Some(found) if found.metadata.uid != last.uid => ApplyState::NotObserved,
            Some(found) if found.metadata.generation < last.generation => ApplyState::NotObserved,
            Some(found) if found.metadata.generation == last.generation => ApplyState::Current,
            Some(_) => ApplyState::Differs,
        }
    }

    /// Forgets a Workspace that is deleted.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        self.0
            .lock()
            .remove(&ObjectRef::new(name).within(namespace));
    }
}

fn fingerprint(desired: &Workspace) -> Option<Fingerprint> {
    let text = serde_json::to_vec(desired).ok()?;
    Some(Sha256::digest(text).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(image: &str) -> Workspace {
        let metadata = json!({ "name": "demo", "namespace": "shop" });
        let object = json!({ "metadata": metadata, "spec": { "image": image } });
        serde_json::from_value(object).unwrap()
    }

    fn found(uid: &str, generation: i64) -> Workspace {
        let mut workspace = workspace("any");
        workspace.metadata.uid = Some(uid.to_owned());
        workspace.metadata.generation = Some(generation);
        workspace
    }

    #[test]
    fn applied_workspace_is_applied_again_only_if_it_differs() {
        let applied = AppliedWorkspaces::default();
        let desired = workspace("one");
        let state = |found: Option<&Workspace>| applied.state_of(&desired, found);
        assert_eq!(state(None), ApplyState::Differs, "nothing was applied");
        applied.record(&desired, &found("b", 2));
        let mut deleting = found("b", 2);
        deleting.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        for (case, found, expected) in [
            ("not in the cache yet", None, ApplyState::NotObserved),
            (
                "an earlier object",
                Some(found("a", 7)),
                ApplyState::NotObserved,
            ),
            (
                "an earlier spec",
                Some(found("b", 1)),
                ApplyState::NotObserved,
            ),
            ("the applied one", Some(found("b", 2)), ApplyState::Current),
            ("a later spec", Some(found("b", 3)), ApplyState::Differs),
            ("being deleted", Some(deleting), ApplyState::Differs),
        ] {
            assert_eq!(state(found.as_ref()), expected, "{case}");
        }
        let other = applied.state_of(&workspace("two"), Some(&found("b", 2)));
        assert_eq!(other, ApplyState::Differs, "another spec is desired");
        applied.forget("shop", "demo");
        assert_eq!(
            state(Some(&found("b", 2))),
            ApplyState::Differs,
            "forgotten"
        );
    }
}
