//! Prints the properties that a step changes, and its outputs.

use pulumi_engine_deploy::plan::{Operation, Step, path::Path};
use pulumi_engine_model::{
    property::{Properties, Property},
    resource::Resource,
};

use super::{
    Options,
    difference::{self, Change, Difference, Differences},
    palette::color,
    printer::{Printer, is_worth_showing, width},
    words::{is_stack, sign},
};

/// The properties to show. Secrets are masked, so that not even a difference shows.
fn visible(options: &Options, properties: Option<&Properties>) -> Properties {
    match properties {
        Some(properties) if options.show_secrets => properties.clone(),
        Some(properties) => difference::masked(properties),
        None => Properties::new(),
    }
}

fn inputs(options: &Options, resource: &Resource) -> Properties {
    visible(options, resource.inputs.as_ref())
}

fn outputs(options: &Options, resource: &Resource) -> Properties {
    visible(options, resource.outputs.as_ref())
}

/// Prints the properties that a step changes. There are no outputs while it `begins`.
pub(super) fn properties(
    options: &Options,
    step: &Step,
    operation: Operation,
    indent: usize,
    begins: bool,
) -> String {
    let mut out = String::new();
    let printer = Printer {
        options,
        indent,
        operation,
        signed: false,
    };
    let given = |resource: &Resource| {
        if begins {
            Properties::new()
        } else {
            outputs(options, resource)
        }
    };
    match (&step.old, &step.new) {
        (None, Some(new)) => {
            let given = given(new);
            let shown = if given.is_empty() {
                inputs(options, new)
            } else {
                given
            };
            printer.object(&mut out, &shown);
        }
        (Some(old), None) => printer.object(&mut out, &inputs(options, old)),
        (Some(old), Some(new)) => {
            let import = matches!(operation, Operation::Import | Operation::ImportReplacement);
            let given = given(new);
            if given.is_empty() || import {
                let both = (inputs(options, old), inputs(options, new));
                compared(&mut out, printer, &both, &step.differences, new);
            } else {
                compared(&mut out, printer, &(outputs(options, old), given), &[], new);
            }
        }
        (None, None) => {}
    }
    out
}

fn compared(
    out: &mut String,
    printer: Printer<'_>,
    (old, new): &(Properties, Properties),
    only: &[String],
    resource: &Resource,
) {
    let Some(mut differences) = difference::between(old, new) else {
        let same = Printer {
            operation: Operation::Same,
            signed: true,
            ..printer
        };
        return same.object(out, new);
    };
    let hidden = hide(&mut differences, resource);
    printer.hidden(out, &hidden);
    let printer = Printer {
        signed: true,
        ..printer
    };
    printer.differences(out, &differences, only);
}

/// Removes the properties of `hideDiffs`, and returns their names.
fn hide(differences: &mut Differences, resource: &Resource) -> Vec<String> {
    let mut hidden = Vec::new();
    for path in &resource.hide_diff {
        let Ok(path) = Path::parse("hideDiffs", path) else {
            continue;
        };
        let parts = path.names();
        if take(differences, &parts) {
            hidden.push(parts.join("."));
        }
    }
    hidden.sort();
    hidden.dedup();
    hidden
}

fn take(differences: &mut Differences, path: &[String]) -> bool {
    let Some((name, rest)) = path.split_first() else {
        return false;
    };
    match (differences.get_mut(name), rest) {
        (Some(Difference::Update(Change::Object(inner))), [_, ..]) => take(inner, rest),
        (Some(Difference::Same(_)) | None, _) => false,
        (Some(_), _) => differences.remove(name).is_some(),
    }
}

