//! Engine events, one JSON object in a line of a file: it is read while it grows, and what the
//! agent itself must know is picked out of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::{
    fs::File,
    io::{AsyncBufReadExt, BufReader},
};

/// The type of the stack's own resource.
const ROOT_TYPE: &str = "pulumi:pulumi:Stack";

/// Reads whole lines of a file that is being written.
pub(crate) struct LineTail {
    path: PathBuf,
    file: Option<BufReader<File>>,
    partial: Vec<u8>,
}

impl LineTail {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            partial: Vec::new(),
        }
    }

    /// The next whole line without its end, or `None` if there is none yet. Cancel safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.open().await?;
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        file.read_until(b'\n', &mut self.partial).await?;
        if self.partial.pop_if(|last| *last == b'\n').is_none() {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.partial)))
    }

    async fn open(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = match File::open(&self.path).await {
                Ok(file) => Some(BufReader::new(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }
}

/// What the agent itself needs from the events.
#[derive(Debug, Default)]
pub(crate) struct EventDigest {
    pub(crate) lines: u64,
    /// Resources by operation, from the summary event.
    resource_changes: BTreeMap<String, i32>,
    /// The stack's outputs, with markers for secrets.
    pub(crate) outputs: Option<Map<String, Value>>,
    /// Completed steps by operation, for runs without a summary event.
    completed: BTreeMap<String, i32>,
    /// The resources whose steps have started and not finished.
    pub(crate) in_progress: BTreeSet<String>,
}

impl EventDigest {
    /// Adds one line. A line that is not an event is only counted.
    pub(crate) fn add(&mut self, line: &[u8]) {
        self.lines += 1;
        let Ok(event) = serde_json::from_slice::<EngineEvent>(line) else {
            tracing::debug!(line = self.lines, "Line of the event log is not an event");
            return;
        };
        if let Some(summary) = event.summary {
            self.resource_changes = summary.resource_changes.unwrap_or_default();
        }
        if let Some(started) = event.started {
            self.in_progress.insert(started.metadata.urn);
        }
        if let Some(failed) = event.failed {
            self.in_progress.remove(&failed.metadata.urn);
        }
        if let Some(finished) = event.outputs {
            self.complete(finished.metadata);
        }
    }

    fn complete(&mut self, step: StepMetadata) {
        self.in_progress.remove(&step.urn);
        *self.completed.entry(step.operation).or_default() += 1;
        if step.kind == ROOT_TYPE {
            self.outputs = step.new.and_then(|state| state.outputs);
        }
    }

    /// The changes by the summary event, or else by the completed steps.
    pub(crate) fn changes(&self) -> &BTreeMap<String, i32> {
        if self.resource_changes.is_empty() {
            &self.completed
        } else {
            &self.resource_changes
        }
    }
}

#[derive(Deserialize)]
struct EngineEvent {
    #[serde(rename = "summaryEvent")]
    summary: Option<SummaryEvent>,
    #[serde(rename = "resourcePreEvent")]
    started: Option<ResourceStep>,
    #[serde(rename = "resOutputsEvent")]
    outputs: Option<ResourceStep>,
    #[serde(rename = "resOpFailedEvent")]
    failed: Option<ResourceStep>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SummaryEvent {
    resource_changes: Option<BTreeMap<String, i32>>,
}

#[derive(Deserialize)]
struct ResourceStep {
    metadata: StepMetadata,
}

#[derive(Deserialize)]
struct StepMetadata {
    #[serde(rename = "op", default)]
    operation: String,
    #[serde(default)]
    urn: String,
    #[serde(rename = "type", default)]
    kind: String,
    new: Option<ResourceState>,
}

#[derive(Deserialize)]
struct ResourceState {
    outputs: Option<Map<String, Value>>,
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn line_tail_returns_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut lines = LineTail::new(path.clone());
        assert_eq!(lines.next().await.unwrap(), None);
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(lines.next().await.unwrap().unwrap(), b"one");
        assert_eq!(lines.next().await.unwrap(), None);
        file.write_all(b"o\n\nthree\n").unwrap();
        for expected in ["two", "", "three"] {
            assert_eq!(lines.next().await.unwrap().unwrap(), expected.as_bytes());
        }
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[test]
    fn digest_has_changes_and_stack_outputs() {
        let events = [
            json!({"sequence": 0, "preludeEvent": {"config": {}}}),
            json!({"resOutputsEvent": {"metadata": {"type": "pulumi:index:Stash", "new": {"outputs": {"no": 1}}}}}),
            json!({"resOutputsEvent": {"metadata": {"type": ROOT_TYPE, "new": {"outputs": {"yes": 1}}}}}),
            json!({"summaryEvent": {"resourceChanges": {"create": 3}, "isPreview": false}}),
            json!({"somethingNew": {}}),
        ];
        let mut digest = EventDigest::default();
        for event in &events {
            digest.add(event.to_string().as_bytes());
        }
        digest.add(b"not json");
        assert_eq!(digest.lines, 6);
        assert_eq!(*digest.changes(), [("create".to_owned(), 3)].into());
        assert_eq!(Value::Object(digest.outputs.unwrap()), json!({"yes": 1}));
    }

    #[test]
    fn digest_without_summary_counts_steps() {
        let step = |event: &str, operation: &str, urn: &str| {
            let step = json!({event: {"metadata": {"op": operation, "urn": urn}}});
            step.to_string()
        };
        let mut digest = EventDigest::default();
        for urn in ["a", "b", "c"] {
            digest.add(step("resourcePreEvent", "create", urn).as_bytes());
        }
        digest.add(step("resOutputsEvent", "create", "a").as_bytes());
        digest.add(step("resOpFailedEvent", "create", "c").as_bytes());
        assert_eq!(*digest.changes(), [("create".to_owned(), 1)].into());
        assert_eq!(digest.in_progress, ["b".to_owned()].into());
    }

    proptest::proptest! {
        #[test]
        fn digest_accepts_any_line(line: Vec<u8>) {
            EventDigest::default().add(&line);
        }
    }
}
