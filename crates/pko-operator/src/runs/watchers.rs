//! Background tasks that wait for the end of a run.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::watch::{UpdateRef, UpdateTrigger};

/// The longest pause between two watches of a run that ended although the run did not.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The runs that have a watcher or had one, by id.
#[derive(Clone)]
pub(crate) struct RunWatchers {
    runs: Arc<Mutex<HashMap<String, WatchedRun>>>,
    trigger: UpdateTrigger,
}

#[derive(Default)]
struct WatchedRun {
    is_watched: bool,
    watches: u32,
}

impl RunWatchers {
    pub(crate) fn new(trigger: UpdateTrigger) -> Self {
        Self {
            runs: Arc::default(),
            trigger,
        }
    }

    /// Registers a watcher of this run, unless it has one. Returns when it may finish at the
    /// earliest: an agent that reports an end each time although the run goes on must not keep the
    /// manager busy.
    pub(crate) fn start(&self, run: &str) -> Option<Instant> {
        let mut runs = self.runs.lock();
        let watched = runs.entry(run.to_owned()).or_default();
        if watched.is_watched {
            return None;
        }
        watched.is_watched = true;
        let pause = pause(watched.watches);
        watched.watches = watched.watches.saturating_add(1);
        Some(Instant::now() + pause)
    }

    /// The run has ended, or can't be watched any more: reconciles its Update.
    pub(crate) fn finish(&self, run: &str, update: UpdateRef) {
        if let Some(watched) = self.runs.lock().get_mut(run) {
            watched.is_watched = false;
        }
        let _ = self.trigger.send(update);
    }

    /// Forgets a run that is over. A watch of it ends by itself.
    pub(crate) fn forget(&self, run: &str) {
        self.runs.lock().remove(run);
    }
}

/// The first watch ends at once, the next ones after a second at least, two, four, ...
fn pause(watches: u32) -> Duration {
    match watches.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => Duration::from_secs(1_u64 << doublings.min(5)).min(MAX_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector::ObjectRef;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn watch_pause_grows_with_each_false_end() {
        let seconds: Vec<u64> = (0..9).map(|watches| pause(watches).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pause(u32::MAX), MAX_PAUSE);
    }

    #[test]
    fn run_has_one_watcher_at_a_time() {
        let (trigger, mut triggered) = unbounded_channel();
        let watchers = RunWatchers::new(trigger);
        assert!(watchers.start("a").is_some());
        assert!(watchers.start("a").is_none() && watchers.start("b").is_some());
        watchers.finish("a", ObjectRef::new("update").within("ns"));
        assert!(triggered.try_recv().is_ok());
        assert!(watchers.start("a").is_some());
        watchers.forget("a");
        watchers.forget("b");
        assert!(watchers.runs.lock().is_empty());
    }
}
