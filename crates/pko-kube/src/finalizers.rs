//! Finalizers, by JSON patches of the one entry: fields of other writers are not touched, and an
//! object that was deleted is not created again.

use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::{
    RequestError,
    objects::{Namespaced, patch_json},
};

/// Adds a finalizer to an object that does not have it. Conflicts if the object has changed since
/// it was read.
pub async fn add_finalizer<K: Namespaced>(
    client: &Client,
    object: &K,
    finalizer: &str,
) -> Result<K, RequestError> {
    let add = if object.finalizers().is_empty() {
        json!({ "op": "add", "path": "/metadata/finalizers", "value": [finalizer] })
    } else {
        json!({ "op": "add", "path": "/metadata/finalizers/-", "value": finalizer })
    };
    let version = json!({ "op": "test", "path": "/metadata/resourceVersion", "value": object.resource_version() });
    patch_json(client, object, json!([version, add]), "add a finalizer to").await
}

/// Removes a finalizer and returns the written object. Does nothing if the object or the finalizer
/// is gone.
pub async fn remove_finalizer<K: Namespaced>(
    client: &Client,
    object: &K,
    finalizer: &str,
) -> Result<Option<K>, RequestError> {
    match remove_entry(client, object, finalizer).await {
        Err(error) if error.status_code() == Some(404) => Ok(None),
        // The list of finalizers has changed since the object was read: retry with the current one.
        Err(error) if error.status_code() == Some(422) => {
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            match crate::find::<K>(client, &namespace, &name).await? {
                Some(live) if live.uid() == object.uid() => {
                    remove_entry(client, &live, finalizer).await
                }
                _ => Ok(None),
            }
        }
        other => other,
    }
}

async fn remove_entry<K: Namespaced>(
    client: &Client,
    object: &K,
    finalizer: &str,
) -> Result<Option<K>, RequestError> {
    let Some(index) = object
        .finalizers()
        .iter()
        .position(|name| name == finalizer)
    else {
        return Ok(None);
    };
    let entry = format!("/metadata/finalizers/{index}");
    let patch = json!([
        { "op": "test", "path": "/metadata/uid", "value": object.uid() },
        { "op": "test", "path": entry, "value": finalizer },
        { "op": "remove", "path": entry },
    ]);
    patch_json(client, object, patch, "remove a finalizer from")
        .await
        .map(Some)
}