/// A short summary of added, removed and changed inputs.
pub(super) fn in_short(options: &Options, step: &Step, operation: Operation) -> Option<String> {
    let (old, new) = (step.old.as_ref()?, step.new.as_ref()?);
    let mut names: [Vec<String>; 3] = Default::default();
    let [added, deleted, updated] = &mut names;
    let mut any = false;
    if operation != Operation::Same
        && let Some(differences) = difference::between(&inputs(options, old), &inputs(options, new))
    {
        any = true;
        for (name, difference) in differences {
            match difference {
                Difference::Add(_) => added.push(name),
                Difference::Delete(_) => deleted.push(name),
                Difference::Update(_) => updated.push(name),
                Difference::Same(_) => {}
            }
        }
    }
    let own = [
        ("provider", old.provider != new.provider),
        ("protect", old.protect != new.protect),
    ];
    for (name, _) in own.iter().filter(|(_, differs)| *differs) {
        any = true;
        updated.push((*name).to_owned());
    }
    updated.sort();
    let shown = |name: &&String| step.differences.is_empty() || step.differences.contains(name);
    let group = |(operation, names): (Operation, &Vec<String>)| {
        let names: Vec<_> = names.iter().filter(shown).map(String::as_str).collect();
        let text = format!("{}{}", sign(operation).trim_end(), names.join(","));
        (!names.is_empty()).then(|| options.colors.paint(color(operation), &text))
    };
    let groups: String = [Operation::Create, Operation::Delete, Operation::Update]
        .into_iter()
        .zip(&names)
        .filter_map(group)
        .collect();
    any.then(|| format!("diff: {groups}"))
}

/// The outputs to show: those that differ from before, and from the inputs.
pub(super) fn results(
    options: &Options,
    step: &Step,
    operation: Operation,
    indent: usize,
    planning: bool,
    refresh: bool,
) -> String {
    let stack = is_stack(&step.urn);
    let show_sames = options.show_sames || (stack && !planning);
    let known = matches!(
        operation,
        Operation::Read
            | Operation::ReadReplacement
            | Operation::Import
            | Operation::ImportReplacement
    );
    let unwell = step
        .old
        .as_ref()
        .is_some_and(|old| !old.init_errors.is_empty());
    if (planning && !(refresh || known || stack)) || unwell {
        return String::new();
    }
    let given = |of: fn(&Options, &Resource) -> Properties| {
        step.new
            .as_ref()
            .map(|new| of(options, new))
            .unwrap_or_default()
    };
    let (ins, outs) = (given(inputs), given(outputs));
    let before = step.old.as_ref().and_then(|old| old.outputs.as_ref());
    let before = before.map(|outputs| visible(options, Some(outputs)));
    let mut differences = before
        .as_ref()
        .and_then(|old| difference::between(old, &outs));
    if before.is_some() && differences.is_none() && !show_sames {
        return String::new();
    }
    let printer = Printer {
        options,
        indent,
        operation,
        signed: false,
    };
    let mut out = String::new();
    if let Some(differences) = &mut differences {
        if planning && stack {
            forget_unknown(differences);
        }
        if let Some(resource) = step.resource() {
            printer.hidden(&mut out, &hide(differences, resource));
        }
    }
    let repeated =
        |name: &String| !refresh && ins.get(name) == outs.get(name) && ins.contains_key(name);
    match differences {
        None => {
            let width = width(outs.keys());
            for (name, value) in &outs {
                if !difference::is_internal(name) && is_worth_showing(value) && !repeated(name) {
                    printer.property(&mut out, name, width, value);
                }
            }
        }
        Some(differences) => {
            let width = width(differences.keys());
            for (name, difference) in &differences {
                let same = matches!(difference, Difference::Same(_));
                if !repeated(name) && (show_sames || !same) {
                    printer.difference(&mut out, name, width, difference);
                }
            }
        }
    }
    out
}

/// Unknown outputs of the stack are not shown as changes.
fn forget_unknown(differences: &mut Differences) {
    let unknown = |difference: &Difference| {
        matches!(
            difference,
            Difference::Update(Change::Plain {
                new: Property::Unknown,
                ..
            })
        )
    };
    differences.retain(|_, difference| !unknown(difference));
}
