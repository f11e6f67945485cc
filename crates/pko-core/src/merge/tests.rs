use proptest::prelude::*;
use serde_json::{Value, json};

use super::{MergeError, MergeSchema, merge};

fn merged(base: Value, patch: &Value) -> Value {
    merge(&MergeSchema::POD_TEMPLATE, base, patch).unwrap()
}

/// Containers with only a name.
fn containers(names: &[&str]) -> Value {
    let items: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    json!({"spec": {"containers": items}})
}

#[test]
fn objects_merge_deeply() {
    let base = json!({
        "metadata": {"labels": {"a": "1", "b": "2"}},
        "spec": {"securityContext": {"runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}}},
    });
    let patch = json!({
        "metadata": {"labels": {"b": "3", "c": "4"}},
        "spec": {"securityContext": {"seccompProfile": {"localhostProfile": "x"}}},
    });
    let expected = json!({
        "metadata": {"labels": {"a": "1", "b": "3", "c": "4"}},
        "spec": {"securityContext": {
            "runAsUser": 1,
            "seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "x"},
        }},
    });
    assert_eq!(merged(base, &patch), expected);
}

#[test]
fn null_removes_a_field() {
    let base = json!({"spec": {"nodeName": "a", "hostname": "b"}});
    let patch =
        json!({"spec": {"nodeName": null, "subdomain": null, "affinity": {"podAffinity": null}}});
    let expected = json!({"spec": {"hostname": "b", "affinity": {}}});
    assert_eq!(merged(base, &patch), expected);
}

#[test]
fn value_of_another_type_replaces() {
    let base = json!({"spec": {"nodeName": "a", "tolerations": [1]}});
    let patch = json!({"spec": {"nodeName": {"b": 1}, "tolerations": "x"}});
    assert_eq!(merged(base, &patch), patch);
}

#[test]
fn lists_without_a_key_are_replaced() {
    let list = |tolerations: Value, command: Value| {
        json!({"spec": {
            "tolerations": tolerations,
            "containers": [{"name": "pulumi", "command": command, "envFrom": command}],
        }})
    };
    let patch = list(json!([{"key": "b"}]), json!(["new"]));
    let base = list(json!([{"key": "a"}, {"key": "c"}]), json!(["old", "older"]));
    assert_eq!(merged(base, &patch), patch);
}

#[test]
fn merged_list_order_is_that_of_kubernetes() {
    let table: [(&[&str], &[&str], &[&str]); 8] = [
        (&["a", "b", "c"], &["z", "b"], &["z", "a", "b", "c"]),
        (&["pulumi", "b"], &["b", "side"], &["pulumi", "b", "side"]),
        (&["pulumi"], &["side"], &["side", "pulumi"]),
        (&["pulumi"], &["side", "pulumi"], &["side", "pulumi"]),
        (&["a", "b"], &["b", "a"], &["b", "a"]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a"], &[], &["a"]),
        (&[], &["b", "a"], &["b", "a"]),
    ];
    for (base, patch, expected) in table {
        let result = merged(containers(base), &containers(patch));
        assert_eq!(result, containers(expected), "{base:?} and {patch:?}");
    }
}

#[test]
fn items_of_the_same_key_merge_by_schema() {
    let base = json!({"spec": {
        "containers": [{
            "name": "pulumi",
            "image": "old",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "volumeMounts": [{"mountPath": "/share", "name": "share"}],
            "ports": [{"containerPort": 50051, "name": "grpc"}],
        }],
        "volumes": [{"name": "share", "emptyDir": {}}],
    }});
    let patch = json!({"spec": {
        "containers": [{
            "name": "pulumi",
            "image": "new",
            "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}],
            "volumeMounts": [{"mountPath": "/share", "readOnly": true}],
            "ports": [{"containerPort": 50051, "protocol": "TCP"}],
        }],
        "volumes": [{"name": "share", "persistentVolumeClaim": {"claimName": "x"}}],
    }});
    let expected = json!({"spec": {
        "containers": [{
            "name": "pulumi",
            "image": "new",
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "value": "3"},
                {"name": "C", "value": "4"},
            ],
            "volumeMounts": [{"mountPath": "/share", "name": "share", "readOnly": true}],
            "ports": [{"containerPort": 50051, "name": "grpc", "protocol": "TCP"}],
        }],
        // The API server rejects two sources, and names the field.
        "volumes": [{"name": "share", "emptyDir": {}, "persistentVolumeClaim": {"claimName": "x"}}],
    }});
    assert_eq!(merged(base, &patch), expected);
}

#[test]
fn plain_value_lists_are_combined() {
    let finalizers = |names: &[&str]| json!({"metadata": {"finalizers": names}});
    let result = merged(finalizers(&["a", "b"]), &finalizers(&["c", "b", "c"]));
    assert_eq!(result, finalizers(&["c", "a", "b"]));
}

#[test]
fn workspace_merges_by_its_own_keys() {
    let base = json!({"spec": {
        "env": [{"name": "A", "value": "1"}],
        "envFrom": [{"secretRef": {"name": "a"}}],
        "podTemplate": {"spec": {"containers": [{"name": "pulumi"}]}},
        "stacks": [{"name": "dev", "create": true, "config": [{"key": "a", "value": 1}]}],
    }});
    let patch = json!({"spec": {
        "env": [{"name": "B", "value": "2"}],
        "envFrom": [],
        "podTemplate": {"spec": {"containers": [{"name": "pulumi", "image": "x"}]}},
        "stacks": [{"name": "dev", "config": [{"key": "b", "value": 2}]}],
    }});
    let expected = json!({"spec": {
        "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}],
        "envFrom": [],
        "podTemplate": {"spec": {"containers": [{"name": "pulumi", "image": "x"}]}},
        "stacks": [{
            "name": "dev",
            "create": true,
            "config": [{"key": "b", "value": 2}, {"key": "a", "value": 1}],
        }],
    }});
    assert_eq!(
        merge(&MergeSchema::WORKSPACE, base, &patch).unwrap(),
        expected
    );
}

#[test]
fn update_lists_are_replaced() {
    let base = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"target": ["x"], "ttl": 1}});
    let patch = json!({"spec": {"target": ["y"]}});
    let expected = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"target": ["y"], "ttl": 1}});
    assert_eq!(merge(&MergeSchema::UPDATE, base, &patch).unwrap(), expected);
}

