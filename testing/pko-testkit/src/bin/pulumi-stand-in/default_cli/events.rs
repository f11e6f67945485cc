//! Engine events in the real engine's format.

use std::cell::Cell;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    config,
    outputs::{self, Outputs},
    state_file::ResourceState,
};
use crate::{cli_error::CliResult, script_runner::CallContext};

/// Resource types.
pub(super) const ROOT: &str = "pulumi:pulumi:Stack";
pub(super) const STASH: &str = "pulumi:index:Stash";
const PROVIDER: &str = "pulumi:providers:pulumi";

/// The events of one operation.
pub(super) struct OperationEvents<'a> {
    context: &'a CallContext,
    project: &'a str,
    stack: &'a str,
    planning: bool,
    sequence: Cell<u64>,
}

impl<'a> OperationEvents<'a> {
    pub(super) fn new(
        context: &'a CallContext,
        project: &'a str,
        stack: &'a str,
        planning: bool,
    ) -> Self {
        Self {
            context,
            project,
            stack,
            planning,
            sequence: Cell::new(0),
        }
    }

    pub(super) fn urn(&self, kind: &str, name: &str) -> String {
        format!(
            "urn:pulumi:{}::{}::{kind}::{name}",
            self.stack, self.project
        )
    }

    /// The name of the stack itself among its resources.
    pub(super) fn root_name(&self) -> String {
        format!("{}-{}", self.project, self.stack)
    }

    pub(super) fn prelude(&self, configuration: &Outputs) -> CliResult<()> {
        let config: Map<String, Value> = outputs::printable(configuration, false)
            .into_iter()
            .map(|(key, value)| (key, Value::from(config::text(&value))))
            .collect();
        self.emit("preludeEvent", &json!({ "config": config }))
    }

    /// A step of the stack itself, before or after the outputs are known.
    pub(super) fn root(
        &self,
        before: bool,
        operation: &str,
        old: Option<&Outputs>,
        new: Option<&Outputs>,
    ) -> CliResult<()> {
        let name = self.root_name();
        let state = |outputs: &Outputs| {
            let outputs = Value::Object(outputs::in_event(outputs));
            self.state(ROOT, &name, "", &json!({}), &outputs)
        };
        let (old, new) = (old.map(state), new.map(state));
        let metadata = self.metadata(operation, ROOT, &name, [old.as_ref(), new.as_ref()]);
        self.step(before, &metadata)
    }

    /// Both steps of the provider of all resources.
    pub(super) fn provider(&self, operation: &str) -> CliResult<()> {
        let state = self.state(PROVIDER, "default", "provider", &json!({}), &json!({}));
        let old = (operation != "create").then(|| state.clone());
        let new = (operation != "delete").then_some(state);
        for before in [true, false] {
            let states = [old.as_ref(), new.as_ref()];
            let metadata = self.metadata(operation, PROVIDER, "default", states);
            self.step(before, &metadata)?;
        }
        Ok(())
    }

    /// Both steps of a resource.
    pub(super) fn resource(
        &self,
        operations: (&str, &str),
        name: &str,
        old: Option<&ResourceState>,
        new: Option<&ResourceState>,
    ) -> CliResult<()> {
        let state = |resource: &ResourceState| {
            let inputs = json!({ "input": resource.input });
            let outputs = json!({ "input": resource.input, "output": resource.output });
            self.state(STASH, name, &resource.id, &inputs, &outputs)
        };
        let (old, new) = (old.map(state), new.map(state));
        for (before, operation) in [(true, operations.0), (false, operations.1)] {
            let metadata = self.metadata(operation, STASH, name, [old.as_ref(), new.as_ref()]);
            self.step(before, &metadata)?;
        }
        Ok(())
    }

    pub(super) fn registering(&self, name: &str) -> CliResult<()> {
        let message = format!("Registering resource [{name}]\n");
        let event = json!({
            "prefix": "debug: ", "message": message, "color": "never", "severity": "debug"
        });
        self.emit("diagnosticEvent", &event)
    }

    pub(super) fn summary(&self, changes: &Value) -> CliResult<()> {
        let summary = json!({
            "maybeCorrupt": false, "durationSeconds": 1, "resourceChanges": changes,
            "PolicyPacks": {}, "isPreview": self.planning, "result": "succeeded"
        });
        self.emit("summaryEvent", &summary)?;
        self.emit("cancelEvent", &json!({}))
    }

    fn step(&self, before: bool, metadata: &Value) -> CliResult<()> {
        let kind = if before {
            "resourcePreEvent"
        } else {
            "resOutputsEvent"
        };
        let mut event = json!({ "metadata": metadata });
        if let (true, Some(event)) = (self.planning, event.as_object_mut()) {
            event.insert("planning".to_owned(), Value::Bool(true));
        }
        self.emit(kind, &event)
    }

    fn metadata(
        &self,
        operation: &str,
        kind: &str,
        name: &str,
        states: [Option<&Value>; 2],
    ) -> Value {
        let [old, new] = states;
        json!({
            "op": operation, "urn": self.urn(kind, name), "type": kind, "old": old, "new": new,
            "detailedDiff": null, "logical": true, "provider": ""
        })
    }

    fn state(&self, kind: &str, name: &str, id: &str, inputs: &Value, outputs: &Value) -> Value {
        let parent = if kind == STASH {
            self.urn(ROOT, &self.root_name())
        } else {
            String::new()
        };
        json!({
            "type": kind, "urn": self.urn(kind, name), "custom": kind != ROOT, "id": id,
            "parent": parent, "inputs": inputs, "outputs": outputs, "provider": ""
        })
    }

    fn emit(&self, kind: &str, payload: &Value) -> CliResult<()> {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        let timestamp = Timestamp::now().as_second();
        self.context
            .emit(&json!({ "sequence": sequence, "timestamp": timestamp, kind: payload }))
    }
}
