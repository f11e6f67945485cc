//! The agent in a pod: its address and the callers that it admits. Both are read from the pod,
//! because another version of the operator may have created it.

use k8s_openapi::api::core::v1::{Container, Pod};
use pko_api::names::annotations;

use super::{GRPC_PORT, PULUMI_CONTAINER};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAgent {
    /// The uid of the pod.
    pub uid: String,
    pub address: String,
    pub admits: AdmittedCallers,
    /// Whether packages are installed and stacks selected.
    pub is_initialized: bool,
}

/// The callers that an agent admits, from its `--auth-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmittedCallers {
    /// Callers with a token that our manager signed: the agent is ours.
    Manager,
    /// Callers with a token that the API server accepts.
    ServiceAccount,
    /// All callers.
    All,
}

#[must_use]
pub fn pod_agent(pod: &Pod) -> Option<PodAgent> {
    let address = pod.status.as_ref()?.pod_ip.as_deref();
    let address = address.filter(|address| !address.is_empty())?;
    Some(PodAgent {
        uid: pod.metadata.uid.clone()?,
        address: if address.contains(':') {
            format!("[{address}]:{GRPC_PORT}")
        } else {
            format!("{address}:{GRPC_PORT}")
        },
        admits: admits(pod),
        is_initialized: is_initialized(pod),
    })
}

fn admits(pod: &Pod) -> AdmittedCallers {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut pulumi = containers.filter(|container| container.name == PULUMI_CONTAINER);
    match pulumi.next().and_then(auth_mode) {
        Some(mode) if mode.split(',').any(|mode| mode == "manager") => AdmittedCallers::Manager,
        Some("kube") => AdmittedCallers::ServiceAccount,
        _ => AdmittedCallers::All,
    }
}

fn auth_mode(container: &Container) -> Option<&str> {
    let words = container.command.iter().chain(&container.args).flatten();
    let words: Vec<&str> = words.map(String::as_str).collect();
    let flag = "--auth-mode";
    let joined = words
        .iter()
        .find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
    let apart = || {
        let position = words.iter().position(|word| *word == flag)?;
        words.get(position + 1).copied()
    };
    joined.or_else(apart)
}

/// Accepts Go's spellings of true; upstream's operator writes the first.
fn is_initialized(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let value = annotations.and_then(|annotations| annotations.get(annotations::INITIALIZED));
    value.is_some_and(|value| ["true", "True", "TRUE", "t", "T", "1"].contains(&value.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn agent(address: &str, command: &Value, annotations: &Value) -> Option<PodAgent> {
        let pod = json!({
            "metadata": { "name": "demo-workspace-0", "uid": "u-1", "annotations": annotations },
            "spec": { "containers": [{ "name": "side" }, { "name": "pulumi", "command": command }] },
            "status": { "podIP": address },
        });
        pod_agent(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn agent_address_is_that_of_the_pod() {
        assert_eq!(agent("", &json!([]), &json!({})), None);
        let address = |address| agent(address, &json!([]), &json!({})).unwrap().address;
        assert_eq!(address("10.0.0.7"), "10.0.0.7:50051");
        assert_eq!(address("fd00::7"), "[fd00::7]:50051");
    }

    #[test]
    fn agent_auth_is_read_from_the_pod() {
        for (command, admits) in [
            (
                json!(["/share/agent", "serve", "--auth-mode", "manager"]),
                AdmittedCallers::Manager,
            ),
            (
                json!(["/share/agent", "serve", "--auth-mode=kube,manager"]),
                AdmittedCallers::Manager,
            ),
            (
                json!([
                    "/share/tini",
                    "/share/agent",
                    "--",
                    "serve",
                    "--auth-mode",
                    "kube"
                ]),
                AdmittedCallers::ServiceAccount,
            ),
            (
                json!(["/share/agent", "serve", "--auth-mode", "none"]),
                AdmittedCallers::All,
            ),
            (json!(["/share/agent", "serve"]), AdmittedCallers::All),
            (json!(["--auth-mode"]), AdmittedCallers::All),
        ] {
            let found = agent("10.0.0.7", &command, &json!({})).unwrap();
            assert_eq!(found.admits, admits, "{command}");
        }
    }

    #[test]
    fn pod_is_initialized_by_its_annotation() {
        for (value, expected) in [
            ("true", true),
            ("1", true),
            ("false", false),
            ("", false),
            ("yes", false),
        ] {
            let annotations = json!({ "auto.pulumi.com/initialized": value });
            let found = agent("10.0.0.7", &json!([]), &annotations).unwrap();
            assert_eq!(found.is_initialized, expected, "{value}");
        }
        assert!(
            !agent("10.0.0.7", &json!([]), &json!({}))
                .unwrap()
                .is_initialized
        );
    }
}
