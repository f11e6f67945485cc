//! The ConfigMaps and Secrets without which a workspace could not start.

use std::time::Duration;

use super::workspace;
use crate::stack::{
    Case, Step,
    references::{self, Reference, ReferenceKind},
};

/// For a Secret that nobody watches; the event of any other object ends the wait.
const MISSING_AGAIN: Duration = Duration::from_secs(30);

/// Waits until everything is there that the workspace reads. A Stack that goes waits, too, if it owes a destroy: that
/// runs in the workspace. What only a source needs is the source's to tell.
pub(in crate::stack) fn wait(case: &Case) -> Option<Step> {
    ask(case).or_else(|| {
        let message = missing(case)?;
        let told = || case.refused_until_looked_at(message, MISSING_AGAIN);
        Some(workspace::try_in_namespace(case).unwrap_or_else(told))
    })
}

/// Asks for what is not known of them.
pub(super) fn ask(case: &Case) -> Option<Step> {
    let kinds = [ReferenceKind::ConfigMap, ReferenceKind::Secret];
    kinds
        .into_iter()
        .find_map(|kind| references::ask(&case.world, kind))
}

/// The first that does not exist, in upstream's words, and how many more there are.
fn missing(case: &Case) -> Option<String> {
    let mut missing: Vec<Reference> = Vec::new();
    for input in references::inputs(&case.world.stack.spec) {
        let is_missing = references::is_missing(&case.world, &input);
        let same = |other: &Reference| (other.kind, other.name) == (input.kind, input.name);
        if is_missing && !missing.iter().any(same) {
            missing.push(input);
        }
    }
    let (first, others) = missing.split_first()?;
    let namespace = case.world.stack.metadata.namespace.as_deref();
    let message = not_found(first, namespace.unwrap_or_default());
    Some(match others.len() {
        0 => message,
        more => format!("{message}, and {more} more"),
    })
}

fn not_found(input: &Reference, namespace: &str) -> String {
    let Reference { name, field, .. } = input;
    let (one, all) = match input.kind {
        ReferenceKind::ConfigMap => ("configmap", "configmaps"),
        ReferenceKind::Secret => ("secret", "secrets"),
    };
    format!("unable to get {one} {namespace}/{name}: {all} \"{name}\" not found ({field})")
}
