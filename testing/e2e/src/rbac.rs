//! The shipped permissions suffice: the audit log has no request of the manager that was denied.
//!
//! Every passing test checks this.

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use crate::{operator_cluster::OperatorCluster, test_env::run_concurrently};

const MANAGER: &str = "system:serviceaccount:pulumi-kubernetes-operator:controller-manager";

/// The manager's requests that were denied so far.
pub(crate) fn denied_requests(operator: &OperatorCluster) -> Vec<String> {
    let log = fs::read_to_string(operator.cluster.audit_log()).unwrap_or_default();
    missing_permissions(&log)
}

/// The requests in a log that were denied and never allowed. A starting API server denies
/// everything until it has loaded the RBAC rules.
fn missing_permissions(log: &str) -> Vec<String> {
    let requests = |filter: &str, decision: &str| -> BTreeSet<String> {
        let lines = log.lines().filter(|line| line.contains(filter));
        lines.filter_map(|line| request(line, decision)).collect()
    };
    let refused = requests("\"code\":403", "forbid");
    if refused.is_empty() {
        return Vec::new();
    }
    let allowed = requests(MANAGER, "allow");
    refused.difference(&allowed).cloned().collect()
}

/// The verb and resource of a manager's request, if it got this decision.
fn request(line: &str, decision: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).ok()?;
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str);
    // A terminating namespace rejects new objects with the same code, regardless of permissions
    let decided = text("/annotations/authorization.k8s.io~1decision")?;
    let is_ours = text("/user/username")? == MANAGER;
    let [group, namespace, resource, part] = ["apiGroup", "namespace", "resource", "subresource"]
        .map(|field| {
            let value = text(&format!("/objectRef/{field}"));
            value.unwrap_or_default()
        });
    let verb = text("/verb")?;
    (is_ours && decided == decision)
        .then(|| format!("{verb} {group}/{resource}/{part} in {namespace:?}"))
}

#[tokio::test]
async fn operator_and_workspace_pods_pass_restricted_pod_security() {
    run_concurrently(async |env| {
        env.create_simple("demo").await;
        env.wait_for_ready("demo").await;
        let level = |namespace: &str| {
            let path = "jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}";
            env.operator
                .kubectl(&["get", "namespace", namespace, "-o", path])
        };
        for namespace in [env.name(), crate::operator_cluster::OPERATOR_NAMESPACE] {
            assert_eq!(level(namespace), "restricted", "{namespace}");
        }
        let spec = env.pod("demo").await.unwrap().spec.unwrap();
        let context = spec.security_context.unwrap();
        assert_eq!(context.run_as_non_root, Some(true));
    })
    .await;
}

#[test]
fn permission_denied_and_never_granted_is_missing() {
    let line = |user: &str, verb: &str, decision: &str| {
        let code = if decision == "forbid" { 403 } else { 200 };
        let record = serde_json::json!({
            "verb": verb, "user": { "username": user }, "responseStatus": { "code": code },
            "objectRef": { "resource": "nodes" },
            "annotations": { "authorization.k8s.io/decision": decision },
        });
        format!("{record}\n")
    };
    let table = [
        (
            vec![line(MANAGER, "list", "forbid")],
            vec!["list /nodes/ in \"\""],
        ),
        (vec![line("somebody", "list", "forbid")], vec![]),
        (vec![line(MANAGER, "list", "allow")], vec![]),
        // The API server had not loaded the rules yet
        (
            vec![
                line(MANAGER, "list", "forbid"),
                line(MANAGER, "list", "allow"),
            ],
            vec![],
        ),
        (
            vec![
                line(MANAGER, "delete", "forbid"),
                line(MANAGER, "list", "allow"),
            ],
            vec!["delete /nodes/ in \"\""],
        ),
    ];
    for (lines, expected) in table {
        assert_eq!(missing_permissions(&lines.concat()), expected, "{lines:?}");
    }
}
