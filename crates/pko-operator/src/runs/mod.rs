//! Runs of Updates: which may start, which pods they use, what waits for their end, and runs whose
//! Update is gone.

pub(crate) mod orphans;
pub(crate) mod pod_usage;
pub(crate) mod queue;
pub(crate) mod watchers;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;

use self::{pod_usage::PodUsage, queue::SharedRunQueue, watchers::RunWatchers};
use crate::agents::UpstreamRuns;

/// The state of runs in this process.
pub(crate) struct Runs {
    pub(crate) queue: SharedRunQueue,
    pub(crate) pod_usage: Arc<PodUsage>,
    pub(crate) watchers: RunWatchers,
    /// Runs of upstream's agents, which this process drives itself.
    pub(crate) upstream: UpstreamRuns,
    /// For Updates that don't set a timeout.
    pub(crate) timeout: Option<Duration>,
    /// When the first Update was reconciled. Only a leader reconciles Updates.
    pub(crate) leading_since: OnceLock<Timestamp>,
}

impl Runs {
    /// A run has ended, or does not start now: its slot and its pod are free for others.
    pub(crate) fn release(&self, run: &str) {
        self.queue.release(run);
        self.pod_usage.release(run);
        self.watchers.forget(run);
    }
}
