//! Single objects: found, applied, created, deleted.

use std::fmt::Debug;

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use pko_api::names::field_managers;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{RequestError, object_name};

/// A kind with objects in namespaces.
pub trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
{
}

fn failed<K: Namespaced>(
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

/// Reads an object from the API server itself; nothing if it is not there, as for a name that no object has.
pub async fn find<K: Namespaced>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<K>, RequestError> {
    if !object_name::is_possible(name) {
        return Ok(None);
    }
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    api.get_opt(name)
        .await
        .map_err(failed::<K>("read", namespace, name))
}

/// Reads who an object is and whose, and nothing that it holds; nothing if it is not there, as for a name that no object
/// has.
pub async fn find_metadata<K: Namespaced>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<ObjectMeta>, RequestError> {
    if !object_name::is_possible(name) {
        return Ok(None);
    }
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let found = api.get_metadata_opt(name).await;
    let found = found.map_err(failed::<K>("read", namespace, name))?;
    Ok(found.map(|found| found.metadata))
}

/// The objects of a namespace with this label, from the API server itself.
pub async fn labelled<K: Namespaced>(
    client: &Client,
    namespace: &str,
    (label, value): (&str, &str),
) -> Result<Vec<K>, RequestError> {
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let parameters = ListParams::default().labels(&format!("{label}={value}"));
    let listed = api.list(&parameters).await;
    let listed = listed.map_err(failed::<K>("list those with a label", namespace, value))?;
    Ok(listed.items)
}

async fn applied<K: Namespaced>(
    client: &Client,
    (namespace, name): (&str, &str),
    object: &(impl Serialize + Debug),
    parameters: &PatchParams,
    action: &'static str,
) -> Result<K, RequestError> {
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let applied = api.patch(name, parameters, &Patch::Apply(object)).await;
    applied.map_err(failed::<K>(action, namespace, name))
}

/// Applies an object; fields of other managers with other values are a conflict.
pub async fn apply<K: Namespaced + Serialize>(
    client: &Client,
    object: &K,
    manager: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let parameters = PatchParams::apply(manager);
    applied(client, (&namespace, &name), object, &parameters, "apply").await
}

/// Applies an object that is ours alone: who else has set a field of it is overruled. With a uid it is that very object,
/// and none that was made anew since.
pub async fn apply_own<K: Namespaced + Serialize>(
    client: &Client,
    object: &K,
    manager: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let parameters = PatchParams::apply(manager).force();
    applied(client, (&namespace, &name), object, &parameters, "apply").await
}

/// Applies an object that is kept as JSON, so that no field is lost that our types do not know.
pub async fn apply_json<K: Namespaced>(
    client: &Client,
    namespace: &str,
    object: &Value,
    manager: &str,
) -> Result<K, RequestError> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let name = name.unwrap_or_default();
    let parameters = PatchParams::apply(manager);
    applied(client, (namespace, name), object, &parameters, "apply").await
}

/// Sets an annotation of this very object, and nothing else; one that was made anew since is left alone.
pub async fn annotate<K: Namespaced>(
    client: &Client,
    object: &K,
    annotation: &str,
    value: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let patch =
        json!({ "metadata": { "uid": object.uid(), "annotations": { annotation: value } } });
    let parameters = PatchParams {
        field_manager: Some(field_managers::OPERATOR.to_owned()),
        ..PatchParams::default()
    };
    api.patch(&name, &parameters, &Patch::Merge(patch))
        .await
        .map_err(failed::<K>("annotate", &namespace, &name))
}

/// Applies one annotation of this very object, by force; one that is gone is not made anew.
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
    applied(client, (&namespace, &name), &patch, &parameters, "annotate").await
}

/// Applies a whole status: what is not in it any more is removed. With a version, only to the object as it was then: a
/// conflict says that it has changed since.
pub async fn apply_status<K: Namespaced>(
    client: &Client,
    object: &impl ResourceExt,
    status: &impl Serialize,
    manager: &str,
    version: Option<String>,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    // The uid keeps an apply from making an object anew that was deleted in the meantime.
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
    let applied = api
        .patch_status(&name, &parameters, &Patch::Apply(patch))
        .await;
    applied.map_err(failed::<K>("write the status of", &namespace, &name))
}

fn written_by(manager: &str) -> PostParams {
    PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    }
}

/// Changes an object by a JSON patch.
pub(crate) async fn patched<K: Namespaced>(
    client: &Client,
    object: &K,
    patch: Value,
    action: &'static str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError);
    let patch = patch.map_err(failed::<K>(action, &namespace, &name))?;
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let parameters = PatchParams {
        field_manager: Some(field_managers::OPERATOR.to_owned()),
        ..PatchParams::default()
    };
    api.patch(&name, &parameters, &Patch::<()>::Json(patch))
        .await
        .map_err(failed::<K>(action, &namespace, &name))
}

/// Creates an object.
pub async fn create<K: Namespaced + Serialize>(
    client: &Client,
    object: &K,
    manager: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    api.create(&written_by(manager), object)
        .await
        .map_err(failed::<K>("create", &namespace, &name))
}

/// Writes an object whole, if it still is the version that was read.
pub async fn replace<K: Namespaced + Serialize>(
    client: &Client,
    object: &K,
    manager: &str,
) -> Result<K, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    api.replace(&name, &written_by(manager), object)
        .await
        .map_err(failed::<K>("write", &namespace, &name))
}

/// Creates an object that may have been created before, by a pass that did not come to its end.
pub async fn create_once<K: Namespaced + Serialize>(
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

/// Deletes an object, if it still is the one that was meant; one that is gone is fine.
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

/// Deletes an object, if it still is as it is here: whoever has written to it since may have made it theirs.
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
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let parameters = DeleteParams {
        preconditions,
        ..DeleteParams::background()
    };
    match api.delete(name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        Err(error) => Err(failed::<K>("delete", namespace, name)(error)),
    }
}
