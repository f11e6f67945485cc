//! Our merge of pod templates is Kubernetes' own: whatever the templates, both say the same.

use pko_core::merge::{MergeSchema, merge};
use proptest::{
    collection::{btree_map, btree_set, vec},
    option,
    prelude::*,
    strategy::ValueTree as _,
    test_runner::TestRunner,
};
use serde_json::{Map, Value, json};

use crate::oracle::oracle;

const CASES: usize = 2000;

type Fields = Map<String, Value>;

/// Objects of these fields; in a patch some are null.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields = fields.into_iter().map(|(name, value)| {
        let value = prop_oneof![8 => value, 1 => Just(Value::Null)];
        option::of(value).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    });
    fields
        .collect::<Vec<_>>()
        .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect()))
        .boxed()
}

/// A list whose items have a key, each its own.
fn keyed(key: &'static str, item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let keys = btree_set("[a-d]", 0..4).prop_map(|keys| keys.into_iter().collect::<Vec<_>>());
    let list = keys.prop_shuffle().prop_flat_map(move |keys| {
        let count = keys.len();
        (Just(keys), vec(item.clone(), count))
    });
    list.prop_map(move |(keys, items)| {
        let with_key = |(name, item): (String, Value)| {
            let mut fields: Fields = item.as_object().cloned().unwrap_or_default();
            fields.insert(key.to_owned(), name.into());
            Value::Object(fields)
        };
        keys.into_iter().zip(items).map(with_key).collect()
    })
    .boxed()
}

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        "[a-c]{1,2}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        (0..9).prop_map(Value::from),
    ]
    .boxed()
}

fn texts() -> BoxedStrategy<Value> {
    vec("[a-d]", 0..3).prop_map(Value::from).boxed()
}

fn map() -> BoxedStrategy<Value> {
    btree_map("[a-c]", scalar(), 0..3)
        .prop_map(|map| json!(map))
        .boxed()
}

fn container() -> BoxedStrategy<Value> {
    object(vec![
        ("image", scalar()),
        ("command", texts()),
        (
            "env",
            keyed(
                "name",
                object(vec![("value", scalar()), ("valueFrom", map())]),
            ),
        ),
        (
            "volumeMounts",
            keyed("mountPath", object(vec![("name", scalar())])),
        ),
        (
            "resources",
            object(vec![("limits", map()), ("claims", texts())]),
        ),
    ])
}

fn pod_template() -> BoxedStrategy<Value> {
    let volume = object(vec![("emptyDir", map()), ("secret", map())]);
    let constraint = object(vec![("maxSkew", scalar())]);
    let spec = object(vec![
        ("containers", keyed("name", container())),
        ("initContainers", keyed("name", container())),
        ("volumes", keyed("name", volume)),
        ("imagePullSecrets", keyed("name", object(vec![]))),
        (
            "hostAliases",
            keyed("ip", object(vec![("hostnames", texts())])),
        ),
        (
            "topologySpreadConstraints",
            keyed("topologyKey", constraint),
        ),
        (
            "tolerations",
            vec(map(), 0..3).prop_map(Value::from).boxed(),
        ),
        ("nodeSelector", map()),
        ("nodeName", scalar()),
        (
            "securityContext",
            object(vec![("sysctls", texts()), ("seLinuxOptions", map())]),
        ),
    ]);
    let metadata = object(vec![
        ("labels", map()),
        ("annotations", map()),
        ("finalizers", texts()),
    ]);
    object(vec![("metadata", metadata), ("spec", spec)])
}

/// What the API server stores has no nulls.
fn stored(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, stored(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(stored).collect(),
        other => other,
    }
}

/// What Kubernetes makes of each pair.
fn merged(pairs: &[(Value, Value)]) -> Vec<Value> {
    let questions = pairs.iter();
    let questions = questions.map(|(base, patch)| json!({ "base": base, "patch": patch }));
    oracle(&questions.collect::<Vec<_>>())
}

#[test]
fn pod_templates_merge_as_kubernetes_merges_them() {
    let mut runner = TestRunner::deterministic();
    let pair = (pod_template().prop_map(stored), pod_template());
    let mut next = || pair.new_tree(&mut runner).unwrap().current();
    let pairs: Vec<(Value, Value)> = (0..CASES).map(|_| next()).collect();
    let answers = merged(&pairs);
    assert_eq!(answers.len(), pairs.len());
    for ((base, patch), answer) in pairs.into_iter().zip(answers) {
        let ours = merge(&MergeSchema::POD_TEMPLATE, base.clone(), &patch).unwrap();
        assert_eq!(answer["merged"], ours, "\n{base}\n{patch}\n{answer}");
    }
}
