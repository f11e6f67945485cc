//! Engine events, one JSON object in a line of a file: it is read while it grows, and what the agent
//! itself must know is picked out of it.

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

/// The type of the resource that is the stack itself.
const ROOT_TYPE: &str = "pulumi:pulumi:Stack";

/// Reads whole lines of a file that somebody else is writing.
pub(crate) struct Lines {
    path: PathBuf,
    file: Option<BufReader<File>>,
    partial: Vec<u8>,
}

impl Lines {
    pub(crate) fn of(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            partial: Vec::new(),
        }
    }

    /// The next whole line without its end, or nothing if there is none yet. May be dropped and
    /// called again.
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

/// What the agent itself must know of the events.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    /// How many lines there were.
    pub(crate) lines: u64,
    /// How many resources were created, updated and so on, as the summary says.
    resource_changes: BTreeMap<String, i32>,
    /// The outputs of the stack itself, secrets as markers.
    pub(crate) outputs: Option<Map<String, Value>>,
    /// How many steps of each kind were completed; what there is if the summary never came.
    completed: BTreeMap<String, i32>,
    /// The resources whose steps have begun and not ended.
    pub(crate) under_way: BTreeSet<String>,
}

impl Digest {
    /// Takes one line in; one that is no event counts, and says nothing.
    pub(crate) fn add(&mut self, line: &[u8]) {
        self.lines += 1;
        let Ok(event) = serde_json::from_slice::<Event>(line) else {
            tracing::debug!(line = self.lines, "A line of the event log is no event");
            return;
        };
        if let Some(summary) = event.summary {
            self.resource_changes = summary.resource_changes.unwrap_or_default();
        }
        if let Some(begun) = event.begun {
            self.under_way.insert(begun.metadata.urn);
        }
        if let Some(failed) = event.failed {
            self.under_way.remove(&failed.metadata.urn);
        }
        if let Some(ended) = event.outputs {
            self.complete(ended.metadata);
        }
    }

    fn complete(&mut self, step: Metadata) {
        self.under_way.remove(&step.urn);
        *self.completed.entry(step.operation).or_default() += 1;
        if step.kind == ROOT_TYPE {
            self.outputs = step.new.and_then(|state| state.outputs);
        }
    }

    /// What was changed: as the summary says, or as far as it is known without one.
    pub(crate) fn changes(&self) -> &BTreeMap<String, i32> {
        if self.resource_changes.is_empty() {
            &self.completed
        } else {
            &self.resource_changes
        }
    }
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "summaryEvent")]
    summary: Option<Summary>,
    #[serde(rename = "resourcePreEvent")]
    begun: Option<Step>,
    #[serde(rename = "resOutputsEvent")]
    outputs: Option<Step>,
    #[serde(rename = "resOpFailedEvent")]
    failed: Option<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    resource_changes: Option<BTreeMap<String, i32>>,
}

#[derive(Deserialize)]
struct Step {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "op", default)]
    operation: String,
    #[serde(default)]
    urn: String,
    #[serde(rename = "type", default)]
    kind: String,
    new: Option<State>,
}

#[derive(Deserialize)]
struct State {
    outputs: Option<Map<String, Value>>,
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn only_whole_lines_of_a_growing_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut lines = Lines::of(path.clone());
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
    fn the_digest_has_changes_and_outputs_of_the_stack_itself() {
        let events = [
            json!({"sequence": 0, "preludeEvent": {"config": {}}}),
            json!({"resOutputsEvent": {"metadata": {"type": "pulumi:index:Stash", "new": {"outputs": {"no": 1}}}}}),
            json!({"resOutputsEvent": {"metadata": {"type": ROOT_TYPE, "new": {"outputs": {"yes": 1}}}}}),
            json!({"summaryEvent": {"resourceChanges": {"create": 3}, "isPreview": false}}),
            json!({"somethingNew": {}}),
        ];
        let mut digest = Digest::default();
        for event in &events {
            digest.add(event.to_string().as_bytes());
        }
        digest.add(b"not json");
        assert_eq!(digest.lines, 6);
        assert_eq!(*digest.changes(), [("create".to_owned(), 3)].into());
        assert_eq!(Value::Object(digest.outputs.unwrap()), json!({"yes": 1}));
    }

    #[test]
    fn without_a_summary_the_steps_are_counted() {
        let step = |event: &str, operation: &str, urn: &str| {
            let step = json!({event: {"metadata": {"op": operation, "urn": urn}}});
            step.to_string()
        };
        let mut digest = Digest::default();
        for urn in ["a", "b", "c"] {
            digest.add(step("resourcePreEvent", "create", urn).as_bytes());
        }
        digest.add(step("resOutputsEvent", "create", "a").as_bytes());
        digest.add(step("resOpFailedEvent", "create", "c").as_bytes());
        assert_eq!(*digest.changes(), [("create".to_owned(), 1)].into());
        assert_eq!(digest.under_way, ["b".to_owned()].into());
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_strange(line: Vec<u8>) {
            Digest::default().add(&line);
        }
    }
}
