//! `pulumi up`, `preview`, `refresh` and `destroy`.

use std::{collections::BTreeMap, fmt::Write as _};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{
    config::StackFile,
    display,
    events::OperationEvents,
    outputs::{self, Output, Outputs},
    passphrase,
    program::YamlProgram,
    stacks::selected_stack,
    state_file::{ResourceState, StackName, StackState, StateFile},
};
use crate::{
    cli_error::{CliError, CliResult, print, print_error},
    script_runner::CallContext,
};

pub(super) struct ResourceChange {
    name: String,
    pub(super) operation: &'static str,
    pub(super) old: Option<ResourceState>,
    pub(super) new: Option<ResourceState>,
}

/// An operation that has begun.
struct Operation<'a> {
    context: &'a CallContext,
    kind: &'static str,
    program: YamlProgram,
    name: StackName,
    stack: StackState,
    configuration: Outputs,
    began: Timestamp,
}

impl<'a> Operation<'a> {
    fn begin(context: &'a CallContext, kind: &'static str) -> CliResult<Self> {
        warn_of_log_level(context);
        let program = YamlProgram::load()?;
        let name = selected_stack(context, &program.name)?;
        let stack = StateFile::read(&context.folder)?.stack(&name)?.clone();
        let doing = "getting stack configuration: get stack secrets manager: ";
        passphrase::check(&stack, doing)?;
        let configuration = StackFile::load(&name.stack)?.values()?;
        context.open_events()?;
        Ok(Self {
            context,
            kind,
            program,
            name,
            stack,
            configuration,
            began: Timestamp::now(),
        })
    }

    fn events(&self, planning: bool) -> OperationEvents<'_> {
        OperationEvents::new(self.context, &self.program.name, &self.name.stack, planning)
    }

    /// Fails on changes under `--expect-no-changes`.
    fn check_expectations(&self, changes: &Map<String, Value>) -> CliResult<()> {
        let differs = changes.keys().any(|kind| kind != "same");
        if differs && self.context.line.has("--expect-no-changes") {
            let kind = self.kind;
            let text = format!("no changes were expected for {kind} but changes were proposed");
            return CliError::result(7, text);
        }
        Ok(())
    }

    /// Saves the result.
    fn keep(
        &self,
        changes: &Map<String, Value>,
        change: impl FnOnce(&mut StackState),
    ) -> CliResult<()> {
        let update = self.update(changes);
        StateFile::change(&self.context.folder, |state| {
            let stack = state.stack(&self.name)?;
            change(stack);
            stack.last_update = Timestamp::now();
            stack.remember(update);
            Ok(())
        })
    }

    /// An entry of the stack's history.
    fn update(&self, changes: &Map<String, Value>) -> Value {
        let config_entry = outputs::printable(&self.configuration, false);
        let config: Map<String, Value> = config_entry
            .into_iter()
            .map(|(key, value)| {
                (
                    key,
                    json!({ "value": super::config::text(&value), "secret": false }),
                )
            })
            .collect();
        let time = |time: Timestamp| format!("{time:.3}");
        json!({
            "version": self.stack.updates, "kind": self.kind, "startTime": time(self.began),
            "message": self.context.line.value("--message").unwrap_or_default(),
            "environment": {
                "exec.kind": self.context.line.value("--exec-kind").unwrap_or_default(),
                "pulumi.version": format!("v{}", self.context.version),
                "runtime.name": self.program.runtime,
            },
            "config": config, "result": "succeeded", "endTime": time(Timestamp::now()),
            "resourceChanges": changes,
        })
    }
}

