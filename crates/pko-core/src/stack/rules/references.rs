//! References that can't be followed and names that are given twice: told by field, before anything is made.

use pko_api::pulumi::v1::{ResourceRef, ResourceRefType, StackSpec};

use crate::stack::{Case, Step, desired};

/// Refuses what no workspace could follow.
pub(in crate::stack) fn reject_bad(case: &Case) -> Option<Step> {
    let stack = &case.world.stack;
    let namespace = stack.metadata.namespace.as_deref().unwrap_or_default();
    let problem = bad_reference(&stack.spec, namespace)
        .or_else(|| repeated_variable(&stack.spec))
        .or_else(|| repeated_key(&stack.spec))?;
    Some(case.refused(problem))
}

fn bad_reference(spec: &StackSpec, namespace: &str) -> Option<String> {
    use ResourceRefType::{ConfigMap, Literal, Secret};

    let variables = spec.env_refs.iter().find_map(|(key, reference)| {
        let problem = problem(reference, &[Secret, ConfigMap, Literal], namespace)?;
        Some(format!("{problem} (spec.envRefs.{key})"))
    });
    variables.or_else(|| {
        spec.secrets_ref.iter().find_map(|(key, reference)| {
            let problem = problem(reference, &[Secret, Literal], namespace)?;
            Some(format!("{problem} (spec.secretsRef.{key})"))
        })
    })
}

fn problem(reference: &ResourceRef, usable: &[ResourceRefType], namespace: &str) -> Option<String> {
    let kind = &reference.reference_type;
    if matches!(kind, ResourceRefType::Env | ResourceRefType::File) {
        return Some(format!("ref type \"{kind}\" is deprecated"));
    }
    if !usable.contains(kind) {
        let usable: Vec<&str> = usable.iter().map(ResourceRefType::as_str).collect();
        let usable = usable.join(" or ");
        return Some(format!("ref type \"{kind}\" is unknown here: use {usable}"));
    }
    let selected = match kind {
        ResourceRefType::Secret => reference.secret.as_ref(),
        ResourceRefType::ConfigMap => reference.config_map.as_ref(),
        _ if reference.literal.is_some() => return None,
        _ => None,
    };
    let Some(selected) = selected else {
        return Some(format!("ref type \"{kind}\" needs its selector"));
    };
    let own = |other: &String| other.is_empty() || other == namespace;
    let foreign = !selected.namespace.as_ref().is_none_or(own);
    foreign.then(|| "cross-namespace refs are not allowed".to_owned())
}

/// Variables are a list by name: the API server refuses a Workspace that has one twice.
fn repeated_variable(spec: &StackSpec) -> Option<String> {
    let own = [
        (desired::BACKEND_VARIABLE, "backend", &spec.backend),
        (
            desired::TOKEN_VARIABLE,
            "accessTokenSecret",
            &spec.access_token_secret,
        ),
    ];
    own.into_iter().find_map(|(variable, field, value)| {
        let set = value.as_ref().is_some_and(|value| !value.is_empty());
        (set && spec.env_refs.contains_key(variable)).then(|| {
            format!("spec.envRefs.{variable} and spec.{field} set the same variable: keep one")
        })
    })
}

/// So is config.
fn repeated_key(spec: &StackSpec) -> Option<String> {
    let references = spec.config_map_refs();
    let keys = spec.config.keys().map(|key| (key, "config"));
    let keys = keys.chain(references.keys().map(|key| (key, "configRef")));
    let keys = keys.chain(spec.secrets.keys().map(|key| (key, "secrets")));
    let mut keys: Vec<(&String, &str)> = keys
        .chain(spec.secrets_ref.keys().map(|key| (key, "secretsRef")))
        .collect();
    // Stable: of two fields the one that comes first in the config is named first.
    keys.sort_by_key(|(key, _)| *key);
    let mut neighbours = keys.iter().zip(keys.iter().skip(1));
    neighbours.find_map(|((key, field), (next, other))| {
        (key == next).then(|| format!("spec.{field} and spec.{other} both set {key:?}: keep one"))
    })
}
