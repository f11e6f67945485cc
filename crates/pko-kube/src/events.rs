//! Events: what a user sees with `kubectl describe`.
//!
//! They are of core/v1 with the component as their source, as upstream's are. The recorder of `kube` is not used
//! because it counts events of one reason as one whatever they say: a second "update detected" would show the first
//! one's text.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time},
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::RequestError;

/// The longest text that the API server takes in an event.
const LONGEST_NOTE: usize = 1024;
/// An event that is repeated within this time is counted, not written anew.
const REPEATED_WITHIN: Duration = Duration::from_mins(10);

/// Who reports events.
pub struct Reporter {
    client: Client,
    component: String,
    reported: Mutex<HashMap<String, Reported>>,
}

/// An event that was written.
#[derive(Clone)]
struct Reported {
    name: String,
    count: i32,
    at: Instant,
}

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

impl Reporter {
    /// Reports as this component.
    #[must_use]
    pub fn new(client: Client, component: &str) -> Self {
        Self {
            client,
            component: component.to_owned(),
            reported: Mutex::default(),
        }
    }

    /// Reports about an object.
    pub async fn report<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        notice: &Notice<'_>,
    ) -> Result<(), RequestError> {
        let about = object.object_ref(&());
        let events: Api<Event> = Api::namespaced(
            self.client.clone(),
            about.namespace.as_deref().unwrap_or_default(),
        );
        let key = format!("{:?} {} {}", about.uid, notice.reason, notice.message);
        let repeated = self.repeated(&key);
        let counted = match &repeated {
            Some(Reported { name, count, .. }) => {
                let patch = json!({ "count": count, "lastTimestamp": Time(Timestamp::now()) });
                events
                    .patch(name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .is_ok()
            }
            None => false,
        };
        if let (true, Some(event)) = (counted, repeated) {
            self.remember(key, event);
            return Ok(());
        }
        // It is new, or the one to be counted was deleted.
        let event = self.event(&about, notice);
        let written = events.create(&PostParams::default(), &event).await;
        written.map_err(|source| RequestError {
            action: "report an event about",
            kind: about.kind.clone().unwrap_or_default(),
            namespace: about.namespace.clone().unwrap_or_default(),
            name: about.name.clone().unwrap_or_default(),
            source: Box::new(source),
        })?;
        let name = event.metadata.name.unwrap_or_default();
        self.remember(
            key,
            Reported {
                name,
                count: 1,
                at: Instant::now(),
            },
        );
        Ok(())
    }

    /// The same event, if it was written not long ago, with its new count.
    fn repeated(&self, key: &str) -> Option<Reported> {
        let mut reported = self.reported.lock().ok()?;
        reported.retain(|_, event| event.at.elapsed() < REPEATED_WITHIN);
        let event = reported.get(key)?;
        Some(Reported {
            count: event.count + 1,
            ..event.clone()
        })
    }

    fn remember(&self, key: String, event: Reported) {
        if let Ok(mut reported) = self.reported.lock() {
            reported.insert(key, event);
        }
    }

    fn event(&self, about: &ObjectReference, notice: &Notice<'_>) -> Event {
        let now = Timestamp::now();
        let name = about.name.clone().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            involved_object: about.clone(),
            reason: Some(notice.reason.to_owned()),
            message: Some(shortened(notice.message)),
            type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
            source: Some(EventSource {
                component: Some(self.component.clone()),
                host: None,
            }),
            reporting_component: Some(self.component.clone()),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            event_time: None::<MicroTime>,
            ..Event::default()
        }
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
