//! What a change of the provider's own configuration means. Reads the kubeconfigs that it names, if they are files.
//!
//! A cluster has no identity of its own, so the entry of the active cluster in the kubeconfig stands for it: where that
//! changes, what was there before is taken to be elsewhere, and is made anew. Who knows better says so with
//! `clusterIdentifier`.

use kube::config::Kubeconfig;
use pulumi_engine_model::property::{Properties, Property};
use serde_json::Value;

use super::cluster;
use crate::{ChangeKind, Difference, changed};

const IDENTIFIER: &str = "clusterIdentifier";
/// What says which cluster it is.
const PLACES: [&str; 3] = ["kubeconfig", "context", "cluster"];

/// Compares two configurations.
pub(super) fn difference(old: &Properties, new: &Properties) -> Difference {
    let mut difference = changed(old, new);
    let anew = |difference: &mut Difference, key: &str| {
        let key = key.to_owned();
        difference.changes.insert(key, ChangeKind::Replace);
    };
    match (given(old, IDENTIFIER), given(new, IDENTIFIER)) {
        (Some(before), Some(now)) if before != now => anew(&mut difference, IDENTIFIER),
        // it is the same cluster, wherever it is by now
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

fn given(inputs: &Properties, key: &str) -> Option<Property> {
    let value = inputs.get(key)?.opened().0;
    (value != Property::Null).then_some(value)
}

fn text(inputs: &Properties, key: &str) -> Option<String> {
    match given(inputs, key) {
        Some(Property::String(text)) => Some(text),
        _ => None,
    }
}

/// The entry of the cluster that a configuration leads to.
fn active_cluster(inputs: &Properties) -> Option<Value> {
    let kubeconfig = match given(inputs, PLACES[0])? {
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
        let told = difference.changes.iter();
        let told: Vec<_> = told.map(|(key, kind)| format!("{key} {kind:?}")).collect();
        told.join(", ")
    }

    #[test]
    fn another_cluster_makes_everything_anew_and_nothing_else_does() {
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
    fn a_cluster_that_is_not_known_yet_may_be_another() {
        let old = Properties::new();
        let new = Properties::from([("kubeconfig".to_owned(), Property::Unknown)]);
        assert_eq!(difference(&old, &new).replace_keys(), ["kubeconfig"]);
    }
}
