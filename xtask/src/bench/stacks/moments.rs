//! When each Stack became Ready, as a watch sees it.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use kube::{
    ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher},
};
use pko_api::Stack;
use pko_testkit::{TestNamespace, eventually_within};
use tokio::task::JoinHandle;

/// Longer than anything here takes, with any number of Stacks.
const PATIENCE: Duration = Duration::from_mins(30);

/// The first moment at which a Stack was Ready with a request, or with a commit, answered.
type Seen = Arc<Mutex<HashMap<(String, String), Instant>>>;

/// A watch of all Stacks of a namespace.
pub(super) struct Moments {
    seen: Seen,
    watching: JoinHandle<()>,
}

impl Moments {
    /// Begins to watch.
    pub(super) fn watch(namespace: &TestNamespace) -> Self {
        let seen = Seen::default();
        let notes = Arc::clone(&seen);
        let stream = watcher(namespace.api::<Stack>(), watcher::Config::default());
        let watching = tokio::spawn(async move {
            let mut stream = pin!(stream.default_backoff().applied_objects());
            while let Some(stack) = stream.next().await {
                // A watch that broke is begun anew.
                let Ok(stack) = stack else { continue };
                let now = Instant::now();
                let mut seen = lock(&notes);
                for what in answered(&stack) {
                    seen.entry((stack.name_any(), what)).or_insert(now);
                }
            }
        });
        Self { seen, watching }
    }

    /// Waits until all of these are Ready, and have answered a request, or run a commit. The moments at which they did.
    pub(super) async fn until(&self, names: &[String], what: &str) -> anyhow::Result<Vec<Instant>> {
        let moments = eventually_within(PATIENCE, "the Stacks to be Ready", async || {
            let seen = lock(&self.seen);
            let found: Vec<Instant> = names
                .iter()
                .filter_map(|name| seen.get(&(name.clone(), what.to_owned())).copied())
                .collect();
            if found.len() == names.len() {
                Ok(found)
            } else {
                Err(format!("{} of {} are", found.len(), names.len()))
            }
        });
        Ok(moments.await?)
    }
}

impl Drop for Moments {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// What a Stack that is Ready has answered: the request, and the commit, of its last run.
fn answered(stack: &Stack) -> Vec<String> {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn only_a_ready_stack_has_answered() {
        assert_eq!(answered(&stack("True", Some("again"))), ["again", "abc"]);
        assert_eq!(answered(&stack("True", None)), ["", "abc"]);
        assert!(answered(&stack("False", Some("again"))).is_empty());
    }
}
