//! An owner is added by a patch of the one list, and only to the version of the object that was read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::{
    RequestError,
    objects::{Namespaced, patched},
};

/// Gives an object without owners this one.
pub async fn adopt<K: Namespaced>(
    client: &Client,
    object: &K,
    owner: &OwnerReference,
) -> Result<K, RequestError> {
    let patch = json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": object.resource_version() },
        { "op": "add", "path": "/metadata/ownerReferences", "value": [owner] },
    ]);
    patched(client, object, patch, "adopt").await
}
