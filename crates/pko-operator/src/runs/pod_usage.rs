//! Which runs use the pod of a workspace, and whether it is being replaced. Never both.
//!
//! # Caveats
//! This is the memory of one manager. Runs of earlier managers are known by their Updates.

use std::collections::{HashMap, HashSet};

use parking_lot::{Mutex, MutexGuard};

/// By the uid of the Workspace.
#[derive(Debug, Default)]
pub(crate) struct PodUsage(Mutex<HashMap<String, PodUsers>>);

#[derive(Debug, Default)]
struct PodUsers {
    runs: HashSet<String>,
    is_being_replaced: bool,
}

impl PodUsage {
    /// Registers a run, unless the pod is being replaced. Idempotent.
    pub(crate) fn acquire(&self, workspace: &str, run: &str) -> bool {
        let mut all = self.all();
        let users = all.entry(workspace.to_owned()).or_default();
        if users.is_being_replaced {
            return false;
        }
        users.runs.insert(run.to_owned());
        true
    }

    /// Removes a run that has ended or will not start.
    pub(crate) fn release(&self, run: &str) {
        let mut all = self.all();
        for users in all.values_mut() {
            users.runs.remove(run);
        }
        all.retain(|_, users| users.is_being_replaced || !users.runs.is_empty());
    }

    /// Starts a replacement, unless a run uses the pod. Returns whether it has started.
    pub(crate) fn begin_replacing(&self, workspace: &str) -> bool {
        let mut all = self.all();
        let users = all.entry(workspace.to_owned()).or_default();
        users.is_being_replaced |= users.runs.is_empty();
        users.is_being_replaced
    }

    /// Ends a replacement, also one that was given up.
    pub(crate) fn end_replacing(&self, workspace: &str) {
        let mut all = self.all();
        if let Some(users) = all.get_mut(workspace) {
            users.is_being_replaced = false;
        }
        all.retain(|_, users| users.is_being_replaced || !users.runs.is_empty());
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, PodUsers>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_usage_blocks_replacement_during_a_run() {
        let usage = PodUsage::default();
        assert!(usage.acquire("ws", "a") && usage.acquire("ws", "a"));
        assert!(!usage.begin_replacing("ws"));
        assert!(usage.begin_replacing("other"));
        usage.release("a");
        assert!(usage.begin_replacing("ws"));
    }

    #[test]
    fn pod_usage_blocks_runs_during_replacement() {
        let usage = PodUsage::default();
        assert!(usage.begin_replacing("ws") && usage.begin_replacing("ws"));
        assert!(!usage.acquire("ws", "a"));
        assert!(usage.acquire("other", "b"));
        usage.end_replacing("ws");
        assert!(usage.acquire("ws", "a"));
    }

    #[test]
    fn pod_usage_forgets_unused_workspaces() {
        let usage = PodUsage::default();
        usage.acquire("ws", "a");
        usage.release("a");
        usage.begin_replacing("ws");
        usage.end_replacing("ws");
        assert!(usage.all().is_empty());
    }
}
