//! What a user sees of a Stack: its conditions as they change, and its events.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, ResourceExt as _,
    api::ListParams,
    runtime::watcher::{self, Event as WatchEvent, watcher},
};
use pko_api::{Decoded, Stack};
use pko_testkit::{TestNamespace, eventually, kstatus};
use serde_json::Value;
use tokio::task::JoinHandle;

/// A Stack that is watched from before it exists.
pub(crate) struct Trail {
    stacks: Api<Stack>,
    events: Api<Event>,
    name: String,
    seen: Arc<Mutex<Vec<String>>>,
    is_gone: Arc<AtomicBool>,
    watching: JoinHandle<()>,
}

impl Trail {
    /// Watches a Stack of this name.
    pub(crate) fn of(namespace: &TestNamespace, name: &str) -> Self {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut stream = Box::pin(watcher(namespace.api::<Decoded<Stack>>(), config));
        let is_gone = Arc::new(AtomicBool::new(false));
        let (notes, gone) = (seen.clone(), Arc::clone(&is_gone));
        let watching = tokio::spawn(async move {
            let mut last = String::new();
            // Whether a list has it
            let mut is_listed = false;
            while let Some(Ok(event)) = stream.next().await {
                let summary = match event {
                    WatchEvent::Apply(stack) | WatchEvent::InitApply(stack) => {
                        is_listed = true;
                        summary(&stack)
                    }
                    WatchEvent::Init => {
                        is_listed = false;
                        continue;
                    }
                    WatchEvent::InitDone if is_listed => continue,
                    WatchEvent::InitDone | WatchEvent::Delete(_) => {
                        gone.store(true, Ordering::SeqCst);
                        continue;
                    }
                };
                gone.store(false, Ordering::SeqCst);
                if !summary.is_empty() && summary != last {
                    last.clone_from(&summary);
                    notes.lock().unwrap().push(summary);
                }
            }
        });
        Self {
            stacks: namespace.api(),
            events: namespace.api(),
            name: name.to_owned(),
            seen,
            is_gone,
            watching,
        }
    }

    /// Waits until the newest condition starts like this, and gives all that were seen since the
    /// last call. The Stack must then satisfy kstatus.
    pub(crate) async fn until(&self, end: &str) -> Vec<String> {
        let reached = eventually(format!("the Stack to be {end}"), async || {
            let mut seen = self.seen.lock().unwrap();
            if seen.last().is_some_and(|last| last.starts_with(end)) {
                Ok(seen.drain(..).collect::<Vec<_>>())
            } else {
                Err(format!("{seen:#?}"))
            }
        });
        let seen = reached.await.unwrap();
        let stack = self.stacks.get(&self.name).await.unwrap();
        let stack: Value = serde_json::to_value(stack).unwrap();
        let now = jiff::Timestamp::now() + std::time::Duration::from_secs(1);
        assert_eq!(
            kstatus::violations(&stack, kstatus::ConditionProtocol::ExactlyOne, now),
            Vec::<String>::new()
        );
        seen
    }

    /// The Stack as it is.
    pub(crate) async fn stack(&self) -> Stack {
        self.stacks.get(&self.name).await.unwrap()
    }

    /// Waits until the Stack is gone, and gives all conditions that were seen since the last call.
    /// The watch is read, not the API server: by then it has delivered all earlier changes.
    pub(crate) async fn until_gone(&self) -> Vec<String> {
        let gone = eventually("the Stack to be gone", async || {
            if self.is_gone.load(Ordering::SeqCst) {
                return Ok(());
            }
            Err(format!("{:#?}", self.stacks.get_opt(&self.name).await))
        });
        gone.await.unwrap();
        self.seen.lock().unwrap().drain(..).collect()
    }

    /// Waits for an event about the Stack with this text, and returns all events until then. Events
    /// are written after the status that they report, so a reader of the status may have to wait
    /// for them.
    pub(crate) async fn wait_for_event(&self, text: &str) -> Vec<String> {
        let told = eventually(format!("the event {text:?}"), async || {
            let events = self.events().await;
            if events.iter().any(|event| event.contains(text)) {
                Ok(events)
            } else {
                Err(format!("{events:#?}"))
            }
        });
        told.await.unwrap()
    }

    /// Waits for the last writes of an update that succeeded: an event for the Stack, and one for
    /// its Update, in either order. The Stack is Ready before them.
    pub(crate) async fn wait_for_last_writes(&self) {
        self.wait_for_event("Normal StackCreated: Successfully updated stack")
            .await;
        let is_of_update = |event: &Event| {
            let object = &event.involved_object;
            let name = object.name.as_deref().unwrap_or_default();
            object.kind.as_deref() == Some("Update") && name.starts_with(&self.name)
        };
        let reported = eventually("the event of the Update", async || {
            let found = self.events.list(&ListParams::default()).await;
            let found = found.map_err(|error| error.to_string())?.items;
            if found.iter().any(is_of_update) {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        });
        reported.await.unwrap();
    }

    /// The events about the Stack in the order in which they were last seen: type, reason and text,
    /// and how often if more than once.
    pub(crate) async fn events(&self) -> Vec<String> {
        let events = self.events.list(&ListParams::default()).await.unwrap();
        let mut about: Vec<Event> = events
            .into_iter()
            .filter(|event| event.involved_object.kind.as_deref() == Some("Stack"))
            .filter(|event| event.involved_object.name.as_deref() == Some(&self.name))
            .collect();
        about.sort_by_key(|event| {
            event
                .resource_version()
                .and_then(|version| version.parse::<u64>().ok())
        });
        about.iter().map(text).collect()
    }
}

fn text(event: &Event) -> String {
    let [kind, reason, message] =
        [&event.type_, &event.reason, &event.message].map(|part| part.clone().unwrap_or_default());
    let times = event
        .count
        .filter(|count| *count > 1)
        .map(|count| format!(" ({count} times)"));
    format!("{kind} {reason}: {message}{}", times.unwrap_or_default())
}

impl Drop for Trail {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// The condition that holds: type, reason and message.
fn summary(stack: &Decoded<Stack>) -> String {
    let Ok(stack) = stack.as_result() else {
        return "undecodable".to_owned();
    };
    let conditions = stack
        .status
        .as_ref()
        .map(|status| status.conditions.clone())
        .unwrap_or_default();
    let holds = conditions
        .into_iter()
        .find(|condition| condition.status == "True");
    holds
        .map(|condition| {
            format!(
                "{} {}: {}",
                condition.type_, condition.reason, condition.message
            )
        })
        .unwrap_or_default()
}
