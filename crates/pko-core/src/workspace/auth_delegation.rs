//! The right that upstream's agent needs to authenticate callers, and the command that grants it.

use pko_api::Workspace;

use super::pod;

/// The errors of upstream's agent without this right.
const UNAVAILABLE: [&str; 2] = [
    "TokenReview API is unavailable",
    "SubjectAccessReview API is unavailable",
];

/// The agent's error, with the fix if it is known.
pub(super) fn explain(workspace: &Workspace, message: &str) -> String {
    if !UNAVAILABLE.iter().any(|text| message.contains(text)) {
        return message.to_owned();
    }
    let namespace = workspace.metadata.namespace.as_deref().unwrap_or_default();
    let account = pod::service_account(workspace);
    format!(
        "{message}: the service account {namespace}/{account} lacks the ClusterRole system:auth-delegator; add it with \
         `kubectl create clusterrolebinding {namespace}:{account}:system:auth-delegator \
         --clusterrole=system:auth-delegator --serviceaccount={namespace}:{account}`"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn workspace(spec: impl Into<Value>) -> Workspace {
        let spec: Value = spec.into();
        let workspace =
            json!({ "metadata": { "name": "demo", "namespace": "shop" }, "spec": spec });
        serde_json::from_value(workspace).unwrap()
    }

    #[test]
    fn missing_role_binding_names_the_command() {
        for error in UNAVAILABLE {
            let text = explain(
                &workspace(json!({ "serviceAccountName": "deployer" })),
                error,
            );
            assert!(text.starts_with(error), "{text}");
            let command = "kubectl create clusterrolebinding shop:deployer:system:auth-delegator \
                           --clusterrole=system:auth-delegator --serviceaccount=shop:deployer";
            assert!(text.contains(command), "{text}");
        }
        let text = explain(&workspace(json!({})), UNAVAILABLE[0]);
        assert!(text.contains("shop/default lacks"), "{text}");
        let template = json!({ "podTemplate": { "spec": { "serviceAccountName": "other" } } });
        let text = explain(&workspace(template), UNAVAILABLE[1]);
        assert!(text.contains("shop/other lacks"), "{text}");
    }

    #[test]
    fn other_messages_are_unchanged() {
        let text = explain(&workspace(json!({})), "unauthenticated");
        assert_eq!(text, "unauthenticated");
    }
}
