//! Lists and maps that are too long for a Workspace.

use pko_api::Stack;

use crate::list_limit::LongList;

/// The first list or map that is too long, of the spec's own or in a template.
pub(super) fn too_long(stack: &Stack) -> Option<String> {
    own(stack)
        .or_else(|| in_templates(stack))
        .map(|long| long.to_string())
}

fn own(stack: &Stack) -> Option<LongList> {
    let spec = &stack.spec;
    [
        ("config", spec.config.len()),
        ("configRef", spec.config_ref.len()),
        ("configRefs", spec.config_refs.len()),
        ("envRefs", spec.env_refs.len()),
        ("envSecrets", spec.env_secrets.len()),
        ("envs", spec.envs.len()),
        ("outputsTo", spec.outputs_to.len()),
        ("prerequisites", spec.prerequisites.len()),
        ("secrets", spec.secrets.len()),
        ("secretsRef", spec.secrets_ref.len()),
    ]
    .into_iter()
    .find_map(|(field, entries)| LongList::new(format!("spec.{field}"), entries))
}

fn in_templates(stack: &Stack) -> Option<LongList> {
    let workspace = stack.spec.workspace_template.iter();
    let mut parts = workspace.flat_map(|template| &template.0);
    let workspace = parts
        .find_map(|(name, part)| LongList::within(&format!("spec.workspaceTemplate.{name}"), part));
    workspace.or_else(|| {
        let update = stack.spec.update_template.as_ref()?;
        let mut metadata = update.metadata.iter().flatten();
        metadata.find_map(|(name, part)| {
            LongList::within(&format!("spec.updateTemplate.metadata.{name}"), part)
        })
    })
}
