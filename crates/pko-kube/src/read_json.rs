//! How an object is read from the text of a response.
//!
//! `kube`'s own client parses with a recursive parser, and logs the whole response if that fails:
//! the objects of all tenants, for one that is nested too deep. Here each object is cut out and
//! read on its own, and an error names a field and no value.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    coordination::v1::Lease,
    core::v1::{ConfigMap, Pod, Secret, Service},
};
use kube::{
    Client, Error,
    core::{PartialObjectMeta, request},
};
use pko_api::{
    Decoded, Program, RawObject, Stack, StoredKind, Update, Workspace,
    raw_json::{field_of, fields, items},
};
use serde::de::{DeserializeOwned, Error as _};

/// What can be read from the text of one object.
pub trait ReadJson: Sized {
    fn read_json(json: &str) -> Result<Self, Error>;
}

impl<K: StoredKind> ReadJson for Decoded<K> {
    fn read_json(json: &str) -> Result<Self, Error> {
        Self::from_json(json).map_err(|error| unreadable(&error.field))
    }
}

impl<K> ReadJson for PartialObjectMeta<K>
where
    Self: DeserializeOwned,
{
    fn read_json(json: &str) -> Result<Self, Error> {
        read_typed(json)
    }
}

macro_rules! read_typed {
    ($($kind:ty),+ $(,)?) => {
        $(impl ReadJson for $kind {
            fn read_json(json: &str) -> Result<Self, Error> {
                read_typed(json)
            }
        })+
    };
}

read_typed!(
    ConfigMap,
    ControllerRevision,
    Lease,
    Pod,
    Program,
    Secret,
    Service,
    Stack,
    StatefulSet,
    Update,
    Workspace,
);

fn read_typed<K: DeserializeOwned>(json: &str) -> Result<K, Error> {
    let object = RawObject::new(json).ok_or_else(|| unreadable("metadata"))?;
    from_text(&object.to_json())
}

pub(crate) fn from_text<K: DeserializeOwned>(json: &str) -> Result<K, Error> {
    let mut text = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut text)
        .map_err(|error| unreadable(&error.path().to_string()))
}

/// An error that quotes nothing of the response.
pub(crate) fn unreadable(field: &str) -> Error {
    Error::SerdeError(serde_json::Error::custom(format!(
        "the field `{field}` does not have the form that its type needs"
    )))
}

/// Reads an object of a list or a watch. Of one that can't be read, the identity is left, so that
/// the others are not held up by it.
pub(crate) fn read_item<K: ReadJson + DeserializeOwned>(json: &str) -> Result<K, Error> {
    K::read_json(json).or_else(|error| {
        let object = RawObject::new(json).ok_or(error)?;
        let (namespace, name) = namespace_and_name(json);
        tracing::error!(
            namespace,
            name,
            "An object does not decode; its metadata are used"
        );
        from_text(&object.identity_json())
    })
}

fn namespace_and_name(json: &str) -> (String, String) {
    let metadata = fields(json).and_then(|all| fields(field_of(&all, "metadata")?));
    let metadata = metadata.unwrap_or_default();
    let text = |name| {
        let text = field_of(&metadata, name).unwrap_or_default();
        text.trim_matches('"').to_owned()
    };
    (text("namespace"), text("name"))
}

/// A page of a list, not yet read.
pub(crate) struct Page {
    pub(crate) items: Vec<String>,
    pub(crate) continue_token: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) bytes: usize,
}

impl Page {
    /// Cuts a list into its items.
    pub(crate) fn new(json: &str) -> Result<Self, Error> {
        let list = fields(json).ok_or_else(|| unreadable("."))?;
        let metadata = field_of(&list, "metadata").and_then(fields);
        let metadata = metadata.unwrap_or_default();
        let text = |name| {
            let value = field_of(&metadata, name)?;
            let value: Option<String> = serde_json::from_str(value).ok();
            value.filter(|text| !text.is_empty())
        };
        // An empty list may read `null`.
        let objects = field_of(&list, "items").and_then(items).unwrap_or_default();
        Ok(Self {
            items: objects.into_iter().map(ToOwned::to_owned).collect(),
            continue_token: text("continue"),
            resource_version: text("resourceVersion"),
            bytes: json.len(),
        })
    }
}

/// A request as `kube` builds it.
pub(crate) type Request = Result<http::Request<Vec<u8>>, request::Error>;

/// Sends a request. `verb` names it in traces, as `kube` does.
pub(crate) async fn text_of(
    client: &Client,
    verb: &'static str,
    request: Request,
) -> Result<String, Error> {
    let mut request = request.map_err(Error::BuildRequest)?;
    request.extensions_mut().insert(verb);
    client.request_text(request).await
}

/// Sends a request and reads the object of its response.
pub(crate) async fn object_of<K: ReadJson>(
    client: &Client,
    verb: &'static str,
    request: Request,
) -> Result<K, Error> {
    K::read_json(&text_of(client, verb, request).await?)
}

/// The same of an object that may not exist.
pub(crate) async fn object_if_found<K: ReadJson>(
    client: &Client,
    request: Request,
) -> Result<Option<K>, Error> {
    match object_of(client, "get", request).await {
        Ok(object) => Ok(Some(object)),
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn page_is_cut_into_items_of_any_depth() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let stack = |name: &str, config: &str| {
            format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{"stack":"dev","config":{{"a":{config}}}}}}}"#
            )
        };
        let json = format!(
            r#"{{"kind":"StackList","metadata":{{"continue":"t\"1","resourceVersion":"9"}},"items":[{},{}]}}"#,
            stack("deep", &deep),
            stack("good", "1")
        );
        let page = Page::new(&json).unwrap();
        assert_eq!(page.continue_token.as_deref(), Some("t\"1"));
        assert_eq!(page.resource_version.as_deref(), Some("9"));
        let read = |json: &String| read_item::<Decoded<Stack>>(json).unwrap();
        let read: Vec<Decoded<Stack>> = page.items.iter().map(read).collect();
        assert!(read[0].as_result().is_err());
        assert_eq!(read[1].as_result().unwrap().spec.stack, "dev");
    }

    #[test]
    fn page_without_items_or_token_is_the_last() {
        for items in ["null", "[]"] {
            let json = format!(
                r#"{{"metadata":{{"continue":"","resourceVersion":"9"}},"items":{items}}}"#
            );
            let page = Page::new(&json).unwrap();
            assert!(page.items.is_empty() && page.continue_token.is_none());
        }
        assert!(Page::new("upstream connect error").is_err());
    }

    #[test]
    fn item_that_does_not_decode_keeps_its_identity() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "managedFields": [{ "time": "-0001-12-31T10:00:00Z" }],
            },
            "spec": { "containers": "hunter2" },
        });
        let error = Pod::read_json(&pod.to_string()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        assert!(error.to_string().contains("`spec.containers`"), "{error}");
        let read: Pod = read_item(&pod.to_string()).unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("p"));
        assert_eq!(read.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(read.spec, None);
    }

    #[test]
    fn typed_object_is_read_without_managed_fields() {
        let times = json!([{ "manager": "m", "time": "-0001-12-31T10:00:00Z" }]);
        let pod = json!({ "metadata": { "name": "p", "managedFields": times } });
        assert!(
            serde_json::from_value::<Pod>(pod.clone()).is_err(),
            "why they are left out"
        );
        assert!(Pod::read_json(&pod.to_string()).is_ok());
    }
}
