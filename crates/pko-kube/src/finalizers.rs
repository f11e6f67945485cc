//! A finalizer is added and removed by a patch of that one entry: the rest of the object, which may be
//! somebody else's at this moment, is not touched, and an object that is gone is not made anew.

use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::{
    RequestError,
    objects::{Namespaced, patched},
};

/// Adds a finalizer to an object that does not have it. The version must be the one that was read: a list that
/// appeared since is not replaced.
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
    patched(client, object, json!([version, add]), "add a finalizer to").await
}

/// Removes a finalizer from an object, and gives what is written; one that is gone, or has it no more, is fine.
pub async fn remove_finalizer<K: Namespaced>(
    client: &Client,
    object: &K,
    finalizer: &str,
) -> Result<Option<K>, RequestError> {
    match removed(client, object, finalizer).await {
        Err(error) if error.status_code() == Some(404) => Ok(None),
        // The list is another one by now: once more, with that.
        Err(error) if error.status_code() == Some(422) => {
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            match crate::find::<K>(client, &namespace, &name).await? {
                Some(live) if live.uid() == object.uid() => removed(client, &live, finalizer).await,
                _ => Ok(None),
            }
        }
        other => other,
    }
}

async fn removed<K: Namespaced>(
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
    patched(client, object, patch, "remove a finalizer from")
        .await
        .map(Some)
}
