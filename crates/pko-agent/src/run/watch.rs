//! Streams a run's events from any sequence number on, first from the journal, then live.

use std::{borrow::Cow, sync::Arc};

use pko_proto::run::{RunEvent, run_event};
use tokio::sync::mpsc;

use super::registry::{RunEntry, Runs, RunsError};
use crate::pulumi::event_log::LineTail;

/// Events in memory before reading from disk waits for a slow watcher.
const QUEUE_LENGTH: usize = 16;

pub(crate) type WatchItem = Result<RunEvent, RunsError>;

impl Runs {
    /// The events after a sequence number, then the result. Watchers do not affect the run.
    pub(crate) fn watch(
        self: &Arc<Self>,
        run_id: &str,
        after: u64,
    ) -> Result<mpsc::Receiver<WatchItem>, RunsError> {
        let entry = self.entry(run_id)?;
        let (events, receiver) = mpsc::channel(QUEUE_LENGTH);
        let runs = Arc::clone(self);
        tokio::spawn(async move {
            let watcher = Watcher {
                runs,
                entry,
                after,
                events,
            };
            if let Err(error) = watcher.follow().await {
                // The watcher may have disconnected.
                let _ = watcher.events.send(Err(error)).await;
            }
        });
        Ok(receiver)
    }
}

struct Watcher {
    runs: Arc<Runs>,
    entry: Arc<RunEntry>,
    after: u64,
    events: mpsc::Sender<WatchItem>,
}

impl Watcher {
    async fn follow(&self) -> Result<(), RunsError> {
        let mut record = self.entry.record.subscribe();
        let mut lines = LineTail::new(self.runs.journal.events(&self.entry.run_id));
        let mut sequence = 0;
        loop {
            let current = record.borrow_and_update().clone();
            while sequence < current.events {
                let line = lines.next().await.map_err(self.runs.journal.read_error())?;
                // Events may have been pruned; the result is still there.
                let Some(line) = line else { break };
                sequence += 1;
                if !self.send_event(sequence, line).await {
                    return Ok(());
                }
            }
            if current.state.is_final() {
                return self.send_result(current.last_sequence()).await;
            }
            tokio::select! {
                changed = record.changed() => if changed.is_err() { return Ok(()) },
                () = self.events.closed() => return Ok(()),
            }
        }
    }

    /// Returns false if the watcher has disconnected.
    async fn send_event(&self, sequence: u64, line: Vec<u8>) -> bool {
        let is_event = line.first() == Some(&b'{');
        if sequence <= self.after || !is_event {
            return true;
        }
        let event = RunEvent {
            sequence,
            event: Some(run_event::Event::EngineEvent(self.mask(line))),
        };
        self.events.send(Ok(event)).await.is_ok()
    }

    /// Old CLIs write the journal themselves, so that it is not masked.
    fn mask(&self, line: Vec<u8>) -> Vec<u8> {
        let text = String::from_utf8_lossy(&line);
        match self.runs.workspace.cli.mask.apply_json(&text) {
            Cow::Owned(masked) => masked.into_bytes(),
            Cow::Borrowed(_) => line,
        }
    }

    async fn send_result(&self, sequence: u64) -> Result<(), RunsError> {
        if sequence <= self.after {
            return Ok(());
        }
        let result = self.runs.result(&self.entry)?;
        let event = RunEvent {
            sequence,
            event: Some(run_event::Event::Result(result)),
        };
        // A disconnected watcher can watch again.
        let _ = self.events.send(Ok(event)).await;
        Ok(())
    }
}
