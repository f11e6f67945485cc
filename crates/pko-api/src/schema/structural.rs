//! Turns the schemas that `schemars` derives into structural schemas for the API server.

use serde_json::{Map, Value};

/// Keys that the API server ignores, or that would be stricter than upstream's schemas.
const DROPPED: [&str; 2] = ["$schema", "title"];

/// Marks a schema of Kubernetes itself while the CRDs are built.
pub(super) const EMBEDDED: &str = "x-embedded";

/// Makes a schema structural, in place.
///
/// A Rust `Option` becomes an optional property, not a nullable one: upstream's schemas reject
/// `null`. A description keeps its first paragraph, on one line.
pub fn make_structural(schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    for key in DROPPED {
        object.remove(key);
    }
    // Number formats of Rust that Kubernetes does not have.
    if object
        .get("format")
        .is_some_and(|format| format == "uint32" || format == "double")
    {
        object.remove("format");
    }
    remove_null(object);
    shorten_description(object);
    name_enum_values(object);
    for_each_child(object, make_structural);
}

/// Removes `null` from the types, values and alternatives of a schema.
fn remove_null(object: &mut Map<String, Value>) {
    for key in ["type", "enum"] {
        if let Some(Value::Array(values)) = object.get_mut(key) {
            values.retain(|value| !value.is_null() && value != "null");
        }
    }
    if let Some(Value::Array(types)) = object.get("type")
        && let [only] = types.as_slice()
    {
        let only = only.clone();
        object.insert("type".to_owned(), only);
    }
    if let Some(Value::Array(alternatives)) = object.get("anyOf")
        && let [Value::Object(value), null] = alternatives.as_slice()
        && null.get("type").is_some_and(|null| null == "null")
    {
        let value = value.clone();
        object.remove("anyOf");
        for (key, value) in value {
            object.entry(key).or_insert(value);
        }
    }
}

fn shorten_description(object: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = object.get_mut("description") {
        let first = text.split("\n\n").next().unwrap_or_default();
        *text = first.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// `schemars` derives an enum with commented variants as `oneOf`; this restores the list of values.
fn name_enum_values(object: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = object.get("oneOf") else {
        return;
    };
    let values: Option<Vec<Value>> = variants
        .iter()
        .map(|variant| {
            variant
                .get("const")
                .or_else(|| variant.get("enum")?.get(0))
                .cloned()
        })
        .collect();
    if let Some(values) = values {
        object.remove("oneOf");
        object.insert("type".to_owned(), "string".into());
        object.insert("enum".to_owned(), values.into());
    }
}

/// Applies a function to every schema directly below an object schema.
pub(super) fn for_each_child(object: &mut Map<String, Value>, mut apply: impl FnMut(&mut Value)) {
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(&mut apply);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = object.get_mut(key) {
            apply(child);
        }
    }
}

/// Removes [`EMBEDDED`] from a schema and everything below it.
pub(crate) fn remove_marks(schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    object.remove(EMBEDDED);
    for_each_child(object, remove_marks);
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::json;

    use crate::schema;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    #[serde(rename_all = "camelCase")]
    struct Sample {
        /// A name.
        ///
        /// A second paragraph.
        name: String,
        many_words: Option<i64>,
        choice: Option<Choice>,
        list: Vec<u32>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    enum Choice {
        /// This.
        One,
        /// That.
        Two,
    }

    #[test]
    fn derived_schema_becomes_structural() {
        assert_eq!(
            schema::of::<Sample>(),
            json!({
                "type": "object",
                "required": ["name", "list"],
                "properties": {
                    "name": { "type": "string", "description": "A name." },
                    "manyWords": { "type": "integer", "format": "int64" },
                    "choice": { "type": "string", "enum": ["One", "Two"] },
                    "list": { "type": "array", "items": { "type": "integer", "minimum": 0 } },
                },
            })
        );
    }
}
