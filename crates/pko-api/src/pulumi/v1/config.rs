//! [`ConfigMapRef`]: a config value from a ConfigMap.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value in a ConfigMap of the Stack's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ConfigMapRef {
    /// The name of the ConfigMap.
    pub name: String,
    /// The key in the ConfigMap.
    pub key: String,
    /// The value is JSON, not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<bool>,
}
