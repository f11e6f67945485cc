//! [`RawObject`]: the text of an object, split into fields before it is parsed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::{
    DecodeError,
    raw_json::{JsonSize, field_of, fields, items, measure},
};

/// The maximum depth of an object. Parsers fail at 128 levels, and our own writes add some levels.
pub const MAX_DEPTH: usize = 100;
/// The maximum number of values in an object. Each needs up to a hundred bytes of memory.
pub const MAX_VALUES: usize = 100_000;
/// The maximum number of bytes of an object. etcd's default limit is 1.5 MiB.
pub const MAX_BYTES: usize = 2 * 1024 * 1024;

/// The maximum number of names in the path of an error.
const MAX_PATH: usize = 5;
/// The metadata that a report on an object needs.
const IDENTITY: [&str; 7] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "finalizers",
];

/// The fields of an object, without managed fields: no code reads them, they are as deep as the
/// object, and their times may not parse.
#[derive(Clone, Debug)]
pub struct RawObject<'json> {
    /// All fields except metadata and status.
    fields: Vec<(&'json str, &'json str)>,
    metadata: Vec<(&'json str, &'json str)>,
    /// Without fields that exceed the limits of an object. Only our own controllers write a status,
    /// and they write dropped fields again.
    status: Vec<(&'json str, &'json str)>,
}

impl<'json> RawObject<'json> {
    /// Splits an object into its fields. `None` if it is not an object or has no metadata.
    #[must_use]
    pub fn new(json: &'json str) -> Option<Self> {
        let mut all = fields(json)?;
        let mut metadata = fields(field_of(&all, "metadata")?)?;
        metadata.retain(|(name, _)| *name != "managedFields");
        let mut status = field_of(&all, "status")
            .and_then(fields)
            .unwrap_or_default();
        status.retain(|(_, value)| is_parsable(measure(value), 2));
        all.retain(|(name, _)| !["metadata", "status"].contains(name));
        Some(Self {
            fields: all,
            metadata,
            status,
        })
    }

    #[must_use]
    pub fn to_json(&self) -> String {
        let (metadata, status) = (object(&self.metadata), object(&self.status));
        let mut all = self.fields.clone();
        all.push(("metadata", &metadata));
        if !self.status.is_empty() {
            all.push(("status", &status));
        }
        object(&all)
    }

    /// Only the type and the identity of the object.
    #[must_use]
    pub fn identity_json(&self) -> String {
        let metadata = object(&self.identity());
        let mut all = self.fields.clone();
        all.retain(|(name, _)| ["apiVersion", "kind"].contains(name));
        all.push(("metadata", &metadata));
        object(&all)
    }

    /// The metadata. If they do not parse, only the fields of the identity that do.
    pub(crate) fn metadata(&self) -> ObjectMeta {
        let json = object(&self.metadata);
        if is_parsable(measure(&json), 1)
            && let Ok(metadata) = serde_json::from_str(&json)
        {
            return metadata;
        }
        serde_json::from_str(&object(&self.identity())).unwrap_or_default()
    }

    fn identity(&self) -> Vec<(&'json str, &'json str)> {
        let is_readable = |(name, value): &(&str, &str)| {
            let alone = object(&[(name, value)]);
            IDENTITY.contains(name)
                && is_parsable(measure(&alone), 1)
                && serde_json::from_str::<ObjectMeta>(&alone).is_ok()
        };
        let metadata = self.metadata.iter().copied();
        metadata.filter(is_readable).collect()
    }

    pub(crate) fn status(&self) -> Option<Value> {
        if self.status.is_empty() {
            return None;
        }
        serde_json::from_str(&object(&self.status)).ok()
    }

    /// The limit that the object exceeds, if any.
    pub(crate) fn excess(&self) -> Option<DecodeError> {
        let metadata = object(&self.metadata);
        let metadata = [("metadata", metadata.as_str())];
        let sizes = self.fields.iter().chain(&metadata);
        let sizes: Vec<(&str, &str, JsonSize)> = sizes
            .map(|(name, value)| (*name, *value, measure(value)))
            .collect();
        total_excess(&sizes).or_else(|| {
            let mut sizes = sizes.iter();
            let (name, value, size) = sizes.find(|(_, _, size)| size.depth + 1 > MAX_DEPTH)?;
            let levels = size.depth + 1;
            Some(DecodeError {
                field: deep_path(name, value),
                value: None,
                problem: format!(
                    "the object is nested {levels} levels deep here and the limit is {MAX_DEPTH}: \
                     write it flatter"
                ),
            })
        })
    }
}

/// Whether a part of an object, `level` levels below the top, is small enough to parse.
fn is_parsable(size: JsonSize, level: usize) -> bool {
    size.depth + level <= MAX_DEPTH && size.values <= MAX_VALUES && size.bytes <= MAX_BYTES
}

