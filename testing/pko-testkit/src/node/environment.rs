//! The environment variables of a container, resolved as the kubelet does.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource, Pod};
use kube::ResourceExt;

use super::expand::expand;
use super::references::{ObjectData, Objects, ReferenceKind};

pub(super) type Variables = BTreeMap<String, String>;

/// The sources of a container's variables.
pub(super) struct EnvResolver<'a> {
    pub(super) pod: &'a Pod,
    pub(super) address: Ipv4Addr,
    pub(super) node: &'a str,
    pub(super) objects: &'a Objects,
}

impl EnvResolver<'_> {
    /// The variables, or the kubelet's message about a missing source.
    pub(super) fn variables(&self, container: &Container) -> Result<Variables, String> {
        let mut variables = Variables::new();
        for source in container.env_from.iter().flatten() {
            variables.extend(self.all_of(source)?);
        }
        for variable in container.env.iter().flatten() {
            if let Some(value) = self.value(variable, &variables)? {
                variables.insert(variable.name.clone(), value);
            }
        }
        Ok(variables)
    }

    fn all_of(&self, source: &EnvFromSource) -> Result<Variables, String> {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let mut all = ObjectData::new();
        if let Some(secret) = &source.secret_ref {
            let values =
                self.objects
                    .values(ReferenceKind::Secret, &secret.name, secret.optional)?;
            all.extend(values.into_iter().flatten().map(owned));
        }
        if let Some(map) = &source.config_map_ref {
            let values = self
                .objects
                .values(ReferenceKind::ConfigMap, &map.name, map.optional)?;
            all.extend(values.into_iter().flatten().map(owned));
        }
        let named = all.into_iter();
        Ok(named
            .map(|(key, value)| (format!("{prefix}{key}"), text(&value)))
            .collect())
    }

    fn value(&self, variable: &EnvVar, before: &Variables) -> Result<Option<String>, String> {
        if let Some(source) = &variable.value_from {
            return self.value_from(source);
        }
        let value = variable.value.as_deref().unwrap_or_default();
        Ok(Some(expand(value, |name| before.get(name).cloned())))
    }

    fn value_from(&self, source: &EnvVarSource) -> Result<Option<String>, String> {
        if let Some(key) = &source.secret_key_ref {
            let value =
                self.objects
                    .value(ReferenceKind::Secret, &key.name, &key.key, key.optional)?;
            return Ok(value.map(text));
        }
        if let Some(key) = &source.config_map_key_ref {
            let value =
                self.objects
                    .value(ReferenceKind::ConfigMap, &key.name, &key.key, key.optional)?;
            return Ok(value.map(text));
        }
        match &source.field_ref {
            Some(field) => self.field(&field.field_path).map(Some),
            None => Err("the fake node does not support this source of a variable".to_owned()),
        }
    }

    fn field(&self, path: &str) -> Result<String, String> {
        let pod = self.pod;
        let account = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.service_account_name.clone());
        let value = match path {
            "metadata.name" => pod.name_any(),
            "metadata.namespace" => pod.namespace().unwrap_or_default(),
            "metadata.uid" => pod.uid().unwrap_or_default(),
            "spec.nodeName" => self.node.to_owned(),
            "spec.serviceAccountName" => account.unwrap_or_default(),
            "status.podIP" | "status.podIPs" => self.address.to_string(),
            "status.hostIP" | "status.hostIPs" => Ipv4Addr::LOCALHOST.to_string(),
            _ => return self.entry(path),
        };
        Ok(value)
    }

    /// Such as `metadata.labels['app']`.
    fn entry(&self, path: &str) -> Result<String, String> {
        let entry = path
            .strip_suffix("']")
            .and_then(|path| path.split_once("['"));
        let (map, key) = match entry {
            Some(("metadata.labels", key)) => (self.pod.labels(), key),
            Some(("metadata.annotations", key)) => (self.pod.annotations(), key),
            _ => return Err(format!("unsupported fieldPath: {path}")),
        };
        Ok(map.get(key).cloned().unwrap_or_default())
    }
}

fn owned((key, value): (&String, &Vec<u8>)) -> (String, Vec<u8>) {
    (key.clone(), value.clone())
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn variables(container: Value) -> Result<Variables, String> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "demo-0", "namespace": "team", "uid": "u-1",
                "labels": {"app": "demo"}, "annotations": {"a/b": "c"},
            },
            "spec": {"serviceAccountName": "runner", "containers": []},
        }))
        .unwrap();
        let mut objects = Objects {
            namespace: "team".to_owned(),
            ..Objects::default()
        };
        for (kind, name, value) in [
            (ReferenceKind::Secret, "s", "hush"),
            (ReferenceKind::ConfigMap, "m", "loud"),
        ] {
            let values = ObjectData::from([("KEY".to_owned(), value.into())]);
            objects.found.insert((kind, name.to_owned()), values);
        }
        let surroundings = EnvResolver {
            pod: &pod,
            address: Ipv4Addr::new(127, 1, 2, 3),
            node: "node",
            objects: &objects,
        };
        surroundings.variables(&serde_json::from_value(container).unwrap())
    }

    #[test]
    fn variable_sources_are_resolved() {
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let found = variables(json!({
            "name": "c",
            "envFrom": [
                {"secretRef": {"name": "s"}},
                {"prefix": "MAP_", "configMapRef": {"name": "m"}},
                {"secretRef": {"name": "gone", "optional": true}},
            ],
            "env": [
                {"name": "LITERAL", "value": "$(KEY)-$(LATER)"},
                {"name": "LATER", "value": "x"},
                {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "KEY"}}},
                {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "KEY"}}},
                {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "x", "optional": true}}},
                field("NAME", "metadata.name"), field("NAMESPACE", "metadata.namespace"),
                field("UID", "metadata.uid"), field("ACCOUNT", "spec.serviceAccountName"),
                field("NODE", "spec.nodeName"), field("ADDRESS", "status.podIP"),
                field("APP", "metadata.labels['app']"), field("NOTE", "metadata.annotations['a/b']"),
            ],
        }))
        .unwrap();
        let expected = [
            ("ACCOUNT", "runner"),
            ("ADDRESS", "127.1.2.3"),
            ("APP", "demo"),
            ("KEY", "hush"),
            ("LATER", "x"),
            ("LITERAL", "hush-$(LATER)"),
            ("MAP", "loud"),
            ("MAP_KEY", "loud"),
            ("NAME", "demo-0"),
            ("NAMESPACE", "team"),
            ("NODE", "node"),
            ("NOTE", "c"),
            ("SECRET", "hush"),
            ("UID", "u-1"),
        ];
        let found: Vec<(&str, &str)> = found.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn missing_variable_source_is_an_error() {
        let table = [
            (
                json!({"name": "c", "envFrom": [{"configMapRef": {"name": "gone"}}]}),
                "configmap \"gone\" not found",
            ),
            (
                json!({"name": "c", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "x"}}}]}),
                "couldn't find key x in Secret team/s",
            ),
            (
                json!({"name": "c", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}),
                "unsupported fieldPath: spec.x",
            ),
        ];
        for (container, message) in table {
            assert_eq!(variables(container).unwrap_err(), message);
        }
    }
}
