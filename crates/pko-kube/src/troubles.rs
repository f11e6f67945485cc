//! What the cluster has to say about an object of ours: events of other controllers.

use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client, ResourceExt as _, api::ListParams};

use crate::{Namespaced, RequestError};

/// The text of the last event with this reason about an object, if there is one.
pub async fn last_event<K: Namespaced>(
    client: &Client,
    object: &K,
    reason: &str,
) -> Result<Option<String>, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let fields = format!("involvedObject.name={name},reason={reason}");
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let listed = events.list(&ListParams::default().fields(&fields)).await;
    let listed = listed.map_err(|source| RequestError {
        action: "list the events about",
        kind: K::kind(&()).into_owned(),
        namespace,
        name,
        source: Box::new(source),
    })?;
    let uid = object.uid();
    let about = listed.items.into_iter();
    let last = about
        .filter(|event| event.involved_object.uid == uid)
        .max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
    Ok(last.and_then(|event| event.message))
}
