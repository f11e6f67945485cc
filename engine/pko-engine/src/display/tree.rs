//! The tree of a run (`--diff`): each resource under its parent, with property diffs.

use std::collections::HashMap;

use pulumi_engine_deploy::plan::{Operation, Step};
use pulumi_engine_model::{resource::Resource, urn::Urn};

use super::{
    Options, details,
    palette::{Color, color},
    words::{is_stack, outcome, retained, sign},
};

/// The steps shown so far.
#[derive(Debug, Default)]
pub(super) struct Tree {
    seen: HashMap<Urn, ShownResource>,
    pub(super) failed: usize,
}

#[derive(Debug)]
struct ShownResource {
    operation: Operation,
    shown: bool,
    parent: Option<Urn>,
}

impl Tree {
    /// A step begins.
    pub(super) fn before(&mut self, options: &Options, step: &Step) -> String {
        let shown = is_shown(options, step, step.operation);
        let seen = ShownResource {
            operation: step.operation,
            shown,
            parent: step.resource().and_then(|resource| resource.parent.clone()),
        };
        self.seen.insert(step.urn.clone(), seen);
        let later = matches!(step.operation, Operation::Refresh | Operation::Import);
        if later || !shown {
            return String::new();
        }
        // the replacement was shown already, with its outputs
        let begins = step.operation != Operation::Replace;
        self.changes(options, step, step.operation, begins)
    }

    /// A step is done.
    pub(super) fn after(&self, options: &Options, step: &Step, planning: bool) -> String {
        let operation = outcome(step);
        if !is_shown(options, step, operation) {
            return String::new();
        }
        let first = self.seen.get(&step.urn).map(|seen| seen.operation);
        let refresh = first == Some(Operation::Refresh);
        if operation == Operation::Import || (refresh && operation == Operation::Update) {
            return self.changes(options, step, operation, false);
        }
        let indent = self.indent(step);
        let mut out = String::new();
        if refresh {
            out.push_str(&header(options, step, operation, indent));
        }
        let results = details::results(options, step, operation, indent + 1, planning, refresh);
        if !options.suppress_outputs && !results.is_empty() {
            let title = format!("{}--outputs:--", "    ".repeat(indent + 1));
            out.push_str(&options.colors.paint(color(operation), &title));
            out.push('\n');
            out.push_str(&results);
        }
        out
    }

    fn changes(
        &self,
        options: &Options,
        step: &Step,
        operation: Operation,
        begins: bool,
    ) -> String {
        let indent = self.indent(step);
        let mut out = header(options, step, operation, indent);
        if operation != Operation::Same {
            out.push_str(&details::properties(
                options,
                step,
                operation,
                indent + 1,
                begins,
            ));
        }
        out.push_str(options.colors.start(Color::Plain));
        out
    }

    /// The number of shown parents.
    fn indent(&self, step: &Step) -> usize {
        let mut indent = 0;
        let mut parent = step
            .resource()
            .and_then(|resource| resource.parent.as_ref());
        while let Some(seen) = parent.and_then(|urn| self.seen.get(urn)) {
            indent += usize::from(seen.shown);
            parent = seen.parent.as_ref();
        }
        indent
    }
}

/// Whether a step is shown. Unchanged resources and the steps of a replacement need an option.
fn is_shown(options: &Options, step: &Step, operation: Operation) -> bool {
    if step.resource().is_some_and(Resource::is_default_provider) {
        return false;
    }
    match operation {
        _ if is_stack(&step.urn) => true,
        Operation::Same => options.shows_same(step),
        Operation::RemovePendingReplace => false,
        Operation::Refresh => true,
        other => other.is_logical() || options.show_replacement_steps,
    }
}

fn header(options: &Options, step: &Step, operation: Operation, indent: usize) -> String {
    let colors = options.colors;
    let kind = step
        .resource()
        .map_or("", |resource| resource.kind.as_str());
    let named = if options.show_urns {
        step.urn.as_str()
    } else {
        kind
    };
    let mut out = format!(
        "{}{}{}{named}: ({}{}){}\n",
        "    ".repeat(indent),
        colors.start(color(operation)),
        sign(operation),
        operation.name(),
        retained(step, operation),
        lock(step),
    );
    let of = match operation {
        Operation::Create
        | Operation::Delete
        | Operation::DeleteReplaced
        | Operation::Discard
        | Operation::DiscardReplaced => operation,
        _ => Operation::Same,
    };
    let mut line = |text: String| {
        let line = format!("{}{text}\n", "    ".repeat(indent + 1));
        out.push_str(&colors.paint(color(of), &line));
    };
    if let Some(old) = step.old.as_ref().filter(|old| !old.id.is_empty()) {
        line(format!("[id={}]", old.id));
    }
    if !options.show_urns {
        line(format!("[urn={}]", step.urn));
    }
    if let Some(provider) = provider(step) {
        line(provider);
    }
    out
}

/// The provider, if it changed or is not the default one.
fn provider(step: &Step) -> Option<String> {
    let provider = &step.resource()?.provider;
    if provider.is_empty() {
        return None;
    }
    if let (Some(old), Some(new)) = (&step.old, &step.new)
        && old.provider != new.provider
    {
        return Some(format!("[provider: {} => {}]", old.provider, new.provider));
    }
    let (urn, _) = provider.rsplit_once("::")?;
    (Urn::new(urn).name() != "default").then(|| format!("[provider={provider}]"))
}

fn lock(step: &Step) -> &'static str {
    let protects = |resource: &Option<Resource>| resource.as_ref().is_some_and(|own| own.protect);
    match (&step.old, &step.new) {
        (Some(old), Some(new)) if old.protect && !new.protect => " 🔓",
        _ if protects(&step.old) || protects(&step.new) => " 🔒",
        _ => "",
    }
}
