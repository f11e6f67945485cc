//! Destroy, and what a program no longer has. Pure.

use std::collections::BTreeSet;

use super::{Action, Failure, Operation, Plan, Selection, Step};
use crate::{resource::Resource, urn::Urn};

/// Plans a destroy.
#[must_use]
pub fn plan(old: &[Resource], selection: &Selection) -> Plan {
    let doomed = doomed(old, selection);
    let mut actions: Vec<_> = old
        .iter()
        .filter(|resource| doomed.contains(&resource.urn) && !selection.dependents)
        .filter(|resource| !selection.includes(&resource.urn))
        .map(|resource| Action::Failure(unnamed_dependent(&resource.urn)))
        .collect();
    if actions.is_empty() {
        let resources = old.iter().filter(|resource| doomed.contains(&resource.urn));
        actions = steps(resources, &BTreeSet::new());
        actions.extend(kept(old, &doomed));
    }
    Plan {
        actions,
        warnings: Vec::new(),
    }
}

/// The targets and all that cannot be without them.
fn doomed(old: &[Resource], selection: &Selection) -> BTreeSet<Urn> {
    let mut doomed = BTreeSet::new();
    for resource in old {
        let needs = |other: &str| doomed.iter().any(|urn: &Urn| urn.as_str() == other);
        if selection.includes(&resource.urn) || resource.references().any(needs) {
            doomed.insert(resource.urn.clone());
        }
    }
    doomed
}

/// What a destroy with targets leaves alone.
fn kept(old: &[Resource], doomed: &BTreeSet<Urn>) -> impl Iterator<Item = Action> {
    old.iter()
        .filter(|resource| !doomed.contains(&resource.urn))
        .map(|resource| {
            let same = Step::new(
                Operation::Same,
                Some(resource.clone()),
                Some(resource.clone()),
            );
            Action::Step(Box::new(same))
        })
}

fn unnamed_dependent(urn: &Urn) -> Failure {
    let message = format!(
        "Resource '{urn}' will be destroyed but was not specified in --target list.\n\
         Either include resource in --target list or pass --target-dependents to proceed."
    );
    Failure::new(Some(urn.clone()), message)
}

/// Steps that delete the given resources, last first.
pub(super) fn steps<'a>(
    resources: impl DoubleEndedIterator<Item = &'a Resource>,
    replaced: &BTreeSet<Urn>,
) -> Vec<Action> {
    resources
        .rev()
        .map(|resource| {
            let operation = if resource.delete || replaced.contains(&resource.urn) {
                Operation::DeleteReplaced
            } else {
                Operation::Delete
            };
            let refusal = (operation == Operation::Delete && resource.protect).then(|| {
                format!(
                    "resource {:?} cannot be deleted because it is protected; to unprotect it, \
                     set its option `protect: false` and run `up`",
                    resource.urn.as_str()
                )
            });
            let step = Step {
                refusal,
                ..Step::new(operation, Some(resource.clone()), None)
            };
            Action::Step(Box::new(step))
        })
        .collect()
}
