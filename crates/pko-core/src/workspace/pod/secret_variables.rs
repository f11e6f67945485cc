//! Passes the names of variables that come from Secrets to the agent, so that it redacts their
//! values.
//!
//! The keys of a whole Secret (`envFrom`) are unknown here, so that Secret is mounted and the agent
//! reads the names of its files. Other users cannot read the files.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{PULUMI_CONTAINER, container_name, containers::FETCH, put};

/// The variable that the agent reads.
pub const SECRET_VARIABLES: &str = "PKO_SECRET_VARIABLES";
/// The prefix of the volumes' names.
const VOLUME: &str = "pko-secret-keys";
const FOLDER: &str = "/run/pko/secret-keys";
/// Only the owner, root, may read.
const MODE: i32 = 0o400;

/// The variables of one container.
#[derive(Default)]
struct SecretVariables {
    names: BTreeSet<String>,
    /// The prefixes and names of whole Secrets.
    whole: BTreeSet<(String, String)>,
}

/// Names the variables of the agent's containers in the pod's spec.
pub(super) fn name_all(spec: &mut Value) {
    let mut mounted = BTreeSet::new();
    for list in ["initContainers", "containers"] {
        let containers = spec.get(list).and_then(Value::as_array);
        for container in containers.into_iter().flatten().filter(|one| is_agent(one)) {
            let whole = SecretVariables::of(container).whole;
            mounted.extend(whole.into_iter().map(|(_, secret)| secret));
        }
    }
    let mounted: Vec<String> = mounted.into_iter().collect();
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|one| is_agent(one)) {
            name(container, &mounted);
        }
    }
    append(spec, "volumes", mounted.iter().enumerate().map(volume));
}

fn is_agent(container: &Value) -> bool {
    [PULUMI_CONTAINER, FETCH].contains(&container_name(container))
}

fn name(container: &mut Value, mounted: &[String]) {
    let variables = SecretVariables::of(container);
    if variables.names.is_empty() && variables.whole.is_empty() {
        return;
    }
    let place = |secret: &String| mounted.iter().position(|name| name == secret);
    let keys: Vec<Value> = variables
        .whole
        .iter()
        .filter_map(|(prefix, secret)| {
            Some(json!({"prefix": prefix, "folder": folder(place(secret)?)}))
        })
        .collect();
    let text = json!({"names": variables.names, "keys": keys}).to_string();
    // Kubernetes would expand references to variables.
    let text = text.replace("$(", "$$(");
    remove(container, "env", SECRET_VARIABLES);
    let variable = json!({"name": SECRET_VARIABLES, "value": text});
    append(container, "env", [variable].into_iter());
    let secrets: BTreeSet<&String> = variables.whole.iter().map(|(_, secret)| secret).collect();
    let mounts = secrets.into_iter().filter_map(place).map(mount);
    append(container, "volumeMounts", mounts);
}

impl SecretVariables {
    fn of(container: &Value) -> Self {
        let items = |list: &str| {
            container
                .get(list)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        let text =
            |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_secret = |variable: &&Value| {
            let from = variable.pointer("/valueFrom/secretKeyRef");
            from.is_some_and(|from| !from.is_null())
        };
        let names = items("env")
            .filter(is_secret)
            .map(|variable| text(variable.get("name")));
        let whole = items("envFrom").map(|source| {
            (
                text(source.get("prefix")),
                text(source.pointer("/secretRef/name")),
            )
        });
        Self {
            names: names.collect(),
            whole: whole.filter(|(_, secret)| !secret.is_empty()).collect(),
        }
    }
}

fn volume((place, secret): (usize, &String)) -> Value {
    json!({
        "name": format!("{VOLUME}-{place}"),
        // The variables already report a missing Secret.
        "secret": {"secretName": secret, "optional": true, "defaultMode": MODE},
    })
}

fn mount(place: usize) -> Value {
    json!({"name": format!("{VOLUME}-{place}"), "mountPath": folder(place), "readOnly": true})
}

fn folder(place: usize) -> String {
    format!("{FOLDER}/{place}")
}

fn append(object: &mut Value, list: &str, new: impl Iterator<Item = Value>) {
    let items = object.get(list).and_then(Value::as_array);
    let mut items = items.cloned().unwrap_or_default();
    let before = items.len();
    items.extend(new);
    if items.len() > before {
        put(object, list, items);
    }
}

fn remove(object: &mut Value, list: &str, name: &str) {
    if let Some(Value::Array(items)) = object.get_mut(list) {
        items.retain(|item| container_name(item) != name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(spec: &mut Value) -> Value {
        name_all(spec);
        let env = spec.pointer("/containers/0/env").and_then(Value::as_array);
        let own = env
            .into_iter()
            .flatten()
            .find(|one| container_name(one) == SECRET_VARIABLES);
        let text = own.and_then(|one| one["value"].as_str());
        text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
    }

    fn secret(name: &str) -> Value {
        json!({"name": name, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})
    }

    #[test]
    fn pod_without_secrets_is_unchanged() {
        let mut spec = json!({"containers": [
            {"name": "pulumi", "env": [{"name": "A", "value": "1"}], "envFrom": [{"configMapRef": {"name": "c"}}]},
            {"name": "side", "env": [secret("B")]},
        ]});
        let before = spec.clone();
        assert_eq!(named(&mut spec), Value::Null);
        assert_eq!(spec, before);
    }

    #[test]
    fn secret_variables_are_named() {
        let mut spec = json!({"containers": [{"name": "pulumi", "env": [
            {"name": "A", "value": "1"}, secret("REGION"), secret("$(X)"),
            {"name": SECRET_VARIABLES, "value": "of the user"},
        ]}]});
        name_all(&mut spec);
        let env = spec["containers"][0]["env"].as_array().unwrap();
        let own: Vec<_> = env
            .iter()
            .filter(|one| container_name(one) == SECRET_VARIABLES)
            .collect();
        let expected = r#"{"keys":[],"names":["$$(X)","REGION"]}"#;
        assert_eq!(own, [&json!({"name": SECRET_VARIABLES, "value": expected})]);
        assert_eq!(spec.get("volumes"), None);
    }

    #[test]
    fn whole_secrets_are_mounted_for_their_keys() {
        let from =
            |prefix: &str, name: &str| json!({"prefix": prefix, "secretRef": {"name": name}});
        let mut spec = json!({
            "initContainers": [{"name": "fetch", "envFrom": [from("", "proxy")]}],
            "containers": [{"name": "pulumi", "envFrom": [from("", "a"), from("X_", "a"), from("", "b")]}],
            "volumes": [{"name": "share"}],
        });
        let named = named(&mut spec);
        let expected = json!({"names": [], "keys": [
            {"prefix": "", "folder": "/run/pko/secret-keys/0"},
            {"prefix": "", "folder": "/run/pko/secret-keys/1"},
            {"prefix": "X_", "folder": "/run/pko/secret-keys/0"},
        ]});
        assert_eq!(named, expected);
        let mounts = |container: &Value| container["volumeMounts"].as_array().map(Vec::len);
        assert_eq!(mounts(&spec["containers"][0]), Some(2));
        assert_eq!(mounts(&spec["initContainers"][0]), Some(1));
        let volumes = spec["volumes"].as_array().unwrap();
        let secrets: Vec<_> = volumes
            .iter()
            .skip(1)
            .map(|one| &one["secret"]["secretName"])
            .collect();
        assert_eq!(secrets, ["a", "b", "proxy"]);
        assert!(
            volumes
                .iter()
                .skip(1)
                .all(|one| one["secret"]["optional"] == true)
        );
    }
}
