//! Reads and writes of single objects.

use std::fmt::Debug;

use k8s_openapi::{
    NamespaceResourceScope, api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::{PartialObjectMeta, Request},
};
use pko_api::names::field_managers;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    RequestError, object_name,
    read_json::{Page, ReadJson, object_if_found, object_of, text_of},
};

/// A kind whose objects are in namespaces.
pub trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + ReadJson
    + Clone
    + DeserializeOwned
    + Debug
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + ReadJson
        + Clone
        + DeserializeOwned
        + Debug
{
}

/// Requests about the objects of a namespace.
fn requests<K: Namespaced>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), Some(namespace)))
}

/// An object as the body of a request.
fn body<K: Serialize>(object: &K) -> Result<Vec<u8>, kube::Error> {
    serde_json::to_vec(object).map_err(kube::Error::SerdeError)
}

/// Adds the action and the object to an error.
pub(crate) fn request_error<K: Resource<DynamicType = ()>>(
    action: &'static str,
    namespace: &str,
    name: &str,
) -> impl FnOnce(kube::Error) -> RequestError {
    let (kind, namespace, name) = (
        K::kind(&()).into_owned(),
        namespace.to_owned(),
        name.to_owned(),
    );
    move |source| RequestError {
        action,
        kind,
        namespace,
        name,
        source: Box::new(source),
    }
}

/// Reads an object from the API server. None if it does not exist or the name is invalid.
pub async fn find<K: Namespaced>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<K>, RequestError> {
    if !object_name::is_valid(name) {
        return Ok(None);
    }
    let request = requests::<K>(namespace).get(name, &GetParams::default());
    object_if_found(client, request)
        .await
        .map_err(request_error::<K>("read", namespace, name))
}

/// Reads the metadata of an object. None if it does not exist or the name is invalid.
pub async fn find_metadata<K: Namespaced>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<ObjectMeta>, RequestError> {
    if !object_name::is_valid(name) {
        return Ok(None);
    }
    let request = requests::<K>(namespace).get_metadata(name, &GetParams::default());
    let found = object_if_found::<PartialObjectMeta<K>>(client, request).await;
    let found = found.map_err(request_error::<K>("read", namespace, name))?;
    Ok(found.map(|found| found.metadata))
}

/// Lists the metadata of all objects of a namespace, from the API server.
pub async fn list_metadata<K: Namespaced>(
    client: &Client,
    namespace: &str,
) -> Result<Vec<ObjectMeta>, RequestError> {
    let request = requests::<K>(namespace).list_metadata(&ListParams::default());
    let listed = list::<K>(client, request).await;
    listed.map_err(request_error::<K>("list", namespace, ""))
}

/// Lists the metadata of the objects of a namespace with this label, from the API server.
pub async fn list_labelled_metadata<K: Namespaced>(
    client: &Client,
    namespace: &str,
    (label, value): (&str, &str),
) -> Result<Vec<ObjectMeta>, RequestError> {
    let parameters = ListParams::default().labels(&format!("{label}={value}"));
    let request = requests::<K>(namespace).list_metadata(&parameters);
    let listed = list::<K>(client, request).await;
    listed.map_err(request_error::<K>("list by label", namespace, value))
}

/// Reads a whole list of metadata.
async fn list<K: Namespaced>(
    client: &Client,
    request: crate::read_json::Request,
) -> Result<Vec<ObjectMeta>, kube::Error> {
    let page = Page::new(&text_of(client, "list", request).await?)?;
    let objects = page.items.iter();
    objects
        .map(|item| Ok(PartialObjectMeta::<K>::read_json(item)?.metadata))
        .collect()
}

/// An identifier of the cluster: the uid of its namespace `kube-system`.
pub async fn cluster_uid(client: &Client) -> Result<Option<String>, RequestError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let system = namespaces.get_metadata_opt("kube-system").await;
    let system = system.map_err(request_error::<Namespace>("read", "", "kube-system"))?;
    Ok(system.and_then(|system| system.metadata.uid))
}

/// Server-side apply.
async fn apply_with<K: Namespaced>(
    client: &Client,
    (namespace, name): (&str, &str),
    object: &(impl Serialize + Debug),
    parameters: &PatchParams,
    action: &'static str,
) -> Result<K, RequestError> {
    let request = requests::<K>(namespace).patch(name, parameters, &Patch::Apply(object));
    let applied = object_of(client, "patch", request).await;
    applied.map_err(request_error::<K>(action, namespace, name))
}

/// Applies an object. Conflicts if another field manager has set one of its fields to another
/// value.
pub async fn apply<K: Namespaced + Serialize>(
    client: &Client,
    object: &K,
    manager: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let parameters = PatchParams::apply(manager);
    apply_with(client, (&namespace, &name), object, &parameters, "apply").await
}

/// Applies an object and takes over fields of other field managers. With a uid, fails if the object
/// was deleted and created again since.
pub async fn apply_forced<K: Namespaced + Serialize>(
    client: &Client,
    object: &K,
    manager: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let parameters = PatchParams::apply(manager).force();
    apply_with(client, (&namespace, &name), object, &parameters, "apply").await
}

/// Applies an object in JSON, so that fields that our types lack are kept.
pub async fn apply_json<K: Namespaced>(
    client: &Client,
    namespace: &str,
    object: &Value,
    manager: &str,
) -> Result<K, RequestError> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let name = name.unwrap_or_default();
    let parameters = PatchParams::apply(manager);
    apply_with(client, (namespace, name), object, &parameters, "apply").await
}