/// The limit that all fields together exceed, with the name of the largest field.
fn total_excess(sizes: &[(&str, &str, JsonSize)]) -> Option<DecodeError> {
    let total = |of: fn(&JsonSize) -> usize, limit: usize, unit: &str| {
        let sum: usize = sizes.iter().map(|(_, _, size)| of(size)).sum();
        let (largest, _, _) = sizes.iter().max_by_key(|(_, _, size)| of(size))?;
        (sum > limit).then(|| DecodeError {
            field: (*largest).to_owned(),
            value: None,
            problem: format!("the object has {sum} {unit} and the limit is {limit}: split it"),
        })
    };
    total(|size| size.bytes, MAX_BYTES, "bytes")
        .or_else(|| total(|size| size.values, MAX_VALUES, "values"))
}

/// The start of the path to the value that is too deep.
fn deep_path(name: &str, value: &str) -> String {
    let mut path = name.to_owned();
    let mut value = value;
    for level in 2..=MAX_PATH {
        let Some((name, inner)) = deepest(value) else {
            return path;
        };
        if measure(inner).depth + level <= MAX_DEPTH {
            return path;
        }
        path.push_str(&name);
        value = inner;
    }
    path.push('…');
    path
}

/// The deepest part of a value, with its step in the path.
fn deepest(value: &str) -> Option<(String, &str)> {
    let depth = |(_, value): &(String, &str)| measure(value).depth;
    if let Some(items) = items(value) {
        let items = items.into_iter().enumerate();
        let items = items.map(|(index, item)| (format!("[{index}]"), item));
        return items.max_by_key(depth);
    }
    let fields = fields(value)?.into_iter();
    let fields = fields.map(|(name, value)| (format!(".{}", shortened(name)), value));
    fields.max_by_key(depth)
}

fn shortened(name: &str) -> String {
    name.chars().take(40).collect()
}

fn object(fields: &[(&str, &str)]) -> String {
    let bytes: usize = fields
        .iter()
        .map(|(name, value)| name.len() + value.len() + 4)
        .sum();
    let mut json = String::with_capacity(bytes + 2);
    json.push('{');
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        json.push('"');
        json.push_str(name);
        json.push_str("\":");
        json.push_str(value);
    }
    json.push('}');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
    }

    fn with_config(config: &str) -> String {
        format!(
            r#"{{"apiVersion":"pulumi.com/v1","kind":"Stack","metadata":{{"name":"demo","managedFields":[{config}]}},"spec":{{"stack":"dev","config":{config}}},"status":{{"outputs":{{"x":{config}}},"observedGeneration":3}}}}"#
        )
    }

    #[test]
    fn raw_object_is_whole_but_for_managed_fields() {
        let json = with_config(&nested(3));
        let object = RawObject::new(&json).unwrap();
        let written: Value = serde_json::from_str(&object.to_json()).unwrap();
        let mut expected: Value = serde_json::from_str(&json).unwrap();
        expected["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        assert_eq!(written, expected);
        assert_eq!(object.excess(), None);
    }

    #[test]
    fn raw_object_too_deep_names_path_levels_and_limit() {
        // The object, its spec and the config are levels of their own.
        let json = with_config(&nested(MAX_DEPTH - 1));
        let error = RawObject::new(&json).unwrap().excess().unwrap();
        assert_eq!(
            error.to_string(),
            "spec.config.a.a.a…: the object is nested 101 levels deep here and the limit is 100: \
             write it flatter"
        );
        let json = with_config(&nested(MAX_DEPTH - 2));
        assert_eq!(RawObject::new(&json).unwrap().excess(), None);
    }

    #[test]
    fn raw_object_too_wide_or_long_names_number_and_limit() {
        let json = with_config(&format!("[0{}]", ",0".repeat(MAX_VALUES)));
        let error = RawObject::new(&json).unwrap().excess().unwrap();
        assert!(
            error.to_string().contains("values and the limit is 100000"),
            "{error}"
        );
        let json = with_config(&format!("\"{}\"", "x".repeat(MAX_BYTES)));
        let error = RawObject::new(&json).unwrap().excess().unwrap();
        assert!(
            error.to_string().contains("bytes and the limit is 2097152"),
            "{error}"
        );
    }

    #[test]
    fn raw_status_too_deep_loses_that_field_only() {
        let json = with_config(&nested(10_000));
        let object = RawObject::new(&json).unwrap();
        assert_eq!(
            object.status(),
            Some(serde_json::json!({ "observedGeneration": 3 }))
        );
        assert_eq!(object.metadata().name.as_deref(), Some("demo"));
    }

    #[test]
    fn raw_metadata_that_do_not_parse_keep_the_identity() {
        let json = r#"{"metadata":{"name":"demo","uid":"u","generation":"x","labels":7}}"#;
        let metadata = RawObject::new(json).unwrap().metadata();
        assert_eq!(
            (metadata.name.as_deref(), metadata.uid.as_deref()),
            (Some("demo"), Some("u"))
        );
        assert_eq!(
            RawObject::new(json).unwrap().identity_json(),
            r#"{"metadata":{"name":"demo","uid":"u"}}"#
        );
    }

    #[test]
    fn raw_object_without_metadata_is_none() {
        for json in ["{}", r#"{"metadata":1}"#, "[]", "x"] {
            assert!(RawObject::new(json).is_none(), "{json}");
        }
    }
}
