//! Readiness of pods, and why they are not ready.

use serde_json::Value;

use super::{Progress, conditions};
use crate::kubernetes::object::{self, list, text};

/// The largest number of pods whose problems are reported.
const TOLD: usize = 5;

/// A single pod.
pub(super) fn judge(pod: &Value) -> Progress {
    let phase = text(pod, "/status/phase");
    if phase == Some("Succeeded") || conditions::is_true(pod, "Ready") {
        return Progress::Ready;
    }
    let mut reasons = trouble(pod);
    if phase == Some("Failed") {
        let message = text(pod, "/status/message").or(text(pod, "/status/reason"));
        let message = message.unwrap_or("its containers ended with an error");
        reasons.insert(0, format!("pod {} failed: {message}", object::id(pod)));
        return Progress::Failed(reasons);
    }
    if reasons.is_empty() {
        reasons.push(format!("pod {} is not ready yet", object::id(pod)));
    }
    Progress::Waiting(reasons)
}

/// Why pods are not ready.
pub(super) fn troubles(pods: &[Value]) -> Vec<String> {
    let mut told = Vec::new();
    for pod in pods {
        let is_leaving = text(pod, "/metadata/deletionTimestamp").is_some();
        if !is_leaving
            && !conditions::is_true(pod, "Ready")
            && text(pod, "/status/phase") != Some("Succeeded")
        {
            told.extend(trouble(pod));
        }
    }
    let more = told.len().saturating_sub(TOLD);
    told.truncate(TOLD);
    if more > 0 {
        told.push(format!("and {more} more like these"));
    }
    told
}

fn trouble(pod: &Value) -> Vec<String> {
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = statuses.iter().flat_map(|pointer| list(pod, pointer));
    let mut reasons: Vec<_> = containers
        .filter(|status| status.get("ready") != Some(&Value::Bool(true)))
        .filter_map(container_trouble)
        .collect();
    if reasons.is_empty() {
        let conditions = ["PodScheduled", "Initialized"];
        reasons = conditions::untrue(pod, &conditions);
    }
    let pod = object::id(pod);
    reasons
        .into_iter()
        .map(|reason| format!("pod {pod}: {reason}"))
        .collect()
}

fn container_trouble(status: &Value) -> Option<String> {
    let name = text(status, "/name").unwrap_or_default();
    let ended = ["/state/terminated", "/lastState/terminated"];
    let ended = ended.iter().find_map(|pointer| status.pointer(pointer));
    let code = ended
        .and_then(|state| object::number(state, "/exitCode"))
        .filter(|code| *code != 0);
    if let Some(reason) = text(status, "/state/waiting/reason").filter(|reason| !is_normal(reason))
    {
        let message = text(status, "/state/waiting/message").unwrap_or("waiting");
        let code = code.map_or(String::new(), |code| format!(", last exit code {code}"));
        return Some(format!("container {name}: [{reason}] {message}{code}"));
    }
    let code = code?;
    let reason = ended
        .and_then(|state| text(state, "/reason"))
        .unwrap_or("Error");
    let message = ended.and_then(|state| text(state, "/message"));
    let message = message.map_or(String::new(), |message| format!(": {}", message.trim()));
    Some(format!(
        "container {name}: [{reason}] ended with exit code {code}{message}"
    ))
}

fn is_normal(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "cases are values")]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: Value) -> Value {
        json!({"metadata": {"name": "p", "namespace": "n"}, "status": status})
    }

    #[test]
    fn pod_is_ready_when_ready_or_succeeded() {
        let cases = [
            (
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
                "ready",
            ),
            (
                json!({"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}),
                "ready",
            ),
            (
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}),
                "waiting",
            ),
            (json!({"phase": "Pending"}), "waiting"),
            (json!({}), "waiting"),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
                "failed",
            ),
        ];
        for (status, expected) in cases {
            let found = match judge(&pod(status.clone())) {
                Progress::Ready => "ready",
                Progress::Waiting(_) => "waiting",
                Progress::Failed(_) => "failed",
            };
            assert_eq!(found, expected, "{status}");
        }
    }

    #[test]
    fn pod_problems_name_container_and_reason() {
        let container = |state: Value| json!({"containerStatuses": [{"name": "c", "ready": false, "state": state}]});
        let cases = [
            (
                container(
                    json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
                ),
                "pod n/p: container c: [ImagePullBackOff] no such image",
            ),
            (
                container(
                    json!({"terminated": {"reason": "Error", "exitCode": 3, "message": "boom\n"}}),
                ),
                "pod n/p: container c: [Error] ended with exit code 3: boom",
            ),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]}),
                "pod n/p: [Unschedulable] 0/1 nodes",
            ),
            (
                json!({"initContainerStatuses": [{"name": "i", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}]}),
                "pod n/p: container i: [CrashLoopBackOff] waiting, last exit code 1",
            ),
        ];
        for (status, expected) in cases {
            assert_eq!(troubles(&[pod(status)]), [expected]);
        }
        assert!(
            troubles(&[pod(container(
                json!({"waiting": {"reason": "ContainerCreating"}})
            ))])
            .is_empty()
        );
    }

    #[test]
    fn pod_problems_are_limited() {
        let status = json!({"containerStatuses": [{"name": "c", "ready": false, "state": {"waiting": {"reason": "R", "message": "m"}}}]});
        let pods = vec![pod(status); 9];
        let told = troubles(&pods);
        assert_eq!(told.len(), TOLD + 1);
        assert_eq!(told.last().unwrap(), "and 4 more like these");
    }
}
