//! Owner references.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::{
    RequestError,
    objects::{Namespaced, patch_json},
};

/// Adds the first owner reference to an object. Conflicts if the object has changed since it was
/// read.
pub async fn add_owner<K: Namespaced>(
    client: &Client,
    object: &K,
    owner: &OwnerReference,
) -> Result<K, RequestError> {
    let patch = json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": object.resource_version() },
        { "op": "add", "path": "/metadata/ownerReferences", "value": [owner] },
    ]);
    patch_json(client, object, patch, "adopt").await
}
