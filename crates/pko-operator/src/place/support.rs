//! What a process can't be, by the field's name; pure.

use pko_api::{JsonObject, auto::v1alpha1::WorkspaceSpec};
use serde_json::Value;

/// The first field that asks for something that only a pod can be.
pub(super) fn unsupported(spec: &WorkspaceSpec) -> Option<String> {
    let field = first_unsupported(spec)?;
    Some(format!(
        "spec.{field} is not for a process workspace: it has no pod, and its program stays in its folder"
    ))
}

fn first_unsupported(spec: &WorkspaceSpec) -> Option<String> {
    if !spec.init_containers.is_empty() {
        return Some("initContainers".to_owned());
    }
    let pod = spec
        .pod_template
        .as_ref()
        .and_then(|template| template.spec.as_ref())?;
    pod_field(pod).map(|field| format!("podTemplate.spec.{field}"))
}

fn pod_field(pod: &JsonObject) -> Option<String> {
    pod.iter().find_map(|(name, value)| match name.as_str() {
        "containers" => containers(value),
        "volumes" => volumes(value),
        other => Some(other.to_owned()),
    })
}

fn containers(containers: &Value) -> Option<String> {
    let containers = containers.as_array().into_iter().flatten().enumerate();
    containers
        .filter_map(|(index, container)| Some((index, container.as_object()?)))
        .find_map(|(index, container)| {
            if container.get("name").is_none_or(|name| name != "pulumi") {
                return Some(format!("containers[{index}]"));
            }
            let known = ["name", "volumeMounts", "resources"];
            let other = container
                .keys()
                .find(|key| !known.contains(&key.as_str()))?;
            Some(format!("containers[{index}].{other}"))
        })
}

fn volumes(volumes: &Value) -> Option<String> {
    let volumes = volumes.as_array().into_iter().flatten().enumerate();
    volumes
        .filter_map(|(index, volume)| Some((index, volume.as_object()?)))
        .find_map(|(index, volume)| {
            let known = ["name", "secret", "configMap"];
            let other = volume.keys().find(|key| !known.contains(&key.as_str()));
            let field = other.cloned().or_else(|| inside_volume(volume))?;
            Some(format!("volumes[{index}].{field}"))
        })
}

/// A Secret or a ConfigMap is written as it is: picking keys and modes is for pods.
fn inside_volume(volume: &JsonObject) -> Option<String> {
    let sources = [("secret", "secretName"), ("configMap", "name")];
    sources.into_iter().find_map(|(source, name)| {
        let fields = volume.get(source)?.as_object()?;
        let other = fields.keys().find(|key| *key != name)?;
        Some(format!("{source}.{other}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(spec: Value) -> Option<String> {
        unsupported(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn what_only_a_pod_can_be_is_named() {
        for (spec, field) in [
            (
                json!({ "initContainers": [{ "name": "a" }] }),
                "spec.initContainers ",
            ),
            (
                json!({ "podTemplate": { "spec": { "volumes": [{ "name": "v", "secret": { "secretName": "s", "items": [] } }] } } }),
                "spec.podTemplate.spec.volumes[0].secret.items ",
            ),
            (
                json!({ "podTemplate": { "spec": { "nodeSelector": {} } } }),
                "spec.podTemplate.spec.nodeSelector ",
            ),
            (
                json!({ "podTemplate": { "spec": { "containers": [{ "name": "pulumi" }, { "name": "b" }] } } }),
                "spec.podTemplate.spec.containers[1] ",
            ),
            (
                json!({ "podTemplate": { "spec": { "containers": [{ "name": "pulumi", "command": ["x"] }] } } }),
                "spec.podTemplate.spec.containers[0].command ",
            ),
            (
                json!({ "podTemplate": { "spec": { "volumes": [{ "name": "v", "hostPath": {} }] } } }),
                "spec.podTemplate.spec.volumes[0].hostPath ",
            ),
        ] {
            let message = message(spec).unwrap();
            assert!(message.starts_with(field), "{message}");
        }
    }

    #[test]
    fn what_the_operator_itself_asks_for_is_supported() {
        let spec = json!({ "podTemplate": { "spec": {
            "containers": [{ "name": "pulumi", "volumeMounts": [{ "name": "secret-a", "mountPath": "/x" }] }],
            "volumes": [{ "name": "secret-a", "secret": { "secretName": "a" } }, { "name": "c", "configMap": { "name": "c" } }],
        } } });
        assert_eq!(message(spec), None);
        assert_eq!(message(json!({})), None);
    }
}
