//! [`Decoded`]: objects that the API server accepted, but that may not decode.
//!
//! The schemas leave some fields open: `config` is untyped, and a duration is any string. With a
//! typed watch, an object that does not decode stops the watch for all objects. [`Decoded`] never
//! fails on an object with metadata: the error is part of the value. If it is decoded from text,
//! this holds for any depth and size.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::{StoredKind, raw_object::RawObject};

/// The limit for a quoted value.
const QUOTED_CHARACTERS: usize = 80;

/// Fields that may contain secrets: errors do not quote their values.
const SECRET_FIELDS: [&str; 4] = ["secrets", "secretsRef", "envRefs", "gitAuth"];

/// An object from the API server, decoded or not. Use it in place of `K` in a watch or a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<K> {
    Object(Box<K>),
    Undecodable(Box<Undecodable>),
}

/// A stored object that does not decode: its identity and the error.
#[derive(Clone, Debug, PartialEq)]
pub struct Undecodable {
    pub metadata: ObjectMeta,
    /// The stored status, in which the error is reported.
    pub status: Option<Value>,
    pub error: DecodeError,
}

/// A field with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DecodeError {
    /// The path of the field, such as `spec.config`.
    pub field: String,
    /// The value, shortened; `None` if it may be secret or is missing.
    pub value: Option<String>,
    pub problem: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.field)?;
        if let Some(value) = &self.value {
            write!(formatter, "{value}: ")?;
        }
        formatter.write_str(&self.problem)
    }
}

impl<K: StoredKind> Decoded<K> {
    /// Decodes the text of one object. Values that are too deep or too large are not parsed. Fails
    /// only without metadata, which every stored object has.
    pub fn from_json(json: &str) -> Result<Self, DecodeError> {
        let Some(object) = RawObject::new(json) else {
            return Err(DecodeError {
                field: "metadata".to_owned(),
                value: None,
                problem: "not found".to_owned(),
            });
        };
        let undecodable = |error| {
            Self::Undecodable(Box::new(Undecodable {
                metadata: object.metadata(),
                status: object.status(),
                error,
            }))
        };
        if let Some(error) = object.excess() {
            return Ok(undecodable(error));
        }
        let json = object.to_json();
        if let Ok(decoded) = serde_json::from_str(&json) {
            return Ok(Self::Object(Box::new(decoded)));
        }
        // Only a parsed value can be quoted.
        let value = serde_json::from_str(&json);
        match value.as_ref().map(decode) {
            Ok(Ok(decoded)) => Ok(Self::Object(Box::new(decoded))),
            Ok(Err(error)) => Ok(undecodable(error)),
            Err(error) => Ok(undecodable(DecodeError {
                field: ".".to_owned(),
                value: None,
                problem: format!("the object is not JSON: {error}"),
            })),
        }
    }

    /// Decodes one object. Fails only without readable metadata, which every stored object has.
    pub fn from_value(object: Value) -> Result<Self, DecodeError> {
        match decode(&object) {
            Ok(decoded) => Ok(Self::Object(Box::new(decoded))),
            Err(error) => Undecodable::new(object, error)
                .map(Box::new)
                .map(Self::Undecodable),
        }
    }

    pub fn as_result(&self) -> Result<&K, &Undecodable> {
        match self {
            Self::Object(object) => Ok(object),
            Self::Undecodable(undecodable) => Err(undecodable),
        }
    }
}

impl Undecodable {
    fn new(mut object: Value, error: DecodeError) -> Result<Self, DecodeError> {
        let metadata = decode(
            &object
                .get_mut("metadata")
                .map(Value::take)
                .unwrap_or_default(),
        )
        .map_err(|inner| inner.below("metadata"))?;
        let status = object.get_mut("status").map(Value::take);
        Ok(Self {
            metadata,
            status,
            error,
        })
    }
}

impl DecodeError {
    fn below(mut self, parent: &str) -> Self {
        self.field = if self.field == "." {
            parent.to_owned()
        } else {
            format!("{parent}.{}", self.field)
        };
        self
    }
}

/// Decodes a value; the error names the field.
fn decode<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, DecodeError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let found = quoted(value, error.path());
        let field = error.path().to_string();
        // serde's message also quotes the value.
        let problem = if is_secret(error.path()) {
            "the value does not have the form that the field needs".to_owned()
        } else {
            error.into_inner().to_string()
        };
        DecodeError {
            field,
            value: found,
            problem,
        }
    })
}

fn is_secret(path: &serde_path_to_error::Path) -> bool {
    path.iter().any(|segment| match segment {
        serde_path_to_error::Segment::Map { key } => SECRET_FIELDS.contains(&key.as_str()),
        _ => false,
    })
}

