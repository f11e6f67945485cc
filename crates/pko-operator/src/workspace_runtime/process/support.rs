//! Rejects fields that a process workspace does not support.

use std::path::Path;

use pko_api::{JsonObject, auto::v1alpha1::WorkspaceSpec};
use serde_json::Value;

/// The supported volumes, and the supported field of each.
const VOLUMES: [(&str, &str); 4] = [
    ("secret", "secretName"),
    ("configMap", "name"),
    ("persistentVolumeClaim", "claimName"),
    ("emptyDir", ""),
];

/// The first unsupported field.
pub(super) fn unsupported(spec: &WorkspaceSpec) -> Option<String> {
    if let Some(field) = first_unsupported(spec) {
        return Some(format!(
            "spec.{field} is not supported by process workspaces: they have no pod, and the program stays in its folder"
        ));
    }
    let pod = pod(spec)?;
    let problem = claims(pod).or_else(|| mounts(pod))?;
    Some(format!("spec.podTemplate.spec.{problem}"))
}

fn pod(spec: &WorkspaceSpec) -> Option<&JsonObject> {
    let template = spec.pod_template.as_ref();
    template.and_then(|template| template.spec.as_ref())
}

fn first_unsupported(spec: &WorkspaceSpec) -> Option<String> {
    if !spec.init_containers.is_empty() {
        return Some("initContainers".to_owned());
    }
    pod_field(pod(spec)?).map(|field| format!("podTemplate.spec.{field}"))
}

fn pod_field(pod: &JsonObject) -> Option<String> {
    pod.iter().find_map(|(name, value)| match name.as_str() {
        "containers" => containers(value),
        "volumes" => volumes(value),
        "securityContext" => security_context(value),
        other => Some(other.to_owned()),
    })
}

/// A process runs as the manager's user, which owns its volumes: it needs no `fsGroup` to write to
/// them.
fn security_context(context: &Value) -> Option<String> {
    let known = ["fsGroup", "fsGroupChangePolicy"];
    let other = other_field(context.as_object()?, &known)?;
    Some(format!("securityContext.{other}"))
}

fn other_field<'field>(fields: &'field JsonObject, known: &[&str]) -> Option<&'field str> {
    let mut names = fields.keys().map(String::as_str);
    names.find(|name| !known.contains(name))
}

/// With their indexes.
fn objects(list: &Value) -> impl Iterator<Item = (usize, &JsonObject)> {
    let items = list.as_array().into_iter().flatten().enumerate();
    items.filter_map(|(index, item)| Some((index, item.as_object()?)))
}

fn containers(containers: &Value) -> Option<String> {
    objects(containers).find_map(|(index, container)| {
        if container.get("name").is_none_or(|name| name != "pulumi") {
            return Some(format!("containers[{index}]"));
        }
        let known = ["name", "volumeMounts", "resources"];
        let other = other_field(container, &known);
        let other = other.map(str::to_owned).or_else(|| {
            objects(container.get("volumeMounts")?).find_map(|(mount, fields)| {
                let other = other_field(fields, &["name", "mountPath", "readOnly"])?;
                Some(format!("volumeMounts[{mount}].{other}"))
            })
        })?;
        Some(format!("containers[{index}].{other}"))
    })
}

fn volumes(volumes: &Value) -> Option<String> {
    objects(volumes).find_map(|(index, volume)| {
        let known = VOLUMES.map(|(source, _)| source);
        let known: Vec<&str> = known.into_iter().chain(["name"]).collect();
        let other = other_field(volume, &known).map(str::to_owned);
        let field = other.or_else(|| inside_volume(volume))?;
        Some(format!("volumes[{index}].{field}"))
    })
}

/// Selecting keys, modes and sizes needs a pod.
fn inside_volume(volume: &JsonObject) -> Option<String> {
    VOLUMES.into_iter().find_map(|(source, name)| {
        let other = other_field(volume.get(source)?.as_object()?, &[name])?;
        Some(format!("{source}.{other}"))
    })
}

/// The name of a claim becomes a folder, so it must be a valid object name.
fn claims(pod: &JsonObject) -> Option<String> {
    objects(pod.get("volumes")?).find_map(|(index, volume)| {
        let claim = claim_name(volume)?;
        (!is_object_name(claim)).then(|| {
            format!(
                "volumes[{index}].persistentVolumeClaim.claimName: {claim:?} is not a valid object name"
            )
        })
    })
}

fn claim_name(volume: &JsonObject) -> Option<&str> {
    volume
        .get("persistentVolumeClaim")?
        .get("claimName")?
        .as_str()
}

fn is_object_name(name: &str) -> bool {
    let is_usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.chars().all(is_usable)
}

