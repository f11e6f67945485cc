//! A run's events from any number on, from the journal and then as they come.

use std::sync::Arc;

use pko_proto::run::{RunEvent, run_event};
use tokio::sync::mpsc;

use super::registry::{RunEntry, Runs, RunsError};
use crate::pulumi::event_log::LineTail;

/// How far a watcher that reads slowly may stay behind before reading on from disk waits for it.
const AHEAD: usize = 16;

/// What a watcher gets.
pub(crate) type WatchItem = Result<RunEvent, RunsError>;

impl Runs {
    /// Events after a number, then the result, then the end. Whether anybody reads it makes no
    /// difference to the run.
    pub(crate) fn watch(
        self: &Arc<Self>,
        run_id: &str,
        after: u64,
    ) -> Result<mpsc::Receiver<WatchItem>, RunsError> {
        let entry = self.entry(run_id)?;
        let (events, receiver) = mpsc::channel(AHEAD);
        let runs = Arc::clone(self);
        tokio::spawn(async move {
            let watcher = Watcher {
                runs,
                entry,
                after,
                events,
            };
            if let Err(error) = watcher.follow().await {
                // A watcher that is gone needs no reason.
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
            let present = record.borrow_and_update().clone();
            while sequence < present.events {
                let line = lines.next().await.map_err(super::JournalError::Read)?;
                // Events may have been forgotten; the result has not.
                let Some(line) = line else { break };
                sequence += 1;
                if !self.pass_on(sequence, line).await {
                    return Ok(());
                }
            }
            if present.state.is_final() {
                return self.end(present.last_sequence()).await;
            }
            tokio::select! {
                changed = record.changed() => if changed.is_err() { return Ok(()) },
                () = self.events.closed() => return Ok(()),
            }
        }
    }

    /// False if nobody listens any more.
    async fn pass_on(&self, sequence: u64, line: Vec<u8>) -> bool {
        let is_event = line.first() == Some(&b'{');
        if sequence <= self.after || !is_event {
            return true;
        }
        let event = RunEvent {
            sequence,
            event: Some(run_event::Event::EngineEvent(line)),
        };
        self.events.send(Ok(event)).await.is_ok()
    }

    async fn end(&self, sequence: u64) -> Result<(), RunsError> {
        if sequence <= self.after {
            return Ok(());
        }
        let result = self.runs.result(&self.entry)?;
        let event = RunEvent {
            sequence,
            event: Some(run_event::Event::Result(result)),
        };
        // A watcher that is gone comes back if it wants to.
        let _ = self.events.send(Ok(event)).await;
        Ok(())
    }
}
