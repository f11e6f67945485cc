//! The Secrets and ConfigMaps that a pod refers to, and their values; pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec, Secret};

/// Of which kind an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReferenceKind {
    Secret,
    ConfigMap,
}

impl ReferenceKind {
    fn name(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

pub(super) type ObjectData = BTreeMap<String, Vec<u8>>;

/// The referenced objects that exist.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) namespace: String,
    pub(super) found: BTreeMap<(ReferenceKind, String), ObjectData>,
}

impl Objects {
    /// All values of an object; nothing if it may be missing and is, the kubelet's message if it
    /// must not.
    pub(super) fn values(
        &self,
        kind: ReferenceKind,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<&ObjectData>, String> {
        match self.found.get(&(kind, name.to_owned())) {
            None if optional != Some(true) => {
                let kind = kind.name().to_ascii_lowercase();
                Err(format!("{kind} \"{name}\" not found"))
            }
            found => Ok(found),
        }
    }

    /// One value of an object, under the same rules.
    pub(super) fn value(
        &self,
        kind: ReferenceKind,
        name: &str,
        key: &str,
        optional: Option<bool>,
    ) -> Result<Option<&[u8]>, String> {
        let values = self.values(kind, name, optional)?;
        match values.and_then(|values| values.get(key)) {
            None if optional != Some(true) => Err(format!(
                "couldn't find key {key} in {} {}/{name}",
                kind.name(),
                self.namespace
            )),
            value => Ok(value.map(Vec::as_slice)),
        }
    }
}

/// The values of a Secret.
pub(super) fn secret_data(secret: Secret) -> ObjectData {
    let values = secret.data.unwrap_or_default();
    values
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect()
}

/// The values of a ConfigMap.
pub(super) fn config_map_data(map: ConfigMap) -> ObjectData {
    let texts = map.data.unwrap_or_default().into_iter();
    let texts = texts.map(|(key, text)| (key, text.into_bytes()));
    let bytes = map.binary_data.unwrap_or_default().into_iter();
    texts
        .chain(bytes.map(|(key, value)| (key, value.0)))
        .collect()
}

/// The references of a container's variables.
pub(super) fn container_references(container: &Container) -> BTreeSet<(ReferenceKind, String)> {
    let mut references = BTreeSet::new();
    for source in container.env_from.iter().flatten() {
        let secret = source
            .secret_ref
            .iter()
            .map(|it| (ReferenceKind::Secret, &it.name));
        let map = source.config_map_ref.iter();
        let map = map.map(|it| (ReferenceKind::ConfigMap, &it.name));
        references.extend(secret.chain(map).map(|(kind, name)| (kind, name.clone())));
    }
    let sources = container.env.iter().flatten();
    for source in sources.filter_map(|variable| variable.value_from.as_ref()) {
        let secret = source.secret_key_ref.iter();
        let secret = secret.map(|it| (ReferenceKind::Secret, &it.name));
        let map = source.config_map_key_ref.iter();
        let map = map.map(|it| (ReferenceKind::ConfigMap, &it.name));
        references.extend(secret.chain(map).map(|(kind, name)| (kind, name.clone())));
    }
    references
}

/// The references of a pod's volumes.
pub(super) fn volume_references(spec: &PodSpec) -> BTreeSet<(ReferenceKind, String)> {
    let volumes = spec.volumes.iter().flatten();
    let references = volumes.filter_map(|volume| {
        let secret = volume.secret.as_ref().and_then(|it| it.secret_name.clone());
        let map = volume.config_map.as_ref().map(|it| it.name.clone());
        let secret = secret.map(|name| (ReferenceKind::Secret, name));
        secret.or_else(|| map.map(|name| (ReferenceKind::ConfigMap, name)))
    });
    references.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_reference_error_matches_kubelet() {
        let mut objects = Objects {
            namespace: "team".to_owned(),
            ..Objects::default()
        };
        let values = ObjectData::from([("there".to_owned(), b"value".to_vec())]);
        objects
            .found
            .insert((ReferenceKind::Secret, "s".to_owned()), values);
        let value = |name, key, optional| objects.value(ReferenceKind::Secret, name, key, optional);
        assert_eq!(value("s", "there", None), Ok(Some(&b"value"[..])));
        let missing = Err("couldn't find key gone in Secret team/s".to_owned());
        assert_eq!(value("s", "gone", None), missing);
        assert_eq!(value("s", "gone", Some(true)), Ok(None));
        let missing = Err("secret \"t\" not found".to_owned());
        assert_eq!(value("t", "there", Some(false)), missing);
        assert_eq!(value("t", "there", Some(true)), Ok(None));
        let missing = objects.value(ReferenceKind::ConfigMap, "m", "k", None);
        assert_eq!(missing, Err("configmap \"m\" not found".to_owned()));
    }

    #[test]
    fn container_and_volume_references_are_found() {
        let container: Container = serde_json::from_value(json!({
            "name": "c",
            "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}],
            "env": [
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}},
                {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "d", "key": "k"}}},
                {"name": "E", "value": "literal"},
            ],
        }))
        .unwrap();
        let spec: PodSpec = serde_json::from_value(json!({
            "containers": [],
            "volumes": [
                {"name": "x", "emptyDir": {}},
                {"name": "y", "secret": {"secretName": "e"}},
                {"name": "z", "configMap": {"name": "f"}},
            ],
        }))
        .unwrap();
        let names = |references: BTreeSet<(ReferenceKind, String)>| -> Vec<String> {
            references.into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(
            names(container_references(&container)),
            ["a", "c", "b", "d"]
        );
        assert_eq!(names(volume_references(&spec)), ["e", "f"]);
    }
}
