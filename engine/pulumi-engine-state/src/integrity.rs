//! The integrity of a state: each resource once, after its dependencies.

use std::collections::HashSet;

use ring::digest::{SHA256, digest};

use super::checkpoint::{Deployment, Manifest};

/// SHA-256 of a text, in hexadecimal: the magic cookie of a manifest.
pub(super) fn sha256(text: &str) -> String {
    hex::encode(digest(&SHA256, text.as_bytes()))
}

/// Checks the integrity of a state.
pub fn verify(deployment: &Deployment) -> Result<(), String> {
    let Manifest { magic, version, .. } = &deployment.manifest;
    if !magic.is_empty() && *magic != sha256(version) {
        return Err("magic cookie mismatch; possible tampering/corruption detected".to_owned());
    }
    let all: HashSet<_> = deployment
        .resources
        .iter()
        .map(|resource| resource.urn.as_str())
        .collect();
    let mut live = HashSet::new();
    let mut earlier = HashSet::new();
    for resource in &deployment.resources {
        let urn = resource.urn.as_str();
        let mut others = resource.references();
        if let Some(other) = others.find(|other| !earlier.contains(other)) {
            let fault = if all.contains(other) {
                "comes after it"
            } else {
                "is no part of the state"
            };
            return Err(format!("resource {urn} refers to {other}, which {fault}"));
        }
        if !resource.delete && !live.insert(urn) {
            return Err(format!(
                "duplicate resource {urn} (not marked for deletion)"
            ));
        }
        earlier.insert(urn);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    fn verified(resources: &Value, magic: &str) -> Result<(), String> {
        let deployment: Deployment = serde_json::from_value(json!({
            "manifest": {"time": "t", "magic": magic, "version": "v1"},
            "resources": resources,
            "metadata": Map::new(),
        }))
        .unwrap();
        verify(&deployment)
    }

    #[test]
    fn integrity_requires_unique_urns_and_order() {
        let a = json!({"urn": "a", "type": "t"});
        let b = json!({"urn": "b", "type": "t", "parent": "a", "dependencies": ["a"]});
        let old = json!({"urn": "b", "type": "t", "delete": true});
        assert_eq!(verified(&json!([a, b, old]), ""), Ok(()));
        for (resources, fault) in [
            (
                json!([b, a]),
                "resource b refers to a, which comes after it",
            ),
            (
                json!([b]),
                "resource b refers to a, which is no part of the state",
            ),
            (
                json!([a, b, b]),
                "duplicate resource b (not marked for deletion)",
            ),
        ] {
            assert_eq!(verified(&resources, ""), Err(fault.to_owned()));
        }
    }

    #[test]
    fn integrity_checks_magic_of_manifest() {
        assert!(
            verified(&json!([]), "no hash")
                .unwrap_err()
                .contains("magic cookie mismatch")
        );
        let hash = sha256("v1");
        assert_eq!(verified(&json!([]), &hash), Ok(()));
    }
}
