//! Checks the statuses that a test leaves behind by the rules of [`kstatus`].

use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use serde_json::Value;

use crate::kstatus::{self, ConditionProtocol};

/// The kinds with our conditions: group, version, kind, plural.
const KINDS: [([&str; 4], ConditionProtocol); 4] = [
    (
        ["pulumi.com", "v1", "Stack", "stacks"],
        ConditionProtocol::ExactlyOne,
    ),
    (
        ["pulumi.com", "v1", "Program", "programs"],
        ConditionProtocol::AtMostOne,
    ),
    (
        ["auto.pulumi.com", "v1alpha1", "Workspace", "workspaces"],
        ConditionProtocol::AtMostOne,
    ),
    (
        ["auto.pulumi.com", "v1alpha1", "Update", "updates"],
        ConditionProtocol::AtMostOne,
    ),
];

/// All that is wrong in a namespace, a sentence each.
pub(super) async fn violations(
    client: &Client,
    namespace: &str,
) -> Result<Vec<String>, kube::Error> {
    let mut found = Vec::new();
    for ([group, version, kind, plural], protocol) in KINDS {
        let resource = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&resource, plural);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let objects = match api.list(&ListParams::default()).await {
            Ok(objects) => objects,
            // A plane without this CRD
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(error),
        };
        for object in objects {
            let object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
            found.extend(object_violations(kind, &object, protocol, Timestamp::now()));
        }
    }
    Ok(found)
}

/// Valid at any moment, also during reconciliation: an object without conditions was not reconciled
/// yet, and a status of an older generation is checked against that generation.
fn object_violations(
    kind: &str,
    object: &Value,
    protocol: ConditionProtocol,
    now: Timestamp,
) -> Vec<String> {
    let conditions = object.pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array);
    if conditions.is_none_or(Vec::is_empty) {
        return Vec::new();
    }
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let name = name.unwrap_or_default();
    kstatus::violations(&when_observed(object.clone()), protocol, now)
        .into_iter()
        .map(|violation| format!("{kind} `{name}`: {violation}"))
        .collect()
}

fn when_observed(mut object: Value) -> Value {
    let number = |pointer| object.pointer(pointer).and_then(Value::as_i64);
    let observed = number("/status/observedGeneration");
    let is_older = observed < number("/metadata/generation");
    if let (Some(observed), true) = (observed, is_older)
        && let Some(generation) = object.pointer_mut("/metadata/generation")
    {
        *generation = observed.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn violations_of(generation: i64, observed: i64, held: &[&str]) -> Vec<String> {
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let conditions: Vec<Value> = ["Ready", "Reconciling", "Stalled"]
            .iter()
            .map(|kind| {
                let status = if held.contains(kind) { "True" } else { "False" };
                json!({
                    "type": kind, "status": status, "reason": "Because", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            })
            .collect();
        let object = json!({
            "metadata": { "name": "demo", "generation": generation },
            "status": { "observedGeneration": observed, "conditions": conditions },
        });
        object_violations("Stack", &object, ConditionProtocol::ExactlyOne, now)
    }

    #[test]
    fn status_in_progress_is_no_violation() {
        let nothing: [String; 0] = [];
        assert_eq!(violations_of(1, 1, &["Ready"]), nothing);
        assert_eq!(
            violations_of(2, 1, &["Ready"]),
            nothing,
            "a spec that nobody has seen"
        );
        assert_eq!(violations_of(1, 1, &["Reconciling"]), nothing);
        for status in [json!(null), json!({}), json!({ "conditions": [] })] {
            let object = json!({ "metadata": { "generation": 1 }, "status": status });
            let now = Timestamp::now();
            assert_eq!(
                object_violations("Stack", &object, ConditionProtocol::ExactlyOne, now),
                nothing
            );
        }
    }

    #[test]
    fn violations_name_the_object() {
        assert_eq!(
            violations_of(2, 1, &["Ready", "Stalled"]),
            ["Stack `demo`: Ready and Stalled are True at once"]
        );
        assert_eq!(
            violations_of(1, 1, &[]),
            ["Stack `demo`: none of Ready, Reconciling and Stalled is True"]
        );
        assert_eq!(
            violations_of(1, 2, &["Reconciling"]),
            ["Stack `demo`: observedGeneration 2 is ahead of generation 1"]
        );
    }
}
