//! Invalid references to Secrets and ConfigMaps.

use pko_api::{
    Stack,
    pulumi::v1::{ResourceRef, ResourceRefType},
};

/// Rejects a reference of an unsupported kind, without its selector, or to another namespace.
pub(super) fn invalid_reference(stack: &Stack) -> Option<String> {
    use ResourceRefType::{ConfigMap, Literal, Secret};

    let spec = &stack.spec;
    let namespace = stack.metadata.namespace.as_deref().unwrap_or_default();
    let variables = spec.env_refs.iter().find_map(|(key, reference)| {
        let (problem, way_out) = problem(reference, &[Secret, ConfigMap, Literal], namespace)?;
        Some(format!("{problem} (spec.envRefs.{key}: {way_out})"))
    });
    variables.or_else(|| {
        spec.secrets_ref.iter().find_map(|(key, reference)| {
            let (problem, way_out) = problem(reference, &[Secret, Literal], namespace)?;
            Some(format!("{problem} (spec.secretsRef.{key}: {way_out})"))
        })
    })
}

/// The problem, in upstream's words if upstream has some, and the way out.
fn problem(
    reference: &ResourceRef,
    usable: &[ResourceRefType],
    namespace: &str,
) -> Option<(String, String)> {
    let kind = &reference.reference_type;
    if !usable.contains(kind) {
        let old = matches!(kind, ResourceRefType::Env | ResourceRefType::File);
        let problem = if old { "deprecated" } else { "unknown here" };
        return Some((
            format!("ref type \"{kind}\" is {problem}"),
            format!("use {}", join_kinds(usable)),
        ));
    }
    let selected = match kind {
        ResourceRefType::Secret => reference.secret.as_ref(),
        ResourceRefType::ConfigMap => reference.config_map.as_ref(),
        _ if reference.literal.is_some() => return None,
        _ => None,
    };
    let Some(selected) = selected else {
        return Some((
            format!("ref type \"{kind}\" needs its selector"),
            format!("add `{}`", selector(kind)),
        ));
    };
    let is_own = |other: &&String| other.is_empty() || *other == namespace;
    let foreign = selected.namespace.as_ref().filter(|other| !is_own(other))?;
    Some((
        "cross-namespace refs are not allowed".to_owned(),
        format!("namespace \"{foreign}\" is not the Stack's own, remove it"),
    ))
}

fn selector(kind: &ResourceRefType) -> &'static str {
    match kind {
        ResourceRefType::Secret => "secret",
        ResourceRefType::ConfigMap => "configMap",
        _ => "literal",
    }
}

fn join_kinds(usable: &[ResourceRefType]) -> String {
    let usable: Vec<&str> = usable.iter().map(ResourceRefType::as_str).collect();
    usable.join(" or ")
}

/// Rejects variables with names that no process can have.
pub(super) fn invalid_variable(stack: &Stack) -> Option<String> {
    let mut names = stack.spec.env_refs.keys();
    let name = names.find(|name| name.is_empty() || name.contains(['=', '\0']))?;
    Some(format!(
        "spec.envRefs has {name:?}, which is not a valid variable name: rename it"
    ))
}
