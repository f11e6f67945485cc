//! Records when each Stack becomes Ready, from a watch.

use std::{
    collections::HashMap,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use kube::{
    ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher},
};
use parking_lot::Mutex;
use pko_api::Stack;
use pko_testkit::{TestNamespace, eventually_within};
use tokio::task::JoinHandle;

const TIMEOUT: Duration = Duration::from_mins(30);

/// When a Stack was first Ready, by its name and a request or commit.
type FirstReady = Arc<Mutex<HashMap<(String, String), Instant>>>;

/// Watches all Stacks of a namespace.
pub(super) struct ReadyTimes {
    first_ready: FirstReady,
    watching: JoinHandle<()>,
}

impl ReadyTimes {
    pub(super) fn watch(namespace: &TestNamespace) -> Self {
        let first_ready = FirstReady::default();
        let notes = Arc::clone(&first_ready);
        let stream = watcher(namespace.api::<Stack>(), watcher::Config::default());
        let watching = tokio::spawn(async move {
            let mut stream = pin!(stream.default_backoff().applied_objects());
            while let Some(stack) = stream.next().await {
                // The watcher reconnects.
                let Ok(stack) = stack else { continue };
                let now = Instant::now();
                let mut first_ready = notes.lock();
                for what in completed_by(&stack) {
                    first_ready.entry((stack.name_any(), what)).or_insert(now);
                }
            }
        });
        Self {
            first_ready,
            watching,
        }
    }

    /// Waits until all these Stacks are Ready with a request or commit. Returns the times.
    pub(super) async fn wait_for(
        &self,
        names: &[String],
        what: &str,
    ) -> anyhow::Result<Vec<Instant>> {
        let ready_times = eventually_within(TIMEOUT, "the Stacks to be Ready", async || {
            let first_ready = self.first_ready.lock();
            let found: Vec<Instant> = names
                .iter()
                .filter_map(|name| first_ready.get(&(name.clone(), what.to_owned())).copied())
                .collect();
            if found.len() == names.len() {
                Ok(found)
            } else {
                Err(format!("{} of {} are", found.len(), names.len()))
            }
        });
        Ok(ready_times.await?)
    }
}

impl Drop for ReadyTimes {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// The request and the commit of the last run, if the Stack is Ready.
fn completed_by(stack: &Stack) -> Vec<String> {
    let Some(status) = &stack.status else {
        return Vec::new();
    };
    let mut conditions = status.conditions.iter();
    let is_ready = conditions.any(|found| found.type_ == "Ready" && found.status == "True");
    let Some(last) = status.last_update.as_ref().filter(|_| is_ready) else {
        return Vec::new();
    };
    let request = last.reconcile_request.clone().unwrap_or_default();
    let commit = last.last_successful_commit.clone();
    [request].into_iter().chain(commit).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stack(ready: &str, request: Option<&str>) -> Stack {
        let condition = json!({
            "type": "Ready", "status": ready, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let last = json!({ "reconcileRequest": request, "lastSuccessfulCommit": "abc" });
        serde_json::from_value(json!({
            "metadata": { "name": "demo" }, "spec": { "stack": "dev" },
            "status": { "conditions": [condition], "lastUpdate": last },
        }))
        .unwrap()
    }

    #[test]
    fn request_is_completed_only_by_ready_stack() {
        assert_eq!(
            completed_by(&stack("True", Some("again"))),
            ["again", "abc"]
        );
        assert_eq!(completed_by(&stack("True", None)), ["", "abc"]);
        assert!(completed_by(&stack("False", Some("again"))).is_empty());
    }
}
