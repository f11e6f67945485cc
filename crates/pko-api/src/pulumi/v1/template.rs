//! Partial objects that are merged over those that the operator creates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{JsonObject, auto::v1alpha1::UpdateSpec, schema};

/// A partial Workspace. It is a patch, so it is stored as written: the object below it may complete
/// a list item without its key, or half a `projectInfo`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(transparent)]
pub struct WorkspaceTemplate(
    #[cfg_attr(test, proptest(strategy = "crate::strategies::object()"))] pub JsonObject,
);

impl JsonSchema for WorkspaceTemplate {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WorkspaceTemplate".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schema::workspace_template(generator)
    }
}

/// A partial Update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct UpdateTemplate {
    /// Has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Labels and annotations to add.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_object()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::template_metadata")]
    pub metadata: Option<JsonObject>,
    /// Options to set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<UpdateSpec>,
    /// Has no effect.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_object()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::update_template_status")]
    pub status: Option<JsonObject>,
}