/// `pulumi up` and `pulumi preview`.
pub(super) fn update(context: &CallContext) -> CliResult<()> {
    let planning = context.line.is("preview");
    let kind = if planning { "preview" } else { "update" };
    let operation = Operation::begin(context, kind)?;
    let heading = if planning {
        "Previewing update"
    } else {
        "Updating"
    };
    print(format!("{heading} ({}):\n", operation.name.stack).as_bytes());
    let names = short_names(&operation.program.name, &operation.configuration);
    let names = operation.program.with_defaults(names);
    let changes = compare(&operation.stack, &operation.program.inputs(&names)?);
    let outputs = operation
        .program
        .outputs(&with_resources(names, &changes))?;
    let counts = report(&operation, &changes, &outputs, planning)?;
    if !planning {
        operation.keep(&counts, |stack| {
            stack.deployed = true;
            stack.outputs = outputs;
            stack.resources = changes
                .into_iter()
                .filter_map(|change| Some((change.name, change.new?)))
                .collect();
        })?;
    }
    operation.check_expectations(&counts)
}

/// Events and text of an update; how many resources changed in which way.
fn report(
    operation: &Operation<'_>,
    changes: &[ResourceChange],
    outputs: &Outputs,
    planning: bool,
) -> CliResult<Map<String, Value>> {
    let events = operation.events(planning);
    let old = operation.stack.deployed.then_some(&operation.stack.outputs);
    let root = if old.is_some() { "same" } else { "create" };
    let urn = events.urn(super::events::ROOT, &events.root_name());
    let mut text = display::root(root, &urn);
    events.prelude(&operation.configuration)?;
    let none = Outputs::new();
    events.root(true, root, old, Some(&none))?;
    if planning {
        events.root(false, root, old, old.or(Some(&none)))?;
    }
    if !changes.is_empty() {
        events.provider(if operation.stack.resources.is_empty() {
            "create"
        } else {
            "same"
        })?;
    }
    for change in changes {
        let urn = events.urn(super::events::STASH, &change.name);
        if change.operation != "same" {
            text += &display::change(change, &urn, planning);
        }
        events.registering(&change.name)?;
        let operations = (change.operation, change.operation);
        events.resource(
            operations,
            &change.name,
            change.old.as_ref(),
            change.new.as_ref(),
        )?;
    }
    events.root(false, root, old, Some(outputs))?;
    let counts = count(changes.iter().map(|change| change.operation).chain([root]));
    text += &display::outputs(old, outputs, planning);
    text += &display::resources(&counts, planning);
    print(text.as_bytes());
    events.summary(&Value::Object(counts.clone()))?;
    Ok(counts)
}

/// `pulumi refresh`, which finds no change.
pub(super) fn refresh(context: &CallContext) -> CliResult<()> {
    let operation = Operation::begin(context, "refresh")?;
    let events = operation.events(false);
    let stack = &operation.stack;
    let root = events.root_name();
    let mut text = format!("Refreshing ({}):\n\n", operation.name.stack);
    events.prelude(&operation.configuration)?;
    if stack.deployed {
        let outputs = Some(&stack.outputs);
        let _ = writeln!(text, " ~  pulumi:pulumi:Stack {root} refreshing (0s) ");
        events.root(true, "refresh", outputs, outputs)?;
        events.root(false, "same", outputs, outputs)?;
    }
    for (name, resource) in &stack.resources {
        let _ = writeln!(text, " ~  pulumi:index:Stash {name} refreshing (0s) ");
        let _ = writeln!(text, "    pulumi:index:Stash {name}  ");
        events.resource(("refresh", "same"), name, Some(resource), Some(resource))?;
    }
    let everything = stack.resources.keys().map(|_| "same");
    let counts = count(everything.chain(stack.deployed.then_some("same")));
    let _ = writeln!(text, "    pulumi:pulumi:Stack {root}  ");
    text += &display::resources(&counts, false);
    print(text.as_bytes());
    events.summary(&Value::Object(counts.clone()))?;
    operation.keep(&counts, |_| {})?;
    operation.check_expectations(&counts)
}

