//! `pulumi.com/v1alpha1`: the older version of a Stack. The API server serves it and never stores
//! it; the operator itself reads and writes only `v1`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::v1::{LastUpdate, StackSpec};
use crate::{object::kind, schema};

/// A Stack in version `v1alpha1`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct LegacyStack {
    #[cfg_attr(test, proptest(strategy = "crate::strategies::metadata()"))]
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The spec is the same in `v1`.
    pub spec: StackSpec,
    /// The status has fewer fields than in `v1`.
    pub status: Option<LegacyStackStatus>,
}

kind!(
    LegacyStack,
    "Stack",
    "pulumi.com",
    "v1alpha1",
    "stacks",
    spec
);

/// The observed state of the Stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct LegacyStackStatus {
    /// The stack's outputs; secret ones read `[secret]`.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_values()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub outputs: Option<BTreeMap<String, Value>>,
    /// The last Update that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<LastUpdate>,
}
