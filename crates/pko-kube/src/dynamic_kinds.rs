//! Kinds that are known at run time only, such as those of a Stack's `fluxSource`.

use kube::{
    Client, Resource as _,
    api::{ApiResource, GetParams},
    core::{GroupVersionKind, Request},
    discovery::{self, Scope},
};

use crate::{StatusObject, object_name, read_json::object_if_found};

/// Looks up a kind, and whether its objects are in namespaces. None if the API server does not
/// serve it. Group and version become part of the request's path, so they are checked like a name.
pub async fn discover(
    client: &Client,
    kind: &GroupVersionKind,
) -> Result<Option<(ApiResource, Scope)>, kube::Error> {
    let is_core = kind.group.is_empty();
    if !(is_core || object_name::is_valid(&kind.group)) || !object_name::is_valid(&kind.version) {
        return Ok(None);
    }
    match discovery::pinned_kind(client, kind).await {
        Ok((resource, capabilities)) => Ok(Some((resource, capabilities.scope))),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads metadata and status of an object. None if it does not exist.
pub async fn find_status(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<Option<StatusObject>, kube::Error> {
    if !object_name::is_valid(name) {
        return Ok(None);
    }
    let requests = Request::new(StatusObject::url_path(resource, Some(namespace)));
    object_if_found(client, requests.get(name, &GetParams::default())).await
}
