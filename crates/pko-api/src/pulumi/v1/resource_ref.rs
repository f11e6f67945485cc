//! [`ResourceRef`]: a value from a Secret or a ConfigMap, or a literal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::open_text_enum;

open_text_enum! {
    /// The selector of a [`ResourceRef`] that is used.
    ResourceRefType {
        /// An environment variable of the operator; no longer supported.
        Env = "Env",
        /// A file of the operator; no longer supported.
        File = "FS",
        /// A key of a Secret.
        Secret = "Secret",
        /// A key of a ConfigMap.
        ConfigMap = "ConfigMap",
        /// A literal value.
        Literal = "Literal",
    }
}

/// A reference to a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct ResourceRef {
    /// `Secret`, `ConfigMap` or `Literal`.
    #[serde(rename = "type")]
    pub reference_type: ResourceRefType,
    /// No longer supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvironmentSelector>,
    /// No longer supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FileSelector>,
    /// A key of a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<KeySelector>,
    /// A key of a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<KeySelector>,
    /// The value itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal: Option<LiteralSelector>,
}

/// An environment variable of the operator; no longer supported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct EnvironmentSelector {
    /// The name of the variable.
    pub name: String,
}

/// A file of the operator; no longer supported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct FileSelector {
    /// The path of the file.
    pub path: String,
}

/// A key of a Secret or a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct KeySelector {
    /// The namespace of the Stack, or nothing: no other namespace is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The key in the object.
    pub key: String,
}

/// A literal value.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct LiteralSelector {
    /// The value.
    pub value: String,
}

impl std::fmt::Debug for LiteralSelector {
    /// A literal in `secretsRef` is a secret, so no literal is printed.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LiteralSelector")
            .field("value", &"…")
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_value_is_not_printed() {
        let literal = LiteralSelector {
            value: "hunter2".into(),
        };
        assert!(!format!("{literal:?}").contains("hunter2"));
    }
}
