//! Readiness of workloads: the rollout of the desired state is complete.

use serde_json::Value;

use super::{Observation, Progress, conditions, is_observed, pod};
use crate::kubernetes::object::{number, text};

/// A Deployment is ready when all its pods are updated and available, and its conditions say so.
pub(super) fn deployment(sight: &Observation) -> Progress {
    let object = &sight.object;
    if !is_observed(object) {
        return Progress::waiting("the controller has not seen the Deployment yet");
    }
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let count = |field: &str| number(object, &format!("/status/{field}")).unwrap_or(0);
    let (updated, available) = (count("updatedReplicas"), count("availableReplicas"));
    let mut reasons = conditions::untrue(object, &["Progressing", "Available"]);
    reasons.extend(conditions::messages(object, "ReplicaFailure"));
    let is_available = conditions::is_true(object, "Available");
    if updated >= wanted && count("replicas") <= updated && available >= updated && is_available {
        return Progress::Ready;
    }
    reasons.insert(
        0,
        format!("{available} of {wanted} pods are available, {updated} are up to date"),
    );
    with_pods(reasons, &sight.pods)
}

/// A StatefulSet is ready when all its pods are ready and, unless `OnDelete` is set, updated.
pub(super) fn stateful_set(sight: &Observation) -> Progress {
    let object = &sight.object;
    if !is_observed(object) {
        return Progress::waiting("the controller has not seen the StatefulSet yet");
    }
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let count = |field: &str| number(object, &format!("/status/{field}")).unwrap_or(0);
    let revision = |field: &str| text(object, &format!("/status/{field}"));
    let ready = count("readyReplicas");
    let all_ready = count("replicas") == wanted && ready == wanted;
    let is_manual = text(object, "/spec/updateStrategy/type") == Some("OnDelete");
    // a partition keeps the pods below it at the old revision
    let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    let is_newest = is_manual
        || revision("currentRevision").is_some()
            && revision("currentRevision") == revision("updateRevision")
        || partition > 0 && count("updatedReplicas") >= (wanted - partition).max(0);
    if all_ready && is_newest {
        return Progress::Ready;
    }
    let updated = count("updatedReplicas");
    let reason = format!("{ready} of {wanted} pods are ready, {updated} are up to date");
    with_pods(vec![reason], &sight.pods)
}

/// A `DaemonSet` is ready when its pods run on all desired nodes, and all are updated.
pub(super) fn daemon_set(sight: &Observation) -> Progress {
    let object = &sight.object;
    if !is_observed(object) {
        return Progress::waiting("the controller has not seen the DaemonSet yet");
    }
    let count = |field: &str| number(object, &format!("/status/{field}"));
    let Some(wanted) = count("desiredNumberScheduled") else {
        return Progress::waiting("the controller has not counted the nodes yet");
    };
    let is_manual = text(object, "/spec/updateStrategy/type") == Some("OnDelete");
    let updated = count("updatedNumberScheduled").unwrap_or(0);
    let available = count("numberAvailable").unwrap_or(0);
    if (is_manual || updated >= wanted) && available >= wanted {
        return Progress::Ready;
    }
    let reason = format!("{available} of {wanted} pods are available, {updated} are up to date");
    with_pods(vec![reason], &sight.pods)
}

/// A `ReplicationController` is ready when it has the desired number of available pods.
pub(super) fn replication_controller(sight: &Observation) -> Progress {
    let wanted = number(&sight.object, "/spec/replicas").unwrap_or(1);
    let available = number(&sight.object, "/status/availableReplicas").unwrap_or(0);
    if is_observed(&sight.object) && available == wanted {
        return Progress::Ready;
    }
    with_pods(
        vec![format!("{available} of {wanted} pods are available")],
        &sight.pods,
    )
}

