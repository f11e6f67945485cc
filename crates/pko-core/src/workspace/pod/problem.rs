//! The problem of a workspace's pod, as a sentence: the container, the reason, and the end of its
//! log.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};

use crate::{redaction::redact, workspace::end_of_log};

/// The kubelet's reasons for a container that will not start soon.
const FAILED_WAITS: [&str; 10] = [
    "CrashLoopBackOff",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

#[must_use]
pub fn problem(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    if status.phase.as_deref() == Some("Failed") {
        let reason = status.reason.as_deref().unwrap_or("Failed");
        let message = status.message.as_deref().unwrap_or_default();
        return Some(sentence(&format!("the pod is gone: {reason}"), message));
    }
    let of_init = status.init_container_statuses.iter().flatten();
    let of_others = status.container_statuses.iter().flatten();
    let of_init = of_init.filter_map(|container| of_container("init container", container));
    let of_others = of_others.filter_map(|container| of_container("container", container));
    of_init
        .chain(of_others)
        .next()
        .or_else(|| unschedulable(pod))
}

fn unschedulable(pod: &Pod) -> Option<String> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let condition = conditions
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")?;
    let reason = condition.reason.as_deref().unwrap_or("Unschedulable");
    let message = condition.message.as_deref().unwrap_or_default();
    Some(sentence(
        &format!("the pod cannot be scheduled: {reason}"),
        message,
    ))
}

fn of_container(kind: &str, container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let name = format!("{kind} \"{}\"", container.name);
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        if !FAILED_WAITS.contains(&reason) {
            return None;
        }
        let end = container.last_state.as_ref().and_then(failure);
        let waits = waiting.message.as_deref().unwrap_or_default();
        return Some(match end {
            Some((end, log)) => sentence(&format!("{name} {end} ({reason})"), &log),
            None => sentence(&format!("{name}: {reason}"), waits),
        });
    }
    let (end, log) = failure(state)?;
    Some(sentence(&format!("{name} {end}"), &log))
}

/// How a container failed, and the end of its log.
fn failure(state: &ContainerState) -> Option<(String, String)> {
    let terminated = state.terminated.as_ref()?;
    if terminated.exit_code == 0 {
        return None;
    }
    let reason = terminated.reason.as_deref().unwrap_or("Error");
    let end = if reason == "OOMKilled" {
        "ran out of memory: OOMKilled; give it more by spec.resources.limits".to_owned()
    } else {
        format!("failed with exit code {}: {reason}", terminated.exit_code)
    };
    let log = terminated.message.as_deref().unwrap_or_default();
    Some((end, end_of_log(log)))
}

