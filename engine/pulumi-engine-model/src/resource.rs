//! A resource of a stack, in memory and (with other property types) in a checkpoint.

use std::collections::BTreeMap;

use pulumi_yaml::keys::PROVIDER_TYPE_PREFIX;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    property::{Properties, Property},
    urn::Urn,
};

/// A resource. `P` is the representation of its properties.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the fields of Pulumi's checkpoint format"
)]
pub struct Resource<P = Properties> {
    pub urn: Urn,
    #[serde(default)]
    pub custom: bool,
    /// Replaced, and not deleted yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delete: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub inputs: Option<P>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub outputs: Option<P>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Urn>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub protect: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub external: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Urn>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub property_dependencies: BTreeMap<String, Option<Vec<Urn>>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_secret_outputs: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Urn>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub retain_on_delete: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_with: Option<Urn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_changes: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace_on_changes: Vec<String>,
    /// Resources whose replacement replaces it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace_with: Vec<Urn>,
    /// Deleted before its replacement, which is not created yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pending_replacement: bool,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub custom_timeouts: Map<String, Value>,
    /// Paths of properties whose changes are not shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hide_diff: Vec<String>,
    /// Why it was not ready after its last create or update.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_errors: Vec<String>,
    /// The value whose change replaces it, under [`TRIGGER`], because it may contain secrets.
    #[serde(
        default = "Option::default",
        with = "trigger",
        skip_serializing_if = "Option::is_none"
    )]
    pub replacement_trigger: Option<P>,
    /// The id with which the program imported it.
    #[serde(default, rename = "importID", skip_serializing_if = "String::is_empty")]
    pub import_id: String,
    /// Unknown fields, which are preserved.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The key of the replacement trigger.
pub const TRIGGER: &str = "value";

/// A replacement trigger is any value in states, and a map with one entry in memory.
mod trigger {
    use serde::{
        Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _,
    };
    use serde_json::{Value, json};

    #[expect(clippy::ref_option, reason = "the signature that serde wants")]
    pub(super) fn serialize<P: Serialize, S: Serializer>(
        trigger: &Option<P>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut trigger = serde_json::to_value(trigger).map_err(S::Error::custom)?;
        let value = trigger.get_mut(super::TRIGGER).map(Value::take);
        value.serialize(serializer)
    }

    pub(super) fn deserialize<'de, P: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<P>, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(None),
            value => P::deserialize(json!({ super::TRIGGER: value }))
                .map(Some)
                .map_err(D::Error::custom),
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde wants"
)]
fn is_false(value: &bool) -> bool {
    !value
}

impl Resource {
    /// The value whose change replaces it.
    #[must_use]
    pub fn trigger(&self) -> Option<&Property> {
        self.replacement_trigger.as_ref()?.get(TRIGGER)
    }
}

impl<P> Resource<P> {
    #[must_use]
    pub fn is_provider(&self) -> bool {
        self.kind.starts_with(PROVIDER_TYPE_PREFIX)
    }

    /// Whether it is a default provider, which is neither shown nor counted.
    #[must_use]
    pub fn is_default_provider(&self) -> bool {
        let name = self.urn.name();
        self.is_provider() && (name == "default" || name.starts_with("default_"))
    }

    /// Converts the representation of the properties.
    pub fn map<Q, E>(
        self,
        mut convert: impl FnMut(&str, P) -> Result<Q, E>,
    ) -> Result<Resource<Q>, E> {
        let inputs = self
            .inputs
            .map(|inputs| convert("inputs", inputs))
            .transpose()?;
        let outputs = self
            .outputs
            .map(|outputs| convert("outputs", outputs))
            .transpose()?;
        let replacement_trigger = self
            .replacement_trigger
            .map(|trigger| convert("replacementTrigger", trigger))
            .transpose()?;
        Ok(Resource {
            inputs,
            outputs,
            replacement_trigger,
            urn: self.urn,
            custom: self.custom,
            delete: self.delete,
            id: self.id,
            kind: self.kind,
            parent: self.parent,
            protect: self.protect,
            external: self.external,
            dependencies: self.dependencies,
            provider: self.provider,
            property_dependencies: self.property_dependencies,
            additional_secret_outputs: self.additional_secret_outputs,
            aliases: self.aliases,
            retain_on_delete: self.retain_on_delete,
            deleted_with: self.deleted_with,
            created: self.created,
            modified: self.modified,
            ignore_changes: self.ignore_changes,
            replace_on_changes: self.replace_on_changes,
            replace_with: self.replace_with,
            pending_replacement: self.pending_replacement,
            custom_timeouts: self.custom_timeouts,
            hide_diff: self.hide_diff,
            init_errors: self.init_errors,
            import_id: self.import_id,
            other: self.other,
        })
    }

    /// The URNs that it refers to: parent, dependencies, provider.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        let provider = self.provider.rsplit_once("::").map(|(urn, _)| urn);
        self.parent
            .iter()
            .chain(&self.dependencies)
            .chain(&self.deleted_with)
            .map(Urn::as_str)
            .chain(provider)
    }
}
