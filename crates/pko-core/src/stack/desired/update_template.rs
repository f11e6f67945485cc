//! The template of an Update: what it may say, and what it may not.

use pko_api::{
    Update,
    auto::v1alpha1::{OperationType, UpdateSpec},
    pulumi::v1::StackSpec,
};

use super::{template::Template, update::workspace_name};
use crate::{merge::MergeSchema, stack::ObservedStack};

/// The field that holds it.
const FIELD: &str = "spec.updateTemplate";

/// The Update with the template over it.
///
/// # Errors
/// The template makes something of it that can't be.
pub(super) fn over(generated: Update, spec: &StackSpec) -> Result<Update, String> {
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
    let merged = template.decoded(template.over(&generated)?)?;
    Ok(guarded(merged, generated))
}

/// What a template says that would break the way from one Update to the next. A deletion is not held up by it: there it
/// counts for nothing.
pub(in crate::stack) fn problem(observed: &ObservedStack) -> Option<String> {
    let template = observed.stack.spec.update_template.as_ref();
    let template = template.filter(|_| !observed.is_deleting())?;
    let metadata = template.metadata.as_ref();
    let name = metadata.and_then(|metadata| metadata.get("name"));
    if name.is_some_and(|name| !name.is_null() && name != "") {
        return Some(format!(
            "{FIELD}.metadata.name: each Update has a name of its own, which the operator gives it: remove the field"
        ));
    }
    template
        .spec
        .as_ref()
        .and_then(|options| diverted(observed, options))
}

/// An option that would make an Update do something else, or somewhere else.
fn diverted(observed: &ObservedStack, options: &UpdateSpec) -> Option<String> {
    let spec = &observed.stack.spec;
    let operation = match spec.preview {
        Some(true) => OperationType::Preview,
        _ => OperationType::Up,
    };
    let said = options.operation.as_ref().map(ToString::to_string);
    [
        ("type", said, operation.to_string()),
        ("stackName", options.stack_name.clone(), spec.stack.clone()),
        (
            "workspaceName",
            options.workspace_name.clone(),
            workspace_name(observed).unwrap_or_default(),
        ),
    ]
    .into_iter()
    .find_map(|(field, said, due)| {
        let said = said.filter(|said| !said.is_empty() && *said != due)?;
        Some(format!(
            "{FIELD}.spec.{field}: the Stack itself makes this {due:?}, not {said:?}: remove the field"
        ))
    })
}

/// The Update with what no template changes: whose it is, what it is called and what it is for.
fn guarded(mut merged: Update, generated: Update) -> Update {
    let (own, spec) = (generated.metadata, generated.spec);
    let metadata = &mut merged.metadata;
    metadata.name = own.name;
    let labels = metadata.labels.get_or_insert_default();
    labels.extend(own.labels.into_iter().flatten());
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.extend(own.annotations.into_iter().flatten());
    // A refresh that comes first is there to find changes.
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
