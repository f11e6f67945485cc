//! The part of prerequisites that their dependents read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{
    Stack,
    names::annotations::{FLUX_REQUESTED_AT, RECONCILIATION_REQUEST},
    pulumi::v1::{StackSpec, StackStatus},
};

/// The most prerequisites that are read, the direct ones before others.
pub const MAX_PREREQUISITES: usize = 1_000;

/// The part of a Stack that its dependents decide on, without its config, templates and outputs:
/// these can be large, and a Stack may have many others before it.
#[must_use]
pub fn prerequisite_view(stack: &Stack) -> Stack {
    let metadata = &stack.metadata;
    let annotations = metadata.annotations.iter().flatten();
    let requests = annotations
        .filter(|(name, _)| [FLUX_REQUESTED_AT, RECONCILIATION_REQUEST].contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()));
    Stack {
        metadata: ObjectMeta {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            annotations: Some(requests.collect()),
            ..ObjectMeta::default()
        },
        spec: StackSpec {
            stack: stack.spec.stack.clone(),
            prerequisites: stack.spec.prerequisites.clone(),
            ..StackSpec::default()
        },
        status: stack.status.as_ref().map(|status| StackStatus {
            observed_generation: status.observed_generation,
            conditions: status.conditions.clone(),
            last_update: status.last_update.clone(),
            ..StackStatus::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prerequisite_view_has_no_large_fields() {
        let stack = |annotations: serde_json::Value, config: serde_json::Value| -> Stack {
            serde_json::from_value(json!({
                "metadata": { "name": "base", "namespace": "shop", "generation": 2, "annotations": annotations },
                "spec": { "stack": "dev", "config": config, "prerequisites": [{ "name": "other" }] },
                "status": { "lastUpdate": { "name": "base-1", "generation": 2 } },
            }))
            .unwrap()
        };
        let request = json!({ RECONCILIATION_REQUEST: "now" });
        let large = json!({ RECONCILIATION_REQUEST: "now", "large": "annotation" });
        let mut other = stack(large, json!({ "large": [1, 2, 3] }));
        if let Some(status) = &mut other.status {
            status.outputs = Some([("large".to_owned(), json!([1]))].into());
        }
        assert_eq!(prerequisite_view(&other), stack(request, json!({})));
    }
}