fn with_pods(mut reasons: Vec<String>, pods: &[Value]) -> Progress {
    reasons.extend(pod::troubles(pods));
    Progress::Waiting(reasons)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sight(object: Value) -> Observation {
        Observation {
            object,
            ..Observation::default()
        }
    }

    fn available() -> Value {
        json!([{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}])
    }

    #[test]
    fn deployment_is_ready_after_rollout() {
        let object = |replicas: Value, status: Value| json!({"metadata": {"generation": 2}, "spec": {"replicas": replicas}, "status": status});
        let cases = [
            (
                "complete",
                json!(2),
                json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "conditions": available()}),
                true,
            ),
            (
                "one by default",
                Value::Null,
                json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "conditions": available()}),
                true,
            ),
            (
                "scaled to nothing",
                json!(0),
                json!({"observedGeneration": 2, "conditions": available()}),
                true,
            ),
            (
                "not seen yet",
                json!(2),
                json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "conditions": available()}),
                false,
            ),
            (
                "half updated",
                json!(2),
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2, "conditions": available()}),
                false,
            ),
            (
                "old ones left",
                json!(2),
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 3, "conditions": available()}),
                false,
            ),
            (
                "new ones not available",
                json!(2),
                json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1, "conditions": available()}),
                false,
            ),
            ("no status", json!(2), Value::Null, false),
        ];
        for (case, replicas, status, ready) in cases {
            let progress = deployment(&sight(object(replicas, status)));
            assert_eq!(progress == Progress::Ready, ready, "{case}: {progress:?}");
        }
    }

    #[test]
    fn deployment_not_ready_names_reason() {
        let object = json!({"metadata": {"generation": 1}, "spec": {"replicas": 2}, "status": {"observedGeneration": 1, "conditions": [
            {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "Deployment does not have minimum availability."},
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota exceeded"},
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"},
        ]}});
        let pods = vec![
            json!({"metadata": {"name": "web-1", "namespace": "n"}, "status": {"containerStatuses": [
                {"name": "c", "ready": false, "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
            ]}}),
        ];
        let Progress::Waiting(reasons) = deployment(&Observation {
            object,
            pods,
            ..Observation::default()
        }) else {
            panic!("not waiting");
        };
        let text = reasons.join("\n");
        for part in [
            "0 of 2 pods are available",
            "minimum availability",
            "quota exceeded",
            "ProgressDeadlineExceeded",
            "n/web-1",
            "no such image",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn stateful_set_is_ready_after_rollout() {
        let full = json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "currentRevision": "b", "updateRevision": "b"});
        let old = json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"});
        let cases = [
            ("complete", json!({}), full.clone(), true),
            ("old pods", json!({}), old.clone(), false),
            (
                "updates by hand",
                json!({"type": "OnDelete"}),
                old.clone(),
                true,
            ),
            (
                "a partition",
                json!({"rollingUpdate": {"partition": 1}}),
                old,
                true,
            ),
            (
                "not seen yet",
                json!({}),
                json!({"observedGeneration": 0, "replicas": 2, "readyReplicas": 2}),
                false,
            ),
            (
                "not ready",
                json!({}),
                json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 1, "currentRevision": "b", "updateRevision": "b"}),
                false,
            ),
        ];
        for (case, strategy, status, ready) in cases {
            let object = json!({"metadata": {"generation": 1}, "spec": {"replicas": 2, "updateStrategy": strategy}, "status": status});
            let progress = stateful_set(&sight(object));
            assert_eq!(progress == Progress::Ready, ready, "{case}: {progress:?}");
        }
    }

    #[test]
    fn daemon_set_is_ready_on_all_nodes() {
        let cases = [
            (
                json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}),
                true,
            ),
            (
                json!({"observedGeneration": 1, "desiredNumberScheduled": 0}),
                true,
            ),
            (
                json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 1, "numberAvailable": 2}),
                false,
            ),
            (
                json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}),
                false,
            ),
            (
                json!({"observedGeneration": 0, "desiredNumberScheduled": 0}),
                false,
            ),
            (json!({"observedGeneration": 1}), false),
        ];
        for (status, ready) in cases {
            let object = json!({"metadata": {"generation": 1}, "spec": {}, "status": status});
            assert_eq!(
                daemon_set(&sight(object.clone())) == Progress::Ready,
                ready,
                "{object}"
            );
        }
    }

    #[test]
    fn replication_controller_readiness() {
        let object = |available: i64| json!({"metadata": {"generation": 1}, "spec": {"replicas": 2}, "status": {"observedGeneration": 1, "availableReplicas": available}});
        assert_eq!(replication_controller(&sight(object(2))), Progress::Ready);
        assert_ne!(replication_controller(&sight(object(1))), Progress::Ready);
    }
}
