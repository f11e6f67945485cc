//! Objects of which only metadata and status are of interest.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Error, Resource, api::ApiResource, core::DynamicResourceScope};
use pko_api::{
    RawObject,
    raw_json::{field_of, fields, measure},
};
use serde::Deserialize;
use serde_json::Value;

use crate::read_json::{ReadJson, from_text, unreadable};

/// A status that is deeper counts as none.
const MAX_DEPTH: usize = 64;

/// An object of a kind that is known at run time only: its identity and its status. Its spec and
/// data are not parsed, so that they take no memory and can't fail.
#[derive(Clone, Deserialize)]
pub struct StatusObject {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub status: Value,
}

impl ReadJson for StatusObject {
    fn read_json(json: &str) -> Result<Self, Error> {
        let object = RawObject::new(json).ok_or_else(|| unreadable("metadata"))?;
        let identity: Self = from_text(&object.identity_json())?;
        let all = fields(json).unwrap_or_default();
        let status = field_of(&all, "status").filter(|json| measure(json).depth <= MAX_DEPTH);
        let status = status.and_then(|status| serde_json::from_str(status).ok());
        Ok(Self {
            status: status.unwrap_or_default(),
            ..identity
        })
    }
}

impl fmt::Debug for StatusObject {
    /// A status may have an address that grants access.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        write!(formatter, "StatusObject({name})")
    }
}

impl Resource for StatusObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(object: &str) -> StatusObject {
        StatusObject::read_json(object).unwrap()
    }

    #[test]
    fn status_object_has_identity_and_status() {
        let status = json!({ "artifact": { "url": "http://a", "size": 4.5 }, "list": [{}, 1] });
        let object = json!({
            "apiVersion": "a/v1", "kind": "Thing", "metadata": { "name": "x", "namespace": "shop" },
            "data": "ignored", "status": status,
        });
        let object = read(&object.to_string());
        assert_eq!(object.metadata.name.as_deref(), Some("x"));
        assert_eq!(object.metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(object.status, status);
        for status in ["", r#", "status": null"#] {
            let object = read(&format!(r#"{{ "metadata": {{}}{status} }}"#));
            assert_eq!(object.status, Value::Null);
        }
        assert!(StatusObject::read_json("[]").is_err());
    }

    #[test]
    fn status_object_of_any_depth_is_read() {
        let deep = format!("{}1{}", r#"{"a":["#.repeat(5000), "]}".repeat(5000));
        let object = read(&format!(
            r#"{{ "metadata": {{ "name": "x" }}, "spec": {deep}, "data": {deep}, "status": {{ "a": 1 }} }}"#
        ));
        assert_eq!(object.status, json!({ "a": 1 }));
        let object = read(&format!(
            r#"{{ "metadata": {{ "name": "x" }}, "status": {{ "artifact": {deep} }} }}"#
        ));
        assert_eq!(object.metadata.name.as_deref(), Some("x"));
        assert_eq!(object.status, Value::Null);
    }

    #[test]
    fn status_object_debug_output_has_no_status() {
        let object = read(r#"{ "metadata": { "name": "x" }, "status": "http://canary" }"#);
        assert_eq!(format!("{object:?}"), "StatusObject(x)");
    }
}
