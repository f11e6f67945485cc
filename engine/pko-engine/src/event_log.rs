//! The event log: one JSON object for each event in Pulumi's own format, in a file or sent to a
//! listener.

use std::{
    fs::File,
    io::{self, Write as _},
};

use jiff::Timestamp;
use pulumi_engine_deploy::plan::{Changes, Operation, Step};
use pulumi_engine_model::{
    property::{self, Properties},
    resource::Resource,
    urn::Urn,
};
use serde_json::{Map, Value, json};

use crate::event_stream::EventStream;

/// The path for standard output.
pub(crate) const SCREEN: &str = "-";

/// Where events go.
enum Sink {
    Nowhere,
    Screen,
    File(File),
    Listener(EventStream),
}

pub(crate) struct EventLog {
    sink: Sink,
    sequence: u64,
    planning: bool,
}

impl EventLog {
    /// Opens a log: a file, or a listener at `tcp://host:port`. `planning` is true for a preview.
    pub(crate) fn open(place: Option<&str>, planning: bool) -> io::Result<Self> {
        let sink = match place {
            None => Sink::Nowhere,
            Some(SCREEN) => Sink::Screen,
            Some(place) => match place.strip_prefix("tcp://") {
                Some(address) => Sink::Listener(EventStream::open(address)),
                None => Sink::File(File::create(place)?),
            },
        };
        Ok(Self {
            sink,
            sequence: 0,
            planning,
        })
    }

    /// Whether the run is a preview.
    #[must_use]
    pub(crate) fn is_preview(&self) -> bool {
        self.planning
    }

    /// Writes each event at once and whole, because the agent follows the file.
    fn emit(&mut self, kind: &str, payload: &Value) -> io::Result<()> {
        if matches!(self.sink, Sink::Nowhere) {
            return Ok(());
        }
        let timestamp = Timestamp::now().as_second();
        let event = json!({ "sequence": self.sequence, "timestamp": timestamp, kind: payload });
        self.sequence += 1;
        match &mut self.sink {
            Sink::Nowhere => {}
            Sink::Screen => crate::display::line(&event.to_string())?,
            Sink::File(file) => file.write_all(format!("{event}\n").as_bytes())?,
            Sink::Listener(listener) => listener.send(event.to_string()),
        }
        Ok(())
    }

    pub(crate) fn prelude(&mut self, config: &Map<String, Value>) -> io::Result<()> {
        self.emit("preludeEvent", &json!({ "config": config }))
    }

    /// A step begins.
    pub(crate) fn before(&mut self, step: &Step) -> io::Result<()> {
        let mut metadata = metadata(step, step.operation);
        if step.operation != Operation::Refresh
            && let Some(Value::Object(new)) = metadata.get_mut("new")
        {
            new.insert("id".to_owned(), json!(""));
            new.insert("outputs".to_owned(), json!({}));
        }
        self.emit("resourcePreEvent", &self.with_planning(metadata))
    }

    /// A step is done.
    pub(crate) fn after(&mut self, step: &Step) -> io::Result<()> {
        let operation = if step.operation == Operation::Refresh {
            step.found
        } else {
            step.operation
        };
        self.emit(
            "resOutputsEvent",
            &self.with_planning(metadata(step, operation)),
        )
    }

    pub(crate) fn failed(&mut self, step: &Step) -> io::Result<()> {
        let mut payload = self.with_planning(metadata(step, step.operation));
        if let Some(entries) = payload.as_object_mut() {
            entries.insert("status".to_owned(), json!(0));
            entries.insert("steps".to_owned(), json!(0));
        }
        self.emit("resOpFailedEvent", &payload)
    }

    fn with_planning(&self, metadata: Value) -> Value {
        let mut payload = Map::from_iter([("metadata".to_owned(), metadata)]);
        if self.planning {
            payload.insert("planning".to_owned(), json!(true));
        }
        Value::Object(payload)
    }

    /// A message to the user.
    pub(crate) fn diagnostic(
        &mut self,
        urn: Option<&Urn>,
        severity: &str,
        message: &str,
    ) -> io::Result<()> {
        let mut payload = json!({
            "prefix": format!("{severity}: "),
            "message": format!("{message}\n"),
            "color": "never",
            "severity": severity,
        });
        if let (Some(urn), Some(entries)) = (urn, payload.as_object_mut()) {
            entries.insert("urn".to_owned(), json!(urn));
        }
        self.emit("diagnosticEvent", &payload)
    }

    /// The run is over.
    pub(crate) fn summary(
        &mut self,
        seconds: u64,
        changes: &Changes,
        result: &str,
    ) -> io::Result<()> {
        let preview = self.planning;
        self.emit(
            "summaryEvent",
            &json!({
                "maybeCorrupt": false,
                "durationSeconds": seconds,
                "resourceChanges": changes,
                "PolicyPacks": {},
                "isPreview": preview,
                "result": result,
            }),
        )?;
        self.emit("cancelEvent", &json!({}))
    }
}

fn metadata(step: &Step, operation: Operation) -> Value {
    let kind = step
        .resource()
        .map_or("", |resource| resource.kind.as_str());
    let provider = step
        .resource()
        .map_or("", |resource| resource.provider.as_str());
    let mut metadata = json!({
        "op": operation.name(),
        "urn": step.urn,
        "type": kind,
        "old": step.old.as_ref().map(resource_state),
        "new": step.new.as_ref().map(resource_state),
        "detailedDiff": null,
        "provider": provider,
    });
    if let Some(entries) = metadata.as_object_mut() {
        if !step.replace_keys.is_empty() {
            entries.insert("keys".to_owned(), json!(step.replace_keys));
        }
        if !step.differences.is_empty() {
            entries.insert("diffs".to_owned(), json!(step.differences));
        }
        if step.operation.is_logical() {
            entries.insert("logical".to_owned(), json!(true));
        }
    }
    metadata
}

fn resource_state(resource: &Resource) -> Value {
    let shown = |properties: &Option<Properties>| {
        properties
            .as_ref()
            .map_or_else(|| json!({}), property::blinded)
    };
    let mut state = json!({
        "type": resource.kind,
        "urn": resource.urn,
        "id": resource.id,
        "parent": resource.parent.as_ref().map_or("", Urn::as_str),
        "inputs": shown(&resource.inputs),
        "outputs": shown(&resource.outputs),
        "provider": resource.provider,
    });
    let flags = [
        ("custom", resource.custom),
        ("delete", resource.delete),
        ("protect", resource.protect),
        ("external", resource.external),
        ("retainOnDelete", resource.retain_on_delete),
    ];
    if let Some(entries) = state.as_object_mut() {
        entries.extend(
            flags
                .into_iter()
                .filter(|(_, set)| *set)
                .map(|(name, _)| (name.to_owned(), json!(true))),
        );
    }
    state
}
