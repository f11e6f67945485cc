//! Trims cached objects to the fields that the operator reads. A whole pod is twenty times as
//! large, and each workspace has one. No I/O.

use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetSpec},
    core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus, Service},
};

use super::PULUMI_CONTAINER;

/// Keeps the agent's command line, the address, and the state of the containers.
pub fn trim_pod(pod: &mut Pod) {
    pod.spec = pod.spec.take().map(|spec| PodSpec {
        containers: spec
            .containers
            .into_iter()
            .filter(|container| container.name == PULUMI_CONTAINER)
            .map(command_only)
            .collect(),
        ..PodSpec::default()
    });
    pod.status = pod.status.take().map(|status| PodStatus {
        phase: status.phase,
        reason: status.reason,
        message: status.message,
        pod_ip: status.pod_ip,
        conditions: status.conditions,
        container_statuses: status.container_statuses.map(states_only),
        init_container_statuses: status.init_container_statuses.map(states_only),
        ..PodStatus::default()
    });
}

/// Keeps the replicas and the status. The annotation identifies the applied spec.
pub fn trim_stateful_set(set: &mut StatefulSet) {
    set.spec = set.spec.take().map(|spec| StatefulSetSpec {
        replicas: spec.replicas,
        ..StatefulSetSpec::default()
    });
}

/// Keeps the metadata, whose annotation identifies the applied spec.
pub fn trim_service(service: &mut Service) {
    service.spec = None;
    service.status = None;
}

fn command_only(container: Container) -> Container {
    Container {
        name: container.name,
        command: container.command,
        args: container.args,
        ..Container::default()
    }
}

fn states_only(statuses: Vec<ContainerStatus>) -> Vec<ContainerStatus> {
    let state = |status: ContainerStatus| ContainerStatus {
        name: status.name,
        state: status.state,
        last_state: status.last_state,
        ..ContainerStatus::default()
    };
    statuses.into_iter().map(state).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workspace::pod::{AdmittedCallers, pod_agent, problem};

    fn pod(states: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": "demo-workspace-0", "uid": "u-1", "resourceVersion": "7",
                "annotations": { "auto.pulumi.com/initialized": "true" },
            },
            "spec": {
                "nodeName": "node-1",
                "initContainers": [{ "name": "bootstrap", "image": "agent:1" }],
                "containers": [
                    { "name": "pulumi", "image": "pulumi:3", "command": ["agent", "serve"], "args": ["--auth-mode", "kube"],
                      "env": [{ "name": "TOKEN", "value": "hunter2" }] },
                    { "name": "sidecar", "image": "other" },
                ],
                "volumes": [{ "name": "share", "emptyDir": {} }],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.7", "hostIP": "10.0.0.1",
                "conditions": [{ "type": "PodScheduled", "status": "True" }],
                "containerStatuses": states,
            },
        }))
        .unwrap()
    }

    fn trimmed(mut pod: Pod) -> Pod {
        trim_pod(&mut pod);
        pod
    }

    #[test]
    fn trimmed_pod_keeps_its_agent_without_environment() {
        let whole = pod(&json!([{
            "name": "pulumi", "image": "pulumi:3", "imageID": "sha256:1", "ready": true, "restartCount": 0,
            "state": { "running": {} },
        }]));
        let kept = trimmed(whole.clone());
        assert_eq!(pod_agent(&kept), pod_agent(&whole));
        let agent = pod_agent(&kept).unwrap();
        assert_eq!(agent.admits, AdmittedCallers::ServiceAccount);
        assert!(agent.is_initialized);
        assert_eq!(kept.metadata, whole.metadata);
        let text = json!(kept).to_string();
        for gone in ["hunter2", "sidecar", "bootstrap", "volumes", "sha256:1"] {
            assert!(!text.contains(gone), "{gone}: {text}");
        }
    }

    #[test]
    fn trimmed_pod_has_the_same_problem() {
        let failing = |state: &str| {
            let mut status = json!({
                "name": "pulumi", "image": "pulumi:3", "imageID": "", "ready": false, "restartCount": 4,
                "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled", "message": "last words" } },
            });
            status["state"] = json!({ "waiting": { "reason": state, "message": "back-off" } });
            pod(&json!([status]))
        };
        for state in ["CrashLoopBackOff", "ImagePullBackOff", "PodInitializing"] {
            let whole = failing(state);
            assert_eq!(problem(&trimmed(whole.clone())), problem(&whole), "{state}");
        }
        let mut whole = failing("PodInitializing");
        let status = whole.status.as_mut().unwrap();
        status.phase = Some("Failed".to_owned());
        status.reason = Some("Evicted".to_owned());
        status.message = Some("The node was low on resource: memory.".to_owned());
        assert_eq!(problem(&trimmed(whole.clone())), problem(&whole));
        assert!(problem(&whole).unwrap().contains("Evicted"));
    }

    #[test]
    fn missing_fields_stay_missing() {
        let mut empty = Pod::default();
        trim_pod(&mut empty);
        assert_eq!(empty, Pod::default());
        let mut set = StatefulSet::default();
        trim_stateful_set(&mut set);
        assert_eq!(set, StatefulSet::default());
    }
}
