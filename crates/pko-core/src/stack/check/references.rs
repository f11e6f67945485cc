//! References that can't be followed.

use pko_api::{
    Stack,
    pulumi::v1::{ResourceRef, ResourceRefType},
};

/// A reference of a kind that is not usable there, without its selector, or to another namespace.
pub(super) fn unusable(stack: &Stack) -> Option<String> {
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

/// What is wrong, in upstream's words where it has some, and what to do.
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
            format!("use {}", listed(usable)),
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
    let own = |other: &&String| other.is_empty() || *other == namespace;
    let foreign = selected.namespace.as_ref().filter(|other| !own(other))?;
    Some((
        "cross-namespace refs are not allowed".to_owned(),
        format!("namespace \"{foreign}\" is not the Stack's own, leave it out"),
    ))
}

fn selector(kind: &ResourceRefType) -> &'static str {
    match kind {
        ResourceRefType::Secret => "secret",
        ResourceRefType::ConfigMap => "configMap",
        _ => "literal",
    }
}

fn listed(usable: &[ResourceRefType]) -> String {
    let usable: Vec<&str> = usable.iter().map(ResourceRefType::as_str).collect();
    usable.join(" or ")
}

/// A variable of a name that no process can have.
pub(super) fn unnameable(stack: &Stack) -> Option<String> {
    let mut names = stack.spec.env_refs.keys();
    let name = names.find(|name| name.is_empty() || name.contains(['=', '\0']))?;
    Some(format!(
        "spec.envRefs has {name:?}, which is no name of a variable: rename it"
    ))
}
