//! References that can't be followed: named with their key, before anything is made.

use pko_api::{
    names::{events::StackEvent, reasons::StackReason},
    pulumi::v1::{ResourceRef, ResourceRefType},
};

use crate::{
    condition_set::Summary,
    stack::{Case, Effect, Event, Step},
    step::{Requeue, finish},
};

/// Refuses a reference that no workspace could follow.
pub(in crate::stack) fn reject_bad(case: &Case) -> Option<Step> {
    let message = first_problem(case)?;
    let summary = Summary::Stalled(StackReason::SpecInvalid, message.clone());
    let mut effects = case.recorded(case.summarised(&summary));
    // Told once, with the status that says the same.
    if effects
        .iter()
        .any(|effect| matches!(effect, Effect::PatchStatus(_)))
    {
        effects.push(Effect::Emit(Event {
            reason: StackEvent::StackConfigInvalid,
            message,
            warning: true,
        }));
    }
    Some(finish(effects, Requeue::Settled))
}

fn first_problem(case: &Case) -> Option<String> {
    let spec = &case.world.stack.spec;
    let namespace = case
        .world
        .stack
        .metadata
        .namespace
        .as_deref()
        .unwrap_or_default();
    let variables = spec
        .env_refs
        .iter()
        .map(|(key, reference)| ("envRefs", key, reference));
    let secrets = spec
        .secrets_ref
        .iter()
        .map(|(key, reference)| ("secretsRef", key, reference));
    variables
        .chain(secrets)
        .find_map(|(field, key, reference)| {
            problem(field, reference, namespace)
                .map(|problem| format!("{problem} (spec.{field}.{key})"))
        })
}

fn problem(field: &str, reference: &ResourceRef, namespace: &str) -> Option<String> {
    let selected = match &reference.reference_type {
        ResourceRefType::Secret => reference.secret.as_ref(),
        ResourceRefType::ConfigMap if field == "envRefs" => reference.config_map.as_ref(),
        ResourceRefType::Literal if reference.literal.is_some() => return None,
        ResourceRefType::Literal => None,
        deprecated @ (ResourceRefType::Env | ResourceRefType::File) => {
            return Some(format!("ref type \"{deprecated}\" is deprecated"));
        }
        other => {
            return Some(format!(
                "ref type \"{other}\" is unknown: use Secret, ConfigMap or Literal"
            ));
        }
    };
    let Some(selected) = selected else {
        return Some(format!(
            "ref type \"{}\" needs its selector",
            reference.reference_type
        ));
    };
    let foreign = selected
        .namespace
        .as_deref()
        .is_some_and(|other| !other.is_empty() && other != namespace);
    foreign.then(|| "cross-namespace refs are not allowed".to_owned())
}