/// A mount inside of a claim would be written into the claim.
fn mounts(pod: &JsonObject) -> Option<String> {
    let volumes = || pod.get("volumes").into_iter().flat_map(objects);
    let is_claim = |mount: &JsonObject| {
        volumes().any(|(_, volume)| {
            volume.get("name") == mount.get("name") && claim_name(volume).is_some()
        })
    };
    let containers = objects(pod.get("containers")?);
    let mounts: Vec<(usize, usize, &JsonObject)> = containers
        .flat_map(|(container, fields)| {
            let mounts = fields.get("volumeMounts").into_iter().flat_map(objects);
            mounts.map(move |(mount, fields)| (container, mount, fields))
        })
        .collect();
    let path = |mount: &JsonObject| Some(mount.get("mountPath")?.as_str()?.to_owned());
    mounts.iter().find_map(|(container, number, mount)| {
        let field = format!("containers[{container}].volumeMounts[{number}]");
        let own = path(mount).unwrap_or_default();
        if !own.starts_with('/') || Path::new(&own) == Path::new("/") {
            return Some(format!(
                "{field}.mountPath: {own:?} is not the absolute path of a folder"
            ));
        }
        if is_claim(mount) && mount.get("readOnly").is_some_and(|it| *it == true) {
            return Some(format!(
                "{field}.readOnly is not supported by process workspaces, which can write to their claims"
            ));
        }
        let around = mounts.iter().filter(|(_, _, other)| is_claim(other));
        let mut around = around.filter_map(|(_, _, other)| path(other));
        let around = around.find(|other| *other != own && Path::new(&own).starts_with(other))?;
        Some(format!(
            "{field}.mountPath: {own:?} is inside the claim at {around:?}, which process workspaces do not support"
        ))
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
    fn support_rejects_fields_that_need_a_pod() {
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
            (
                json!({ "podTemplate": { "spec": { "volumes": [{ "name": "v", "emptyDir": { "medium": "Memory" } }] } } }),
                "spec.podTemplate.spec.volumes[0].emptyDir.medium ",
            ),
            (
                json!({ "podTemplate": { "spec": { "securityContext": { "fsGroup": 1000, "runAsUser": 7 } } } }),
                "spec.podTemplate.spec.securityContext.runAsUser ",
            ),
            (
                mounted(
                    &json!({ "emptyDir": {} }),
                    &json!({ "mountPath": "/x", "subPath": "y" }),
                ),
                "spec.podTemplate.spec.containers[0].volumeMounts[0].subPath ",
            ),
            (
                mounted(&json!({ "emptyDir": {} }), &json!({ "mountPath": "state" })),
                "spec.podTemplate.spec.containers[0].volumeMounts[0].mountPath: \"state\" is not the absolute path",
            ),
            (
                mounted(&json!({ "emptyDir": {} }), &json!({ "mountPath": "/" })),
                "spec.podTemplate.spec.containers[0].volumeMounts[0].mountPath: \"/\" is not the absolute path",
            ),
            (
                mounted(
                    &claim("state"),
                    &json!({ "mountPath": "/x", "readOnly": true }),
                ),
                "spec.podTemplate.spec.containers[0].volumeMounts[0].readOnly ",
            ),
            (
                mounted(&claim("../../elsewhere"), &json!({ "mountPath": "/x" })),
                "spec.podTemplate.spec.volumes[0].persistentVolumeClaim.claimName: ",
            ),
            (
                json!({ "podTemplate": { "spec": {
                    "containers": [{ "name": "pulumi", "volumeMounts": [
                        { "name": "secret", "mountPath": "/state/keys" }, { "name": "state", "mountPath": "/state" },
                    ] }],
                    "volumes": [
                        { "name": "secret", "secret": { "secretName": "s" } },
                        { "name": "state", "persistentVolumeClaim": { "claimName": "state" } },
                    ],
                } } }),
                "spec.podTemplate.spec.containers[0].volumeMounts[0].mountPath: \"/state/keys\" is inside the claim",
            ),
        ] {
            let message = message(spec).unwrap();
            assert!(message.starts_with(field), "{message}");
        }
    }

    fn claim(name: &str) -> Value {
        json!({ "persistentVolumeClaim": { "claimName": name } })
    }

    fn mounted(volume: &Value, mount: &Value) -> Value {
        let (mut volume, mut mount) = (volume.clone(), mount.clone());
        volume["name"] = json!("v");
        mount["name"] = json!("v");
        json!({ "podTemplate": { "spec": {
            "containers": [{ "name": "pulumi", "volumeMounts": [mount] }], "volumes": [volume],
        } } })
    }

    #[test]
    fn support_covers_what_the_operator_creates() {
        let spec = json!({ "podTemplate": { "spec": {
            "containers": [{ "name": "pulumi", "volumeMounts": [{ "name": "secret-a", "mountPath": "/x" }] }],
            "volumes": [{ "name": "secret-a", "secret": { "secretName": "a" } }, { "name": "c", "configMap": { "name": "c" } }],
        } } });
        assert_eq!(message(spec), None);
        assert_eq!(message(json!({})), None);
    }

    #[test]
    fn support_covers_volumes_for_state() {
        for volume in [claim("hello-state"), json!({ "emptyDir": {} })] {
            let mut spec = mounted(&volume, &json!({ "mountPath": "/state" }));
            spec["podTemplate"]["spec"]["securityContext"] = json!({ "fsGroup": 1000 });
            assert_eq!(message(spec), None);
        }
        let keys = json!({ "secret": { "secretName": "s" } });
        let read_only = json!({ "mountPath": "/keys", "readOnly": true });
        assert_eq!(message(mounted(&keys, &read_only)), None);
    }
}