/// The value at a path, short enough for a condition's message.
fn quoted(object: &Value, path: &serde_path_to_error::Path) -> Option<String> {
    use serde_path_to_error::Segment;

    if is_secret(path) {
        return None;
    }
    let mut found = object;
    for segment in path {
        found = match segment {
            Segment::Map { key } => found.get(key)?,
            Segment::Seq { index } => found.get(index)?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    // An object may contain a secret, and the error concerns its type, not its content.
    if !is_plain(found) {
        return None;
    }
    let text = found.to_string();
    match text.char_indices().nth(QUOTED_CHARACTERS) {
        Some((end, _)) => text.get(..end).map(|start| format!("{start}…")),
        None => Some(text),
    }
}

fn is_plain(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(is_plain),
        other => !other.is_object(),
    }
}

impl<'de, K: StoredKind> Deserialize<'de> for Decoded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<K: StoredKind + Serialize> Serialize for Decoded<K> {
    /// Fails for an object that did not decode.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(object) => object.serialize(serializer),
            Self::Undecodable(undecodable) => Err(serde::ser::Error::custom(&undecodable.error)),
        }
    }
}

impl<K: StoredKind + Resource<DynamicType = ()>> Resource for Decoded<K> {
    type DynamicType = ();
    type Scope = <K as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        <K as Resource>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        <K as Resource>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <K as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        <K as Resource>::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Object(object) => object.metadata(),
            Self::Undecodable(undecodable) => &undecodable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Object(object) => object.metadata_mut(),
            Self::Undecodable(undecodable) => &mut undecodable.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_core::ObjectList;
    use serde_json::json;

    use super::*;
    use crate::{Stack, Update, Workspace};

    fn stack(spec: &Value) -> Value {
        json!({
            "apiVersion": "pulumi.com/v1",
            "kind": "Stack",
            "metadata": { "name": "demo", "namespace": "shop", "uid": "1", "resourceVersion": "7" },
            "spec": spec,
            "status": { "observedGeneration": 3 },
        })
    }

    fn error_of<K: StoredKind + fmt::Debug>(object: Value) -> DecodeError {
        match Decoded::<K>::from_value(object).unwrap() {
            Decoded::Undecodable(undecodable) => undecodable.error,
            Decoded::Object(object) => panic!("decoded: {object:?}"),
        }
    }

    #[test]
    fn config_that_is_a_list_names_field_and_value() {
        let error = error_of::<Stack>(stack(&json!({ "stack": "dev", "config": [1, 2] })));
        assert_eq!(error.field, "spec.config");
        assert_eq!(error.value.as_deref(), Some("[1,2]"));
        assert_eq!(
            error.to_string(),
            "spec.config: [1,2]: invalid type: sequence, expected a map"
        );
    }

    #[test]
    fn invalid_duration_error_names_field_and_value() {
        let prerequisite =
            json!({ "name": "base", "requirement": { "succeededWithinDuration": "abc" } });
        let error = error_of::<Stack>(stack(
            &json!({ "stack": "dev", "prerequisites": [prerequisite] }),
        ));
        assert_eq!(
            error.to_string(),
            "spec.prerequisites[0].requirement.succeededWithinDuration: \"abc\": \
             not a duration: write it like `30s`, `10m` or `1h30m`"
        );

        let template = json!({ "spec": { "ttlAfterCompleted": "soon" } });
        let error = error_of::<Stack>(stack(
            &json!({ "stack": "dev", "updateTemplate": template }),
        ));
        assert_eq!(error.field, "spec.updateTemplate.spec.ttlAfterCompleted");

        let update = json!({ "metadata": { "name": "u" }, "spec": { "ttlAfterCompleted": "abc" } });
        let error = error_of::<Update>(update);
        assert_eq!(
            (error.field.as_str(), error.value.as_deref()),
            ("spec.ttlAfterCompleted", Some("\"abc\""))
        );
    }

    #[test]
    fn negative_log_level_error_names_field_and_value() {
        let workspace = json!({ "metadata": { "name": "w" }, "spec": { "pulumiLogLevel": -1 } });
        let error = error_of::<Workspace>(workspace);
        assert_eq!(
            (error.field.as_str(), error.value.as_deref()),
            ("spec.pulumiLogLevel", Some("-1"))
        );
    }

    #[test]
    fn missing_field_error_names_field() {
        let error = error_of::<Stack>(stack(&json!({})));
        assert_eq!(error.to_string(), "spec: missing field `stack`");
    }

    #[test]
    fn decode_error_hides_secret_values() {
        let error = error_of::<Stack>(stack(&json!({ "stack": "dev", "secrets": ["hunter2"] })));
        assert_eq!(error.field, "spec.secrets");
        assert!(!error.to_string().contains("hunter2"), "{error}");

        let error = error_of::<Stack>(stack(&json!({ "stack": "dev", "secrets": "hunter2" })));
        assert_eq!(error.field, "spec.secrets");
        assert!(!error.to_string().contains("hunter2"), "{error}");

        let error = error_of::<Stack>(stack(&json!({ "secrets": { "password": "hunter2" } })));
        assert_eq!(error.to_string(), "spec: missing field `stack`");
    }

