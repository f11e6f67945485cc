//! Events: what a user sees with `kubectl describe`.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter as Component},
};

use crate::RequestError;

/// Who reports events.
#[derive(Clone)]
pub struct Reporter(Recorder);

/// What is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice<'text> {
    /// One word for programs.
    pub reason: &'text str,
    /// A sentence for people.
    pub message: &'text str,
    /// Something is wrong.
    pub warning: bool,
}

/// The longest text that the API server takes in an event.
const LONGEST_NOTE: usize = 1024;

impl Reporter {
    /// Reports as this component.
    #[must_use]
    pub fn new(client: Client, component: &str) -> Self {
        let component = Component {
            controller: component.to_owned(),
            instance: None,
        };
        Self(Recorder::new(client, component))
    }

    /// Reports about an object.
    pub async fn report<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        notice: &Notice<'_>,
    ) -> Result<(), RequestError> {
        let reference: ObjectReference = object.object_ref(&());
        let event = Event {
            type_: if notice.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: notice.reason.to_owned(),
            note: Some(shortened(notice.message)),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        self.0
            .publish(&event, &reference)
            .await
            .map_err(|source| RequestError {
                action: "report an event about",
                kind: K::kind(&()).into_owned(),
                namespace: reference.namespace.clone().unwrap_or_default(),
                name: reference.name.clone().unwrap_or_default(),
                source: Box::new(source),
            })
    }
}

fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_NOTE - '…'.len_utf8());
    format!("{}…", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_to_what_the_api_server_takes() {
        assert_eq!(shortened("short"), "short");
        let cut = shortened(&"ü".repeat(2_000));
        assert!(cut.len() <= LONGEST_NOTE && cut.ends_with('…'));
    }
}
