//! What the operator may do is what it does: the API server's own record shows no request of ours that it refused for
//! want of a right. Every test that passes is held to it.

use std::fs;

use serde_json::Value;

use crate::{place::beside_others, system::System};

/// Who the manager is.
const MANAGER: &str = "system:serviceaccount:pulumi-kubernetes-operator:controller-manager";

/// The manager's requests that were refused for want of a right, so far: verb, address, answer.
pub(crate) fn refused(system: &System) -> Vec<String> {
    let log = fs::read_to_string(system.cluster.audit_log()).unwrap_or_default();
    let forbidden = log.lines().filter(|line| line.contains("\"code\":403"));
    forbidden.filter_map(refusal).collect()
}

fn refusal(line: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).ok()?;
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str);
    // A namespace that ends refuses new objects by the same code, whatever rights there are
    let decision = text("/annotations/authorization.k8s.io~1decision")?;
    let is_ours = text("/user/username")? == MANAGER;
    (is_ours && decision == "forbid").then(|| {
        let [verb, address] = ["/verb", "/requestURI"].map(|field| text(field).unwrap_or_default());
        format!("{verb} {address}")
    })
}

#[tokio::test]
async fn restricted_pod_security_holds_for_the_operator_and_for_each_workspace() {
    beside_others(async |place| {
        place.create_simple("demo").await;
        place.ready("demo").await;
        let level = |namespace: &str| {
            let path = "jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}";
            place
                .system
                .kubectl(&["get", "namespace", namespace, "-o", path])
        };
        for namespace in [place.name(), crate::system::OPERATOR_NAMESPACE] {
            assert_eq!(level(namespace), "restricted", "{namespace}");
        }
        let spec = place.pod("demo").await.unwrap().spec.unwrap();
        let context = spec.security_context.unwrap();
        assert_eq!(context.run_as_non_root, Some(true));
    })
    .await;
}

#[test]
fn a_refusal_is_the_managers_own_for_want_of_a_right() {
    let line = |user: &str, decision: &str| {
        serde_json::json!({
            "verb": "list", "requestURI": "/api/v1/nodes", "user": { "username": user },
            "responseStatus": { "code": 403 },
            "annotations": { "authorization.k8s.io/decision": decision },
        })
        .to_string()
    };
    assert_eq!(
        refusal(&line(MANAGER, "forbid")).as_deref(),
        Some("list /api/v1/nodes")
    );
    assert_eq!(refusal(&line(MANAGER, "allow")), None);
    assert_eq!(refusal(&line("somebody", "forbid")), None);
}