    #[test]
    fn decode_error_shortens_long_values() {
        let error = error_of::<Stack>(stack(&json!({ "stack": "dev", "config": "ü".repeat(500) })));
        assert_eq!(error.value.unwrap().chars().count(), QUOTED_CHARACTERS + 1);
    }

    #[test]
    fn undecodable_object_leaves_rest_of_list_decoded() {
        let list: ObjectList<Decoded<Stack>> = serde_json::from_value(json!({
            "apiVersion": "pulumi.com/v1",
            "kind": "StackList",
            "metadata": { "resourceVersion": "9" },
            "items": [
                stack(&json!({ "stack": "good" })),
                stack(&json!({ "stack": "bad", "config": [1, 2] })),
                stack(&json!({ "stack": "good too" })),
            ],
        }))
        .unwrap();
        let good = list
            .items
            .iter()
            .filter(|item| item.as_result().is_ok())
            .count();
        assert_eq!((list.items.len(), good), (3, 2));
        let bad = list.items[1].as_result().unwrap_err();
        assert_eq!(bad.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(bad.status, Some(json!({ "observedGeneration": 3 })));
        assert_eq!(list.items[1].meta().name.as_deref(), Some("demo"));
    }

    /// Text and value decode to the same object.
    #[test]
    fn text_decodes_like_its_value() {
        for spec in [
            json!({ "stack": "dev", "config": { "a": { "b": [1, 1.5, -0.0, u64::MAX] } } }),
            json!({ "stack": "dev", "config": [1, 2] }),
            json!({ "stack": "dev", "secrets": "hunter2" }),
            json!({}),
        ] {
            let object = stack(&spec);
            let text = Decoded::<Stack>::from_json(&object.to_string()).unwrap();
            assert_eq!(text, Decoded::from_value(object).unwrap());
        }
    }

    #[test]
    fn text_of_any_depth_is_one_undecodable_object() {
        for levels in [101, 128, 1000, 10_000] {
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            let object = stack(&json!({ "stack": "dev", "config": { "deep": "DEEP" } }));
            let text = object
                .to_string()
                .replace("\"DEEP\"", &format!("{open}{close}"));
            let decoded = Decoded::<Stack>::from_json(&text).unwrap();
            let bad = decoded.as_result().unwrap_err();
            assert!(
                bad.error.field.starts_with("spec.config.deep"),
                "{}",
                bad.error
            );
            assert!(
                bad.error.problem.contains("the limit is 100"),
                "{}",
                bad.error
            );
            assert_eq!(bad.metadata.name.as_deref(), Some("demo"));
            assert_eq!(bad.status, Some(json!({ "observedGeneration": 3 })));
        }
    }

    #[test]
    fn text_with_unreadable_metadata_is_one_undecodable_object() {
        let mut object = stack(&json!({ "stack": "dev" }));
        object["metadata"]["labels"] = 7.into();
        let decoded = Decoded::<Stack>::from_json(&object.to_string()).unwrap();
        let bad = decoded.as_result().unwrap_err();
        assert_eq!(bad.error.field, "metadata.labels");
        assert_eq!(bad.metadata.uid.as_deref(), Some("1"));
        assert_eq!(decoded.meta().name.as_deref(), Some("demo"));
    }

    #[test]
    fn text_is_decoded_without_managed_fields() {
        let mut object = stack(&json!({ "stack": "dev" }));
        object["metadata"]["managedFields"] = json!([{ "time": "-0001-12-31T00:00:00Z" }]);
        let decoded = Decoded::<Stack>::from_json(&object.to_string()).unwrap();
        assert_eq!(decoded.as_result().unwrap().metadata.managed_fields, None);
    }

    #[test]
    fn text_without_metadata_is_an_error() {
        for text in ["", "null", "{}", "[]", r#"{"metadata":[]}"#] {
            let error = Decoded::<Stack>::from_json(text).unwrap_err();
            assert_eq!(error.to_string(), "metadata: not found", "{text}");
        }
    }

    #[test]
    fn undecodable_object_is_not_written_back() {
        let bad =
            Decoded::<Stack>::from_value(stack(&json!({ "stack": "bad", "config": 1 }))).unwrap();
        assert!(serde_json::to_value(&bad).is_err());
    }

    #[test]
    fn object_without_metadata_is_an_error() {
        let error = Decoded::<Stack>::from_value(json!({ "spec": {} })).unwrap_err();
        assert_eq!(error.field, "metadata");
    }
}
