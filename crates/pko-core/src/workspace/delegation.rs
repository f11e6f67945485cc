//! The right that upstream's agent needs to find out who calls it, and how it is given.

use pko_api::Workspace;

use super::pod;

/// What upstream's agent says where it may not ask the API server.
const UNAVAILABLE: [&str; 2] = [
    "TokenReview API is unavailable",
    "SubjectAccessReview API is unavailable",
];

/// What an agent said, with the way out where it is known.
pub(super) fn explained(workspace: &Workspace, message: &str) -> String {
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
    fn a_missing_binding_is_named_with_the_command_that_adds_it() {
        for said in UNAVAILABLE {
            let text = explained(
                &workspace(json!({ "serviceAccountName": "deployer" })),
                said,
            );
            assert!(text.starts_with(said), "{text}");
            let command = "kubectl create clusterrolebinding shop:deployer:system:auth-delegator \
                           --clusterrole=system:auth-delegator --serviceaccount=shop:deployer";
            assert!(text.contains(command), "{text}");
        }
        let text = explained(&workspace(json!({})), UNAVAILABLE[0]);
        assert!(text.contains("shop/default lacks"), "{text}");
        let template = json!({ "podTemplate": { "spec": { "serviceAccountName": "other" } } });
        let text = explained(&workspace(template), UNAVAILABLE[1]);
        assert!(text.contains("shop/other lacks"), "{text}");
    }

    #[test]
    fn everything_else_is_said_as_it_is() {
        let text = explained(&workspace(json!({})), "unauthenticated");
        assert_eq!(text, "unauthenticated");
    }
}
