//! Background tasks that wait for the end of a run.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;

use crate::watch::{UpdateRef, UpdateTrigger};

/// The runs that have a watcher, by id.
#[derive(Clone)]
pub(crate) struct RunWatchers {
    runs: Arc<Mutex<HashSet<String>>>,
    trigger: UpdateTrigger,
}

impl RunWatchers {
    pub(crate) fn new(trigger: UpdateTrigger) -> Self {
        Self {
            runs: Arc::default(),
            trigger,
        }
    }

    /// Registers a watcher of this run. Returns false if it has one.
    pub(crate) fn start(&self, run: &str) -> bool {
        self.runs.lock().insert(run.to_owned())
    }

    /// The run has ended, or can't be watched any more: reconciles its Update.
    pub(crate) fn finish(&self, run: &str, update: UpdateRef) {
        self.runs.lock().remove(run);
        let _ = self.trigger.send(update);
    }
}
