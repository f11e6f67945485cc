//! `spec.updateTemplate`.

use pko_api::{
    Update,
    auto::v1alpha1::{OperationType, UpdateSpec},
    pulumi::v1::StackSpec,
};

use super::{template::Template, update::workspace_name};
use crate::{merge::MergeSchema, stack::ObservedStack};

const FIELD: &str = "spec.updateTemplate";

/// Merges the template over the Update.
///
/// # Errors
/// The template is invalid.
pub(super) fn merge(generated: Update, spec: &StackSpec) -> Result<Update, String> {
    let Some(template) = &spec.update_template else {
        return Ok(generated);
    };
    let options = template.spec.as_ref().map(serde_json::to_value).transpose();
    let options = options.map_err(|error| format!("{FIELD}.spec: {error}"))?;
    let template = Template::new(
        FIELD,
        &MergeSchema::UPDATE,
        template.metadata.as_ref(),
        options,
    );
    let merged = template.decode(template.merge_over(&generated)?)?;
    Ok(restore_fixed_fields(merged, generated))
}

/// Why the template can't be used: it sets a field that connects one Update with the next. A
/// deletion ignores it.
pub(in crate::stack) fn problem(observed: &ObservedStack) -> Option<String> {
    let template = observed.stack.spec.update_template.as_ref();
    let template = template.filter(|_| !observed.is_deleting())?;
    let metadata = template.metadata.as_ref();
    let name = metadata.and_then(|metadata| metadata.get("name"));
    if name.is_some_and(|name| !name.is_null() && name != "") {
        return Some(format!(
            "{FIELD}.metadata.name: the operator names each Update; remove the field"
        ));
    }
    template
        .spec
        .as_ref()
        .and_then(|options| fixed_field_problem(observed, options))
}

/// Rejects options that change what an Update does, or where.
fn fixed_field_problem(observed: &ObservedStack, options: &UpdateSpec) -> Option<String> {
    let spec = &observed.stack.spec;
    let operation = match spec.preview {
        Some(true) => OperationType::Preview,
        _ => OperationType::Up,
    };
    let operation_of_template = options.operation.as_ref().map(ToString::to_string);
    [
        ("type", operation_of_template, operation.to_string()),
        ("stackName", options.stack_name.clone(), spec.stack.clone()),
        (
            "workspaceName",
            options.workspace_name.clone(),
            workspace_name(observed).unwrap_or_default(),
        ),
    ]
    .into_iter()
    .find_map(|(field, value, due)| {
        value.filter(|value| !value.is_empty() && *value != due)?;
        Some(format!(
            "{FIELD}.spec.{field}: the Stack sets this to {due:?}; remove the field"
        ))
    })
}

/// Restores what a template does not change: the owners, the name and the purpose.
fn restore_fixed_fields(mut merged: Update, generated: Update) -> Update {
    let (own, spec) = (generated.metadata, generated.spec);
    let metadata = &mut merged.metadata;
    metadata.name = own.name;
    let labels = metadata.labels.get_or_insert_default();
    labels.extend(own.labels.into_iter().flatten());
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.extend(own.annotations.into_iter().flatten());
    // The refresh before an update has to fail if it finds changes.
    let expected = spec.expect_no_changes.or(merged.spec.expect_no_changes);
    merged.spec = UpdateSpec {
        workspace_name: spec.workspace_name,
        stack_name: spec.stack_name,
        operation: spec.operation,
        expect_no_changes: expected,
        ..merged.spec
    };
    merged
}