pub(super) fn destroy(context: &CallContext) -> CliResult<()> {
    let operation = Operation::begin(context, "destroy")?;
    let events = operation.events(false);
    let (stack, name) = (&operation.stack, &operation.name.stack);
    let mut text = format!("Destroying ({name}):\n\n");
    events.prelude(&operation.configuration)?;
    for (name, resource) in &stack.resources {
        text += &deletion_text("pulumi:index:Stash", name);
        events.resource(("delete", "delete"), name, Some(resource), None)?;
    }
    if stack.deployed {
        text += &deletion_text("pulumi:pulumi:Stack", &events.root_name());
        for before in [true, false] {
            events.root(before, "delete", Some(&stack.outputs), None)?;
        }
    }
    let everything = stack.resources.keys().map(|_| "delete");
    let counts = count(everything.chain(stack.deployed.then_some("delete")));
    text += &display::resources(&counts, false);
    text += "\nThe resources in the stack have been deleted, but the history and configuration associated with \
             the stack are still maintained. \n";
    let _ = writeln!(
        text,
        "If you want to remove the stack completely, run `pulumi stack rm {name}`."
    );
    print(text.as_bytes());
    events.summary(&Value::Object(counts.clone()))?;
    operation.keep(&counts, |stack| {
        stack.deployed = false;
        stack.resources.clear();
        stack.outputs.clear();
    })
}

fn deletion_text(kind: &str, name: &str) -> String {
    format!(" -  {kind} {name} deleting (0s) \n -  {kind} {name} deleted (0.00s) \n")
}

/// The configuration by names without the project's prefix.
fn short_names(project: &str, configuration: &Outputs) -> Outputs {
    let prefix = format!("{project}:");
    let own = configuration.iter();
    own.filter_map(|(key, output)| Some((key.strip_prefix(&prefix)?.to_owned(), output.clone())))
        .collect()
}

/// Adds the properties of resources.
fn with_resources(mut names: Outputs, changes: &[ResourceChange]) -> Outputs {
    for change in changes {
        if let Some(new) = &change.new {
            let mut add = |property: &str, value: &Value| {
                let name = format!("{}.{property}", change.name);
                names.insert(name, Output::plain(value.clone()));
            };
            add("input", &new.input);
            add("output", &new.output);
        }
    }
    names
}

/// The planned changes of resources.
fn compare(stack: &StackState, inputs: &BTreeMap<String, Value>) -> Vec<ResourceChange> {
    let wanted = inputs.iter().map(|(name, input)| {
        let old = stack.resources.get(name).cloned();
        let operation = match &old {
            None => "create",
            Some(old) if old.input == *input => "same",
            Some(_) => "update",
        };
        let new = ResourceState {
            id: old
                .as_ref()
                .map_or_else(|| identity(name), |old| old.id.clone()),
            // The first input stays the output.
            output: old
                .as_ref()
                .map_or_else(|| input.clone(), |old| old.output.clone()),
            input: input.clone(),
        };
        ResourceChange {
            name: name.clone(),
            operation,
            old,
            new: Some(new),
        }
    });
    let unwanted = stack
        .resources
        .iter()
        .filter(|(name, _)| !inputs.contains_key(*name));
    let unwanted = unwanted.map(|(name, old)| ResourceChange {
        name: name.clone(),
        operation: "delete",
        old: Some(old.clone()),
        new: None,
    });
    wanted.chain(unwanted).collect()
}

/// An id in the real engine's format.
fn identity(name: &str) -> String {
    let digits = hex::encode(Sha256::digest(name));
    format!("00000000-0000-4000-8000-{digits:.12}")
}

fn count<'a>(operations: impl Iterator<Item = &'a str>) -> Map<String, Value> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for operation in operations {
        *counts.entry(operation).or_default() += 1;
    }
    let entries = counts.into_iter();
    entries
        .map(|(operation, count)| (operation.to_owned(), Value::from(count)))
        .collect()
}

/// The real CLI warns that it logs secrets at this level.
fn warn_of_log_level(context: &CallContext) {
    let level: u32 = context
        .line
        .value("-v")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    if level >= 11 && context.line.has("--logtostderr") {
        let time = Timestamp::now();
        let warning = json!({
            "time": time.to_string(), "level": "WARN",
            "msg": format!("log level {level} will print sensitive information such as api tokens and request headers"),
        });
        print_error(format!("{warning}\n").as_bytes());
    }
}