/// Sets one annotation by a merge patch. Fails if the object was deleted and created again since.
pub async fn annotate<K: Namespaced>(
    client: &Client,
    object: &K,
    annotation: &str,
    value: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let patch =
        json!({ "metadata": { "uid": object.uid(), "annotations": { annotation: value } } });
    let parameters = PatchParams {
        field_manager: Some(field_managers::OPERATOR.to_owned()),
        ..PatchParams::default()
    };
    let request = requests::<K>(&namespace).patch(&name, &parameters, &Patch::Merge(patch));
    object_of(client, "patch", request)
        .await
        .map_err(request_error::<K>("annotate", &namespace, &name))
}

/// Applies one annotation and takes it over from other field managers. Fails if the object was
/// deleted since, even if it was created again.
pub async fn apply_annotation<K: Namespaced>(
    client: &Client,
    object: &K,
    (annotation, value): (&str, &str),
    manager: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let patch = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "uid": object.uid(), "annotations": { annotation: value } },
    });
    let parameters = PatchParams::apply(manager).force();
    apply_with(client, (&namespace, &name), &patch, &parameters, "annotate").await
}

/// Applies a whole status: fields that it lacks are removed. With a resource version, conflicts if
/// the object has changed since.
pub async fn apply_status<K: Namespaced>(
    client: &Client,
    object: &impl ResourceExt,
    status: &impl Serialize,
    manager: &str,
    version: Option<String>,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    // Without the uid, an apply would create an object again that was deleted in the meantime.
    let mut metadata = json!({ "name": name, "namespace": namespace, "uid": object.uid() });
    if let (Some(fields), Some(version)) = (metadata.as_object_mut(), version) {
        fields.insert("resourceVersion".to_owned(), version.into());
    }
    let patch = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": metadata,
        "status": status,
    });
    let parameters = PatchParams::apply(manager).force();
    let patch = Patch::Apply(patch);
    let requests = requests::<K>(&namespace);
    let request = requests.patch_subresource("status", &name, &parameters, &patch);
    let applied = object_of(client, "patch_status", request).await;
    applied.map_err(request_error::<K>("write the status of", &namespace, &name))
}

fn post_params(manager: &str) -> PostParams {
    PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    }
}

/// Applies a JSON patch.
pub(crate) async fn patch_json<K: Namespaced>(
    client: &Client,
    object: &K,
    patch: Value,
    action: &'static str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError);
    let patch = patch.map_err(request_error::<K>(action, &namespace, &name))?;
    let parameters = PatchParams {
        field_manager: Some(field_managers::OPERATOR.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::<()>::Json(patch);
    let request = requests::<K>(&namespace).patch(&name, &parameters, &patch);
    object_of(client, "patch", request)
        .await
        .map_err(request_error::<K>(action, &namespace, &name))
}

pub async fn create<K: Namespaced + Serialize>(
    client: &Client,
    object: &K,
    manager: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let created = async {
        let request = requests::<K>(&namespace).create(&post_params(manager), body(object)?);
        object_of(client, "create", request).await
    };
    created
        .await
        .map_err(request_error::<K>("create", &namespace, &name))
}

/// Replaces an object. Conflicts if it has changed since it was read.
pub async fn replace<K: Namespaced + Serialize>(
    client: &Client,
    object: &K,
    manager: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let replaced = async {
        let parameters = post_params(manager);
        let request = requests::<K>(&namespace).replace(&name, &parameters, body(object)?);
        object_of(client, "replace", request).await
    };
    replaced
        .await
        .map_err(request_error::<K>("write", &namespace, &name))
}

/// Creates an object unless one of that name exists, perhaps from an interrupted reconcile.
pub async fn create_if_absent<K: Namespaced + Serialize>(
    client: &Client,
    object: &K,
    manager: &str,
) -> Result<(), RequestError> {
    match create(client, object, manager).await {
        Ok(_) => Ok(()),
        Err(error) if error.status_code() == Some(409) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes an object. Does nothing if it is gone, or has another uid than the given one.
pub async fn delete<K: Namespaced>(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: Option<String>,
) -> Result<(), RequestError> {
    let preconditions = uid.map(|uid| Preconditions {
        uid: Some(uid),
        resource_version: None,
    });
    delete_if::<K>(client, namespace, name, preconditions).await
}

/// Deletes an object unless it has changed since it was read.
pub async fn delete_unchanged<K: Namespaced>(
    client: &Client,
    object: &K,
) -> Result<(), RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let preconditions = Preconditions {
        uid: object.uid(),
        resource_version: object.resource_version(),
    };
    delete_if::<K>(client, &namespace, &name, Some(preconditions)).await
}

async fn delete_if<K: Namespaced>(
    client: &Client,
    namespace: &str,
    name: &str,
    preconditions: Option<Preconditions>,
) -> Result<(), RequestError> {
    let parameters = DeleteParams {
        preconditions,
        ..DeleteParams::background()
    };
    // The response is the object, if it stays for a finalizer.
    let request = requests::<K>(namespace).delete(name, &parameters);
    match text_of(client, "delete", request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        Err(error) => Err(request_error::<K>("delete", namespace, name)(error)),
    }
}