/// Once, twice and in another order, with lists for which only a linear merge is fast enough.
#[test]
fn long_lists_merge() {
    const ENTRIES: usize = 40_000;
    let variable =
        |number: usize, value: &str| json!({"name": format!("V{number}"), "value": value});
    let base: Vec<Value> = (0..ENTRIES)
        .map(|number| variable(number, "base"))
        .collect();
    let patch = (0..ENTRIES).rev();
    let patch: Vec<Value> = patch.map(|number| variable(2 * number, "patch")).collect();
    let finalizers = |step: usize| -> Vec<String> {
        (0..ENTRIES)
            .map(|number| format!("f{}", step * number))
            .collect()
    };
    let base = json!({"metadata": {"finalizers": finalizers(1)}, "spec": {"env": base}});
    let patch = json!({"metadata": {"finalizers": finalizers(2)}, "spec": {"env": patch}});
    let result = merge(&MergeSchema::WORKSPACE, base, &patch).unwrap();
    let expected = ENTRIES + ENTRIES / 2;
    for list in ["/spec/env", "/metadata/finalizers"] {
        assert_eq!(
            result.pointer(list).unwrap().as_array().unwrap().len(),
            expected,
            "{list}"
        );
    }
}

#[test]
fn items_without_key_are_rejected() {
    let pod = |list: Value| json!({"spec": {"containers": list}});
    let base = || pod(json!([{"name": "pulumi", "env": [{"name": "A"}]}]));
    let error = |patch: Value| merge(&MergeSchema::POD_TEMPLATE, base(), &patch).unwrap_err();
    let no_key = error(pod(json!([{"name": "pulumi", "env": [{"value": "x"}]}])));
    let list = "spec.containers[name=pulumi].env".to_owned();
    assert_eq!(no_key, MergeError::NoKey { list, key: "name" });
    assert_eq!(
        no_key.to_string(),
        "spec.containers[name=pulumi].env: an item lacks the merge key `name`; add it"
    );
    let not_an_object = error(pod(json!(["pulumi"])));
    assert_eq!(
        not_an_object.to_string(),
        "spec.containers: an item is not an object"
    );
}

/// Distinct container names.
fn names() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set("[a-e]", 0..5)
        .prop_map(|names| names.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
}

proptest! {
    #[test]
    fn merge_is_idempotent(base in names(), patch in names()) {
        let list = |names: &[String]| json!({"spec": {
            "containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        }});
        let (base, patch) = (list(&base), list(&patch));
        let once = merged(base.clone(), &patch);
        prop_assert_eq!(merged(once.clone(), &patch), once);
        prop_assert_eq!(merged(base.clone(), &json!({})), base);
    }

    #[test]
    fn merged_list_has_every_item_once(base in names(), patch in names()) {
        let list = |names: &[String]| {
            let items = names.iter().map(|name| json!({"name": name}));
            json!({"spec": {"containers": items.collect::<Vec<_>>()}})
        };
        let result = merged(list(&base), &list(&patch));
        let found = result["spec"]["containers"].as_array().unwrap();
        let mut found: Vec<&str> = found.iter().map(|item| item["name"].as_str().unwrap()).collect();
        found.sort_unstable();
        let mut all: Vec<&str> = base.iter().chain(&patch).map(String::as_str).collect();
        all.sort_unstable();
        all.dedup();
        prop_assert_eq!(found, all);
    }
}
