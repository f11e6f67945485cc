//! Objects as text: of those that are nested deeper than a client parses, it reads the response
//! neither to a read nor to a write.

use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, api::DynamicObject, core::Request};
use pko_api::raw_json::{field_of, fields, items};
use pko_testkit::TestNamespace;
use serde_json::{Value, json};

/// Sends a request about the objects of a kind.
async fn send<K>(
    namespace: &TestNamespace,
    request: impl FnOnce(Request) -> http::Request<Vec<u8>>,
) -> Result<String, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let path = Request::new(K::url_path(&(), Some(namespace.name())));
    namespace.client().request_text(request(path)).await
}

/// Creates an object; its type may be missing.
pub(crate) async fn create<K>(namespace: &TestNamespace, json: &str) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let (version, kind) = (K::api_version(&()), K::kind(&()));
    let typed = json!({ "apiVersion": version, "kind": kind }).to_string();
    let (typed, rest) = (typed.trim_end_matches('}'), json.trim_start_matches('{'));
    let body = if json.contains("\"apiVersion\":") {
        json.to_owned()
    } else {
        format!("{typed},{rest}")
    };
    let body = body.into_bytes();
    let created = send::<K>(namespace, |path| {
        path.create(&kube::api::PostParams::default(), body)
            .unwrap()
    });
    created.await.map(drop)
}

pub(crate) async fn delete<K>(namespace: &TestNamespace, name: &str) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let parameters = kube::api::DeleteParams::default();
    let deleted = send::<K>(namespace, |path| path.delete(name, &parameters).unwrap());
    deleted.await.map(drop)
}

/// The objects of a kind with their metadata and status alone.
pub(crate) async fn list<K>(namespace: &TestNamespace) -> Result<Vec<DynamicObject>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let parameters = kube::api::ListParams::default();
    let text = send::<K>(namespace, |path| path.list(&parameters).unwrap()).await?;
    let list = fields(&text).unwrap();
    let listed = field_of(&list, "items").and_then(items).unwrap_or_default();
    Ok(listed.into_iter().map(without_spec).collect())
}

fn without_spec(json: &str) -> DynamicObject {
    let all = fields(json).unwrap();
    let mut metadata = fields(field_of(&all, "metadata").unwrap()).unwrap();
    metadata.retain(|(name, _)| *name != "managedFields");
    let metadata = metadata
        .into_iter()
        .map(|(name, value)| (name.to_owned(), parsed(value)));
    let mut object = json!({ "metadata": Value::Object(metadata.collect()) });
    if let Some(status) = field_of(&all, "status") {
        object["status"] = parsed(status);
    }
    serde_json::from_value(object).unwrap()
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}
