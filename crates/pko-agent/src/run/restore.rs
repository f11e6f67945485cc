//! Runs of a previous agent: those that it did not finish are interrupted.

use std::sync::Arc;

use jiff::Timestamp;
use pko_proto::{convert::to_proto_timestamp, run::ErrorClass};

use super::{
    RunRecord,
    execute::{self, RunOutcome},
    record::{RunKind, RunPhase},
    registry::{RunEntry, Runs, RunsError},
    stored_run::StoredRun,
};
use crate::pulumi::event_log::EventDigest;

impl Runs {
    pub(super) fn restore(&self, record: RunRecord) {
        let ended = record.state.is_final();
        let process = record.process.filter(|process| process.is_alive());
        let entry = Arc::new(RunEntry::new(record, None, true));
        self.entries().push(Arc::clone(&entry));
        match process {
            _ if ended => {}
            None => self.mark_interrupted(&entry),
            // The worker lives as long as `self`.
            Some(_) => drop(self.queue.send(entry)),
        }
    }

    /// Ends a run whose record is damaged: nothing is known about it but its id.
    pub(super) fn restore_damaged(&self, run_id: &str, why: &str) {
        tracing::error!(run = run_id, why, "The record of a run is damaged");
        self.journal.set_aside_damaged(run_id);
        let entry = Arc::new(RunEntry::new(unknown_record(run_id), None, true));
        self.entries().push(Arc::clone(&entry));
        let text = format!(
            "the agent's record of the run is damaged ({why}), so it is unknown how far the run came; completed changes are in the stack's state"
        );
        self.finish(
            &entry,
            execute::unsuccessful(RunPhase::Interrupted, ErrorClass::Interrupted, text),
        );
    }

    /// Tries again to read a record that could not be read.
    pub(super) fn reread(&self, run_id: &str) -> Result<(), RunsError> {
        let mut unreadable = self.unreadable.lock();
        if !unreadable.contains(run_id) {
            return Ok(());
        }
        match self.journal.stored(run_id) {
            StoredRun::Unreadable(source) => {
                return Err(RunsError::Unreadable {
                    run_id: run_id.to_owned(),
                    file: self.journal.record_file(run_id),
                    source,
                });
            }
            StoredRun::Recorded(record) => self.restore(record),
            StoredRun::Damaged(why) => self.restore_damaged(run_id, why),
            StoredRun::Missing => {}
        }
        unreadable.remove(run_id);
        Ok(())
    }

    /// Finishes a run that a previous agent started.
    pub(super) fn mark_interrupted(&self, entry: &RunEntry) {
        tracing::warn!(
            run = entry.run_id,
            "Run was interrupted by the end of a previous agent"
        );
        let digest = self.journal.digest(&entry.run_id);
        entry
            .record
            .send_modify(|record| record.events = digest.lines);
        let record = entry.record.borrow().clone();
        self.finish(entry, interrupted_outcome(&record, &digest));
        if record.is_call_scoped
            && let Err(error) = self.acknowledge_entry(entry)
        {
            tracing::warn!(%error, "Failed to remove the run of a finished call");
        }
    }
}

/// The record of a run of which only the id is known.
fn unknown_record(run_id: &str) -> RunRecord {
    RunRecord {
        run_id: run_id.to_owned(),
        kind: RunKind::Unknown,
        stack: String::new(),
        state: RunPhase::Queued,
        created_at: Timestamp::now(),
        started_at: None,
        finished_at: None,
        events: 0,
        acknowledged: false,
        process: None,
        is_call_scoped: false,
    }
}

/// The outcome of a run whose agent ended.
fn interrupted_outcome(record: &RunRecord, digest: &EventDigest) -> RunOutcome {
    let text = match record.started_at {
        Some(_) => format!(
            "the agent ended during the run, after {} events{}{}; completed changes are in the stack's state",
            digest.lines,
            completed_changes(digest),
            resources_in_progress(digest),
        ),
        None => "the agent ended before the run started; nothing was changed".to_owned(),
    };
    let mut ending = execute::unsuccessful(RunPhase::Interrupted, ErrorClass::Interrupted, text);
    ending.result.resource_changes = digest.changes().clone();
    if let Some(summary) = &mut ending.result.summary {
        summary.start_time = record.started_at.map(to_proto_timestamp);
    }
    ending
}

fn completed_changes(digest: &EventDigest) -> String {
    let change = |(operation, count): (&String, &i32)| format!("{operation} {count}");
    let changes: Vec<String> = digest.changes().iter().map(change).collect();
    if changes.is_empty() {
        return String::new();
    }
    format!(" (completed: {})", changes.join(", "))
}

/// A few of the resources that may be incomplete.
fn resources_in_progress(digest: &EventDigest) -> String {
    const SHOWN: usize = 5;
    let names: Vec<&str> = digest.in_progress.iter().map(String::as_str).collect();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match names.get(..names.len().min(SHOWN)) {
        Some([]) | None => String::new(),
        Some(shown) => format!(", with {}{more} in progress", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{registry::new_record, worker::tests::request},
        *,
    };

    #[test]
    fn interrupted_run_message_has_progress() {
        let mut digest = EventDigest::default();
        let mut record = new_record("one", &request(), false);
        let text = |record: &RunRecord, digest: &EventDigest| {
            let result = interrupted_outcome(record, digest).result;
            result.error.unwrap().message
        };
        let expected = "the agent ended before the run started; nothing was changed";
        assert_eq!(text(&record, &digest), expected);
        record.started_at = Some(Timestamp::now());
        let expected = "the agent ended during the run, after 0 events; \
                        completed changes are in the stack's state";
        assert_eq!(text(&record, &digest), expected);
        digest.add(br#"{"resourcePreEvent": {"metadata": {"op": "create", "urn": "urn:b"}}}"#);
        digest.add(br#"{"resOutputsEvent": {"metadata": {"op": "create", "urn": "urn:a"}}}"#);
        let expected = "the agent ended during the run, after 2 events (completed: create 1), \
                        with urn:b in progress; completed changes are in the stack's state";
        assert_eq!(text(&record, &digest), expected);
        let changes = interrupted_outcome(&record, &digest)
            .result
            .resource_changes;
        assert_eq!(changes, [("create".to_owned(), 1)].into());
    }
}
