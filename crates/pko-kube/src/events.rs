//! Events, as `kubectl describe` shows them.
//!
//! They are core/v1 events with the component as source, like upstream's. The recorder of `kube` is
//! not used because it aggregates events by reason: a second "update detected" would show the text
//! of the first.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;

use crate::{Namespaced, RequestError, objects::request_error};

/// The API server rejects longer messages.
const MAX_MESSAGE_BYTES: usize = 1024;
/// An event that is repeated within this time increments the count of the first one.
const AGGREGATION_WINDOW: Duration = Duration::from_mins(10);

/// Records the events of one component.
pub struct EventRecorder {
    client: Client,
    component: String,
    recent: Mutex<HashMap<String, RecentEvent>>,
}

#[derive(Clone)]
struct RecentEvent {
    name: String,
    count: i32,
    at: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventNote<'text> {
    /// In CamelCase, for programs.
    pub reason: &'text str,
    /// For people.
    pub message: &'text str,
    /// The event's type is `Warning` instead of `Normal`.
    pub warning: bool,
}

impl EventRecorder {
    #[must_use]
    pub fn new(client: Client, component: &str) -> Self {
        Self {
            client,
            component: component.to_owned(),
            recent: Mutex::default(),
        }
    }

    /// Writes an event about an object, or counts it if it was written recently.
    pub async fn record<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        note: &EventNote<'_>,
    ) -> Result<(), RequestError> {
        let about = object.object_ref(&());
        let events: Api<Event> = Api::namespaced(
            self.client.clone(),
            about.namespace.as_deref().unwrap_or_default(),
        );
        let key = format!("{:?} {} {}", about.uid, note.reason, note.message);
        let repeated = self.repetition(&key);
        let counted = match &repeated {
            Some(RecentEvent { name, count, .. }) => {
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
        // It is new, or the event to count has been deleted.
        let event = self.new_event(&about, note);
        let written = events.create(&PostParams::default(), &event).await;
        written.map_err(|source| RequestError {
            action: "write an event about",
            kind: about.kind.clone().unwrap_or_default(),
            namespace: about.namespace.clone().unwrap_or_default(),
            name: about.name.clone().unwrap_or_default(),
            source: Box::new(source),
        })?;
        let name = event.metadata.name.unwrap_or_default();
        self.remember(
            key,
            RecentEvent {
                name,
                count: 1,
                at: Instant::now(),
            },
        );
        Ok(())
    }

    /// The same event with its new count, if it was written recently.
    fn repetition(&self, key: &str) -> Option<RecentEvent> {
        let mut recent = self.recent.lock();
        recent.retain(|_, event| event.at.elapsed() < AGGREGATION_WINDOW);
        let event = recent.get(key)?;
        Some(RecentEvent {
            count: event.count + 1,
            ..event.clone()
        })
    }

    fn remember(&self, key: String, event: RecentEvent) {
        self.recent.lock().insert(key, event);
    }

    fn new_event(&self, about: &ObjectReference, note: &EventNote<'_>) -> Event {
        let now = Timestamp::now();
        let name = about.name.clone().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            involved_object: about.clone(),
            reason: Some(note.reason.to_owned()),
            message: Some(truncate(note.message)),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
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

/// The message of the last event with this reason about an object, written by any component.
pub async fn last_event_message<K: Namespaced>(
    client: &Client,
    object: &K,
    reason: &str,
) -> Result<Option<String>, RequestError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let fields = format!("involvedObject.name={name},reason={reason}");
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let listed = events.list(&ListParams::default().fields(&fields)).await;
    let listed = listed.map_err(request_error::<K>(
        "list the events about",
        &namespace,
        &name,
    ))?;
    let uid = object.uid();
    let about = listed.items.into_iter();
    let last = about
        .filter(|event| event.involved_object.uid == uid)
        .max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
    Ok(last.and_then(|event| event.message))
}

fn truncate(message: &str) -> String {
    if message.len() <= MAX_MESSAGE_BYTES {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MAX_MESSAGE_BYTES - '…'.len_utf8());
    format!("{}…", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_message_too_long_is_truncated() {
        assert_eq!(truncate("short"), "short");
        let cut = truncate(&"ü".repeat(2_000));
        assert!(cut.len() <= MAX_MESSAGE_BYTES && cut.ends_with('…'));
    }
}
