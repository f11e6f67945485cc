//! The diff of the provider's own configuration. Reads kubeconfig files.
//!
//! A cluster has no identity, so the active cluster's entry in the kubeconfig stands for it. If the
//! entry changes, all resources are replaced. `clusterIdentifier` overrides this.

use kube::config::Kubeconfig;
use pulumi_engine_model::property::{Properties, Property};
use serde_json::Value;

use super::cluster;
use crate::{ChangeKind, Difference, diff_top_level};

const IDENTIFIER: &str = "clusterIdentifier";
/// The inputs that identify the cluster.
const PLACES: [&str; 3] = ["kubeconfig", "context", "cluster"];

/// Compares two configurations.
pub(super) fn difference(old: &Properties, new: &Properties) -> Difference {
    let mut difference = diff_top_level(old, new);
    let anew = |difference: &mut Difference, key: &str| {
        let key = key.to_owned();
        difference.changes.insert(key, ChangeKind::Replace);
    };
    match (input(old, IDENTIFIER), input(new, IDENTIFIER)) {
        (Some(before), Some(now)) if before != now => anew(&mut difference, IDENTIFIER),
        // the same cluster at another address
        (Some(_), Some(_)) => return difference,
        _ => {}
    }
    let unknown = |key: &&&str| new.get(**key).is_some_and(Property::contains_unknown);
    if let Some(key) = PLACES.iter().find(unknown) {
        anew(&mut difference, key);
        return difference;
    }
    if let (Some(before), Some(now)) = (active_cluster(old), active_cluster(new))
        && before != now
    {
        for key in PLACES {
            if difference.changes.contains_key(key) {
                anew(&mut difference, key);
            }
        }
    }
    difference
}

fn input(inputs: &Properties, key: &str) -> Option<Property> {
    let value = inputs.get(key)?.opened().0;
    (value != Property::Null).then_some(value)
}

fn text(inputs: &Properties, key: &str) -> Option<String> {
    match input(inputs, key) {
        Some(Property::String(text)) => Some(text),
        _ => None,
    }
}

/// The kubeconfig entry of the active cluster.
fn active_cluster(inputs: &Properties) -> Option<Value> {
    let kubeconfig = match input(inputs, PLACES[0])? {
        Property::String(text) => text,
        map => map.revealed().to_string(),
    };
    let kubeconfig: Kubeconfig = cluster::read_kubeconfig(&kubeconfig).ok()?;
    let context = text(inputs, "context").or(kubeconfig.current_context)?;
    let context = kubeconfig
        .contexts
        .into_iter()
        .find(|one| one.name == context)?;
    let name = text(inputs, "cluster").or(context.context.map(|context| context.cluster))?;
    let cluster = kubeconfig
        .clusters
        .into_iter()
        .find(|one| one.name == name)?;
    serde_json::to_value(cluster.cluster).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(cluster: &str, user: &str) -> Value {
        json!({
            "kind": "Config", "apiVersion": "v1", "current-context": "here",
            "contexts": [
                {"name": "here", "context": {"cluster": "near", "user": "me"}},
                {"name": "there", "context": {"cluster": "far", "user": "me"}},
            ],
            "clusters": [
                {"name": "near", "cluster": {"server": cluster}},
                {"name": "far", "cluster": {"server": "https://far"}},
            ],
            "users": [{"name": "me", "user": {"token": user}}],
        })
    }

    fn compare(old: Value, new: Value) -> String {
        let inputs = |value| match Property::from_json(value) {
            Property::Object(entries) => entries,
            other => panic!("{other:?}"),
        };
        let difference = difference(&inputs(old), &inputs(new));
        let changes = difference.changes.iter();
        let changes: Vec<_> = changes
            .map(|(key, kind)| format!("{key} {kind:?}"))
            .collect();
        changes.join(", ")
    }

    #[test]
    fn config_diff_replaces_for_other_cluster_only() {
        let text = |value: Value| json!(value.to_string());
        let (one, two) = (config("https://a", "t"), config("https://b", "t"));
        let token = config("https://a", "u");
        for (old, new, expected) in [
            (json!({}), json!({}), ""),
            (json!({}), json!({"namespace": "n"}), "namespace Update"),
            (
                json!({"kubeconfig": one}),
                json!({"kubeconfig": token}),
                "kubeconfig Update",
            ),
            (
                json!({"kubeconfig": one}),
                json!({"kubeconfig": two}),
                "kubeconfig Replace",
            ),
            (
                json!({"kubeconfig": text(one.clone())}),
                json!({"kubeconfig": text(two.clone())}),
                "kubeconfig Replace",
            ),
            (
                json!({"kubeconfig": one}),
                json!({"kubeconfig": one, "context": "there"}),
                "context Replace",
            ),
            (
                json!({"kubeconfig": one}),
                json!({"kubeconfig": one, "cluster": "far"}),
                "cluster Replace",
            ),
            (
                json!({"kubeconfig": one}),
                json!({"kubeconfig": one, "context": "here"}),
                "context Update",
            ),
            (json!({}), json!({"kubeconfig": two}), "kubeconfig Update"),
            (
                json!({"kubeconfig": one, "clusterIdentifier": "i"}),
                json!({"kubeconfig": two, "clusterIdentifier": "i"}),
                "kubeconfig Update",
            ),
            (
                json!({"clusterIdentifier": "i"}),
                json!({"clusterIdentifier": "j"}),
                "clusterIdentifier Replace",
            ),
            (
                json!({}),
                json!({"clusterIdentifier": "j"}),
                "clusterIdentifier Update",
            ),
        ] {
            assert_eq!(compare(old.clone(), new.clone()), expected, "{old} {new}");
        }
    }

    #[test]
    fn config_diff_of_unknown_cluster_replaces() {
        let old = Properties::new();
        let new = Properties::from([("kubeconfig".to_owned(), Property::Unknown)]);
        assert_eq!(difference(&old, &new).replace_keys(), ["kubeconfig"]);
    }
}
