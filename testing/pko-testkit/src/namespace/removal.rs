//! Removes a namespace and everything in it, with or without the namespace controller.

use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::contents::{self, Found};

/// Marks the namespace as ending first: from then on nothing new is admitted to it.
pub(super) async fn remove(
    client: &Client,
    name: &str,
    has_controllers: bool,
) -> Result<(), kube::Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    ignore_missing(api.delete(name, &DeleteParams::default()).await)?;
    for found in contents::of(client, name).await? {
        delete(client, name, &found).await?;
    }
    if has_controllers {
        Ok(())
    } else {
        finalize(client, name).await
    }
}

async fn delete(client: &Client, namespace: &str, found: &Found) -> Result<(), kube::Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &found.resource);
    let name = found.object.name_any();
    if !found.object.finalizers().is_empty() {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        ignore_missing(api.patch(&name, &PatchParams::default(), &patch).await)?;
    }
    ignore_missing(
        api.delete(&name, &DeleteParams::default().grace_period(0))
            .await,
    )
}

/// Does the namespace controller's last step.
async fn finalize(client: &Client, name: &str) -> Result<(), kube::Error> {
    let body = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": name }, "spec": { "finalizers": [] },
    });
    let request = Request::put(format!("/api/v1/namespaces/{name}/finalize"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    ignore_missing(client.request::<Value>(request).await)
}

/// Ignores objects that are gone, and kinds that can't be deleted.
fn ignore_missing<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => Ok(()),
        other => other.map(drop),
    }
}
