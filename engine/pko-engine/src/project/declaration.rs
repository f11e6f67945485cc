//! Config values that a project declares.

use serde_json::Value;

use pulumi_yaml::{
    syntax::{Node, NodeValue},
    text,
};

const TYPES: [&str; 5] = ["string", "integer", "boolean", "array", "object"];
const FIELDS: [&str; 6] = ["type", "items", "description", "secret", "default", "value"];

/// A config value that a project declares.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ConfigDeclaration {
    /// Type, if one is given.
    pub kind: Option<String>,
    /// Type of list elements.
    pub items: Option<Box<ConfigDeclaration>>,
    /// Its default, or its value for all stacks.
    pub default: Option<Value>,
    /// Whether it must be secret.
    pub secret: bool,
}

impl ConfigDeclaration {
    /// Whether a value matches the declared type. A string matches the types that it can be parsed
    /// as.
    #[must_use]
    pub(crate) fn fits(&self, value: &Value) -> bool {
        match (self.kind.as_deref(), value) {
            (Some("string"), value) => value.is_string(),
            (Some("integer"), Value::String(text)) => text.parse::<i64>().is_ok(),
            (Some("integer"), Value::Number(number)) => {
                number.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            (Some("boolean"), Value::String(text)) => text == "true" || text == "false",
            (Some("boolean"), value) => value.is_boolean(),
            (Some("object"), value) => value.is_object(),
            (Some("array"), Value::Array(values)) => {
                let items = self.items.as_deref();
                items.is_some_and(|items| values.iter().all(|value| items.fits(value)))
            }
            (Some(_), _) => false,
            (None, _) => true,
        }
    }

    /// Formats its type, with that of elements.
    #[must_use]
    pub(crate) fn type_name(&self) -> String {
        match &self.items {
            Some(items) => format!("array<{}>", items.type_name()),
            None => self.kind.clone().unwrap_or_default(),
        }
    }
}

/// Parses a declaration of the project with this name.
pub(super) fn read(key: &str, node: &Node, project: &str) -> Result<ConfigDeclaration, String> {
    let Some(fields) = node.entries() else {
        return short(key, node);
    };
    if let Some((field, _)) = fields.iter().find(|(field, _)| !is_field(field)) {
        let field = field.scalar_text();
        let near = text::did_you_mean(&field, FIELDS);
        return Err(format!("config '{key}' has no field {field:?}{near}"));
    }
    let given = |field: &str| {
        let value = node.get(field).map(Node::to_json);
        value.filter(|value| !value.is_null())
    };
    let (default, value) = (given("default"), given("value"));
    if default.is_some() && value.is_some() {
        return Err(format!(
            "project config '{key}' cannot have both a 'default' and 'value' attribute"
        ));
    }
    let mut declaration = typed(key, node)?;
    let is_ours = key
        .split_once(':')
        .is_none_or(|(space, _)| space == project);
    if is_ours {
        check_default(key, &declaration, default.as_ref())?;
    } else {
        check_foreign(key, &declaration, default.is_some(), value.is_some())?;
    }
    declaration.default = default.or(value);
    Ok(declaration)
}

fn is_field(field: &Node) -> bool {
    field.as_str().is_some_and(|field| FIELDS.contains(&field))
}

/// Parses the short form, which is just a value.
fn short(key: &str, node: &Node) -> Result<ConfigDeclaration, String> {
    let value = node.to_json();
    let whole = ConfigDeclaration {
        kind: Some("integer".to_owned()),
        ..ConfigDeclaration::default()
    };
    if value.is_null() || value.is_number() && !whole.fits(&value) {
        return Err(format!(
            "config '{key}' must be a text, a whole number, a boolean, a list, or an object that names its type"
        ));
    }
    Ok(ConfigDeclaration {
        default: Some(value),
        ..ConfigDeclaration::default()
    })
}

/// Parses the type of a value or of list elements.
fn typed(key: &str, node: &Node) -> Result<ConfigDeclaration, String> {
    let kind = node.get("type").map(Node::scalar_text);
    if let Some(kind) = kind.as_deref().filter(|kind| !TYPES.contains(kind)) {
        let types = TYPES.join(", ");
        return Err(format!(
            "config {key:?} has type {kind:?}; types are {types}"
        ));
    }
    let items = node
        .get("items")
        .map(|items| typed(key, items))
        .transpose()?;
    if let Some(ConfigDeclaration { kind: None, .. }) = items {
        return Err(format!(
            "config '{key}' does not name the type of its items"
        ));
    }
    if kind.as_deref() == Some("array") && items.is_none() {
        return Err(format!(
            "The configuration key '{key}' declares an array but does not specify the underlying type via the 'items' attribute"
        ));
    }
    Ok(ConfigDeclaration {
        kind,
        items: items.map(Box::new),
        default: None,
        secret: matches!(
            node.get("secret").map(|secret| &secret.value),
            Some(NodeValue::Bool(true))
        ),
    })
}

fn check_default(
    key: &str,
    declaration: &ConfigDeclaration,
    default: Option<&Value>,
) -> Result<(), String> {
    match default {
        Some(default) if !declaration.fits(default) => Err(format!(
            "The default value specified for configuration key '{key}' is not of the expected type '{}'",
            declaration.type_name()
        )),
        _ => Ok(()),
    }
}

/// For keys of other namespaces, a project may only set the value.
fn check_foreign(
    key: &str,
    declaration: &ConfigDeclaration,
    has_default: bool,
    has_value: bool,
) -> Result<(), String> {
    let problem = if declaration.kind.is_some() {
        "is not namespaced by the project and should not define a type"
    } else if has_default {
        "is not namespaced by the project and should not define a default value. \
         Did you mean to use the 'value' attribute instead of 'default'?"
    } else if !has_value {
        "is namespaced and must provide an attribute 'value'"
    } else {
        return Ok(());
    };
    Err(format!("Configuration key '{key}' {problem}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pulumi_yaml::syntax;

    fn declared(key: &str, text: &str) -> Result<ConfigDeclaration, String> {
        read(key, &syntax::parse(text).unwrap(), "demo")
    }

    #[test]
    fn project_config_malformed_is_rejected() {
        for (key, text, expected) in [
            (
                "a",
                "{typ: string}",
                "no field \"typ\"; did you mean \"type\"?",
            ),
            ("a", "{type: text}", "types are string, integer"),
            ("a", "{type: array}", "via the 'items' attribute"),
            ("a", "{type: array, items: {}}", "the type of its items"),
            ("a", "{type: array, items: {type: array}}", "'items'"),
            (
                "a",
                "{default: 1, value: 2}",
                "both a 'default' and 'value'",
            ),
            (
                "a",
                "{type: integer, default: x}",
                "expected type 'integer'",
            ),
            (
                "a",
                "{type: array, items: {type: string}, default: [1]}",
                "expected type 'array<string>'",
            ),
            ("a", "1.5", "must be a text"),
            ("a", "null", "must be a text"),
            ("aws:region", "{type: string}", "should not define a type"),
            ("aws:region", "{default: x}", "should not define a default"),
            ("aws:region", "{}", "must provide an attribute 'value'"),
        ] {
            let error = declared(key, text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn project_config_default_or_value() {
        for (key, text, expected) in [
            ("a", "text", Some(json!("text"))),
            ("a", "[1]", Some(json!([1]))),
            ("a", "{type: integer, default: 3}", Some(json!(3))),
            ("a", "{type: string, default: null}", None),
            ("demo:a", "{type: string}", None),
            ("aws:region", "eu", Some(json!("eu"))),
            ("aws:region", "{value: eu}", Some(json!("eu"))),
        ] {
            assert_eq!(declared(key, text).unwrap().default, expected, "{text}");
        }
    }

    #[test]
    fn project_config_value_matches_type() {
        let lists = "{type: array, items: {type: array, items: {type: integer}}}";
        let objects = "{type: array, items: {type: object}}";
        for (text, value, expected) in [
            ("{type: string}", json!("1"), true),
            ("{type: string}", json!(1), false),
            ("{type: integer}", json!("1"), true),
            ("{type: integer}", json!(1.0), true),
            ("{type: integer}", json!("1.0"), false),
            ("{type: integer}", json!(1.5), false),
            ("{type: boolean}", json!(true), true),
            ("{type: boolean}", json!("true"), true),
            ("{type: boolean}", json!("True"), false),
            ("{type: object}", json!({}), true),
            ("{type: object}", json!("{}"), false),
            (lists, json!([[1], []]), true),
            (lists, json!([["x"]]), false),
            (lists, json!("[[1]]"), false),
            (objects, json!([{}]), true),
            (objects, json!([1]), false),
            ("{}", json!([1, "x"]), true),
        ] {
            let fits = declared("a", text).unwrap().fits(&value);
            assert_eq!(fits, expected, "{text} {value}");
        }
        assert_eq!(
            declared("a", lists).unwrap().type_name(),
            "array<array<integer>>"
        );
    }
}
