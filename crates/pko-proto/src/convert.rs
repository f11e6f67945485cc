//! Between protobuf's own value types and the ones that the rest of the code uses.

use jiff::Timestamp;
use prost_types::{ListValue, Struct, Value as ProtoValue, value::Kind};
use serde_json::{Map, Number, Value};

use crate::agent::{ConfigItem, ConfigValueFrom, config_item, config_value_from};

/// Integers up to here are the same as a `double`, which is all that protobuf's value has.
const EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// A JSON value as protobuf's; numbers become doubles.
#[must_use]
pub fn to_proto_value(value: &Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(*flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => Kind::ListValue(ListValue {
            values: items.iter().map(to_proto_value).collect(),
        }),
        Value::Object(fields) => Kind::StructValue(to_proto_struct(fields)),
    };
    ProtoValue { kind: Some(kind) }
}

/// A JSON object as protobuf's.
#[must_use]
pub fn to_proto_struct(fields: &Map<String, Value>) -> Struct {
    let field = |(name, value): (&String, &Value)| (name.clone(), to_proto_value(value));
    Struct {
        fields: fields.iter().map(field).collect(),
    }
}

/// Protobuf's value as JSON; a whole number is written as one. A value of no kind is null.
#[must_use]
pub fn from_proto_value(value: &ProtoValue) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => Value::Bool(*flag),
        Some(Kind::NumberValue(number)) => number_value(*number),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::ListValue(list)) => list.values.iter().map(from_proto_value).collect(),
        Some(Kind::StructValue(object)) => Value::Object(from_proto_struct(object)),
    }
}

/// Protobuf's object as JSON.
#[must_use]
pub fn from_proto_struct(object: &Struct) -> Map<String, Value> {
    let field = |(name, value): (&String, &ProtoValue)| (name.clone(), from_proto_value(value));
    object.fields.iter().map(field).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a whole number that is exact as a double fits"
)]
fn number_value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= EXACT_INTEGER {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A point in time as protobuf's.
#[must_use]
pub fn to_proto_timestamp(time: Timestamp) -> prost_types::Timestamp {
    let mut converted = prost_types::Timestamp {
        seconds: time.as_second(),
        nanos: time.subsec_nanosecond(),
    };
    converted.normalize();
    converted
}

/// Protobuf's point in time, unless it is outside of the years that there are.
#[must_use]
pub fn from_proto_timestamp(time: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(time.seconds, time.nanos).ok()
}

/// A configuration value that is in the message itself.
#[must_use]
pub fn literal_config(key: &str, value: &Value, path: bool, secret: bool) -> ConfigItem {
    config_item(
        key,
        config_item::V::Value(to_proto_value(value)),
        path,
        secret,
    )
}

/// A configuration value that the agent finds in its environment or in a file.
#[must_use]
pub fn config_from(
    key: &str,
    from: config_value_from::F,
    json: bool,
    path: bool,
    secret: bool,
) -> ConfigItem {
    let from = ConfigValueFrom {
        f: Some(from),
        json: json.then_some(true),
    };
    config_item(key, config_item::V::ValueFrom(from), path, secret)
}

fn config_item(key: &str, v: config_item::V, path: bool, secret: bool) -> ConfigItem {
    ConfigItem {
        key: key.to_owned(),
        path: path.then_some(true),
        v: Some(v),
        secret: secret.then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z é]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z.]{1,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn value_survives_round_trip(value in json_value()) {
            prop_assert_eq!(from_proto_value(&to_proto_value(&value)), value);
        }

        #[test]
        fn timestamp_survives_round_trip(seconds in -62_135_596_800_i64..253_402_300_799, nanos in 0..1_000_000_000_i32) {
            let time = Timestamp::new(seconds, nanos).unwrap();
            prop_assert_eq!(from_proto_timestamp(&to_proto_timestamp(time)), Some(time));
        }
    }

    /// The limit of `spec.config` in `pko-core`: a parser gives up at a hundred nested messages.
    #[test]
    fn config_of_thirty_levels_survives_the_wire() {
        use prost::Message as _;

        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        let sent = |levels| {
            let item = literal_config("tree", &nested(levels), false, false);
            let request = crate::agent::SetAllConfigRequest { config: vec![item] };
            crate::agent::SetAllConfigRequest::decode(request.encode_to_vec().as_slice())
        };
        assert!(sent(30).is_ok());
        assert!(sent(40).is_err(), "why there is a limit");
    }

    #[test]
    fn whole_numbers_have_no_fraction() {
        let text = |number| number_value(number).to_string();
        assert_eq!(text(42.0), "42");
        assert_eq!(text(-0.5), "-0.5");
        assert_eq!(text(1e21), "1e+21");
        assert_eq!(text(f64::NAN), "null");
    }

    #[test]
    fn false_flags_are_absent() {
        let item = literal_config("size", &json!(4), false, false);
        assert_eq!((item.path, item.secret), (None, None));
        let item = config_from("a", config_value_from::F::Env("A".into()), true, true, true);
        assert_eq!((item.path, item.secret), (Some(true), Some(true)));
    }
}
