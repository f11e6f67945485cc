//! Generators of field values for the property tests of this crate.
//!
//! They generate values that the API server can return, such as times in whole seconds.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        ConfigMapEnvSource, EnvFromSource, EnvVar, EnvVarSource, ResourceRequirements,
        SecretKeySelector,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{Condition, ObjectMeta, Time},
    },
};
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
};
use serde_json::{Value, json};

use crate::JsonObject;

fn key() -> impl Strategy<Value = String> + use<> {
    "[a-zA-Z][a-zA-Z0-9:._-]{0,11}"
}

/// Any JSON value, three levels deep.
pub(crate) fn value() -> impl Strategy<Value = Value> + use<> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

pub(crate) fn optional_value() -> impl Strategy<Value = Option<Value>> + use<> {
    option::of(value())
}

pub(crate) fn value_list() -> impl Strategy<Value = Vec<Value>> + use<> {
    vec(value(), 0..3)
}

pub(crate) fn values() -> impl Strategy<Value = BTreeMap<String, Value>> + use<> {
    btree_map(key(), value(), 0..3)
}

pub(crate) fn optional_values() -> impl Strategy<Value = Option<BTreeMap<String, Value>>> + use<> {
    option::of(values())
}

pub(crate) fn texts() -> impl Strategy<Value = BTreeMap<String, String>> + use<> {
    btree_map(key(), ".{0,12}", 0..3)
}

/// A map of few entries; derived maps have up to a hundred.
pub(crate) fn small_map<T: Arbitrary + 'static>() -> impl Strategy<Value = BTreeMap<String, T>> {
    btree_map(key(), any::<T>(), 0..3)
}

/// A list of few items, for the same reason.
pub(crate) fn small_list<T: Arbitrary + 'static>() -> impl Strategy<Value = Vec<T>> {
    vec(any::<T>(), 0..3)
}

pub(crate) fn object() -> impl Strategy<Value = JsonObject> + use<> {
    values().prop_map(|values| values.into_iter().collect())
}

/// Fields that no type of ours defines.
pub(crate) fn unknown_fields() -> impl Strategy<Value = JsonObject> + use<> {
    btree_map("x-[a-z]{1,6}", value(), 0..2).prop_map(|values| values.into_iter().collect())
}

pub(crate) fn optional_object() -> impl Strategy<Value = Option<JsonObject>> + use<> {
    option::of(object())
}

pub(crate) fn objects() -> impl Strategy<Value = Vec<JsonObject>> + use<> {
    vec(object(), 0..3)
}

pub(crate) fn time() -> impl Strategy<Value = Time> + use<> {
    (0..4_102_444_800_i64).prop_map(|second| Time(Timestamp::from_second(second).unwrap()))
}

pub(crate) fn optional_time() -> impl Strategy<Value = Option<Time>> + use<> {
    option::of(time())
}

pub(crate) fn conditions() -> impl Strategy<Value = Vec<Condition>> + use<> {
    let condition = (
        time(),
        ".{0,12}",
        option::of(0..100_i64),
        "[A-Z][a-z]{2,8}",
        "[A-Z][a-z]{2,8}",
    )
        .prop_map(
            |(last_transition_time, message, observed_generation, reason, type_)| Condition {
                last_transition_time,
                message,
                observed_generation,
                reason,
                status: "True".into(),
                type_,
            },
        );
    vec(condition, 0..3)
}

pub(crate) fn metadata() -> impl Strategy<Value = ObjectMeta> + use<> {
    (
        option::of("[a-z]{1,8}"),
        option::of(time()),
        option::of(1..9_i64),
        option::of(texts()),
    )
        .prop_map(
            |(name, creation_timestamp, generation, labels)| ObjectMeta {
                name,
                creation_timestamp,
                generation,
                labels: labels.filter(|labels| !labels.is_empty()),
                ..ObjectMeta::default()
            },
        )
}

pub(crate) fn secret_key() -> impl Strategy<Value = SecretKeySelector> + use<> {
    ("[a-z]{1,8}", "[a-z]{0,8}", any::<Option<bool>>()).prop_map(|(key, name, optional)| {
        SecretKeySelector {
            key,
            name,
            optional,
        }
    })
}

pub(crate) fn optional_secret_key() -> impl Strategy<Value = Option<SecretKeySelector>> + use<> {
    option::of(secret_key())
}

pub(crate) fn env() -> impl Strategy<Value = Vec<EnvVar>> + use<> {
    let variable = ("[A-Z]{1,8}", option::of(".{0,8}"), optional_secret_key()).prop_map(
        |(name, value, secret_key_ref)| EnvVar {
            name,
            value,
            value_from: secret_key_ref.map(|key| EnvVarSource {
                secret_key_ref: Some(key),
                ..EnvVarSource::default()
            }),
        },
    );
    vec(variable, 0..3)
}

pub(crate) fn env_from() -> impl Strategy<Value = Vec<EnvFromSource>> + use<> {
    let source = (
        "[a-z]{0,8}",
        any::<Option<bool>>(),
        option::of("[A-Z]{1,4}"),
    )
        .prop_map(|(name, optional, prefix)| EnvFromSource {
            config_map_ref: Some(ConfigMapEnvSource { name, optional }),
            prefix,
            secret_ref: None,
        });
    vec(source, 0..3)
}

pub(crate) fn resources() -> impl Strategy<Value = Option<ResourceRequirements>> + use<> {
    let requests = btree_map(
        "cpu|memory",
        "[1-9][0-9]{0,3}(m|Mi|Gi)?".prop_map(Quantity),
        1..3,
    );
    option::of(requests.prop_map(|requests| ResourceRequirements {
        requests: Some(requests),
        ..ResourceRequirements::default()
    }))
}