fn sentence(head: &str, tail: &str) -> String {
    let tail = tail.trim();
    let text = if tail.is_empty() {
        head.to_owned()
    } else if tail.contains('\n') {
        format!("{head}:\n{tail}")
    } else {
        format!("{head}: {tail}")
    };
    redact(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message(status: &Value) -> Option<String> {
        problem(&serde_json::from_value(json!({ "status": status })).unwrap())
    }

    fn init(name: &str, state: &Value, last: impl Into<Value>) -> Value {
        let last: Value = last.into();
        json!({ "initContainerStatuses": [{
            "name": name, "state": state, "lastState": last,
            "image": "i", "imageID": "", "ready": false, "restartCount": 1,
        }] })
    }

    fn main(state: &Value, last: impl Into<Value>) -> Value {
        let last: Value = last.into();
        json!({ "containerStatuses": [{
            "name": "pulumi", "state": state, "lastState": last,
            "image": "i", "imageID": "", "ready": false, "restartCount": 1,
        }] })
    }

    fn waits(reason: &str, message: &str) -> Value {
        json!({ "waiting": { "reason": reason, "message": message } })
    }

    fn ended(code: i32, reason: &str, message: &str) -> Value {
        json!({ "terminated": { "exitCode": code, "reason": reason, "message": message } })
    }

    #[test]
    fn starting_pod_has_no_problem() {
        for status in [
            json!({}),
            json!({ "phase": "Pending" }),
            init("fetch", &waits("PodInitializing", ""), json!({})),
            init("fetch", &json!({ "running": {} }), json!({})),
            init("fetch", &ended(0, "Completed", ""), json!({})),
            main(&waits("ContainerCreating", ""), json!({})),
            main(
                &json!({ "running": {} }),
                ended(1, "Error", "an old failure"),
            ),
        ] {
            assert_eq!(message(&status), None, "{status}");
        }
    }

    #[test]
    fn pod_problem_names_the_cause() {
        let log = "2026-11-18T12:00:00.000Z\tINFO\tcmd.init\tfetching\n\
                   2026-11-18T12:00:01.000Z\tERROR\tcmd.init\tfailed to fetch: 404\n";
        let table: [(Value, &str); 10] = [
            (
                init("fetch", &ended(1, "Error", log), json!({})),
                "init container \"fetch\" failed with exit code 1: Error: failed to fetch: 404",
            ),
            (
                init("fetch", &ended(1, "Error", "no such branch"), json!({})),
                "init container \"fetch\" failed with exit code 1: Error: no such branch",
            ),
            (
                init(
                    "fetch",
                    &waits("CrashLoopBackOff", "back-off 10s restarting"),
                    ended(1, "Error", "no such\nbranch"),
                ),
                "init container \"fetch\" failed with exit code 1: Error (CrashLoopBackOff):\nno such\nbranch",
            ),
            (
                main(
                    &waits("ImagePullBackOff", "Back-off pulling image \"nope\""),
                    json!({}),
                ),
                "container \"pulumi\": ImagePullBackOff: Back-off pulling image \"nope\"",
            ),
            (
                main(&waits("ErrImagePull", "not found"), json!({})),
                "container \"pulumi\": ErrImagePull: not found",
            ),
            (
                main(
                    &waits(
                        "CreateContainerConfigError",
                        "secret \"credentials\" not found",
                    ),
                    json!({}),
                ),
                "container \"pulumi\": CreateContainerConfigError: secret \"credentials\" not found",
            ),
            (
                main(
                    &waits("CrashLoopBackOff", "back-off"),
                    ended(137, "OOMKilled", ""),
                ),
                "container \"pulumi\" ran out of memory: OOMKilled; give it more by spec.resources.limits \
                 (CrashLoopBackOff)",
            ),
            (
                main(
                    &waits("CrashLoopBackOff", "back-off 5m0s restarting"),
                    json!({}),
                ),
                "container \"pulumi\": CrashLoopBackOff: back-off 5m0s restarting",
            ),
            (
                json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory." }),
                "the pod is gone: Evicted: The node was low on resource: memory.",
            ),
            (
                json!({ "phase": "Pending", "conditions": [
                    { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available" },
                ] }),
                "the pod cannot be scheduled: Unschedulable: 0/3 nodes are available",
            ),
        ];
        for (status, expected) in table {
            assert_eq!(message(&status).as_deref(), Some(expected), "{status}");
        }
    }

    #[test]
    fn first_failed_container_is_the_cause() {
        let mut both = init("fetch", &ended(1, "Error", "first"), json!({}));
        both["containerStatuses"] =
            main(&waits("ImagePullBackOff", "second"), json!({}))["containerStatuses"].clone();
        assert!(message(&both).unwrap().contains("first"));
    }

    #[test]
    fn log_is_shortened_and_redacted() {
        let lines: Vec<String> = (0..50).map(|number| format!("line {number}")).collect();
        let log = format!(
            "{}\n{}",
            lines.join("\n"),
            "https://me:hunter2@git.test/a: refused"
        );
        let text = message(&init("fetch", &ended(1, "Error", &log), json!({}))).unwrap();
        assert!(
            text.contains("line 41\n") && !text.contains("line 40\n"),
            "{text}"
        );
        assert!(
            text.ends_with("https://[secret]@git.test/a: refused"),
            "{text}"
        );
    }
}
