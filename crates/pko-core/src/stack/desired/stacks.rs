//! The stacks of a workspace: those that a template brings, and the Stack's own.

use std::collections::BTreeSet;

use pko_api::{JsonObject, auto::v1alpha1::WorkspaceStack, pulumi::v1::StackSpec};
use serde_json::{Value, json};

use super::{config, present, template::Template, volumes::Volumes};

/// The Stack's own, with what its config needs to have mounted.
pub(super) fn own(spec: &StackSpec, volumes: &mut Volumes) -> WorkspaceStack {
    WorkspaceStack {
        name: spec.stack.clone(),
        create: Some(spec.may_create_stack()),
        secrets_provider: present(spec.secrets_provider.as_ref()).cloned(),
        config: config::items(spec, volumes),
        environment: spec.environment.clone(),
    }
}

/// Adds the Stack's own to those of the template. What the template says of that very one is laid over it: a list by
/// name has each name once.
///
/// # Errors
/// What in the template can't be merged, by its field.
pub(super) fn append(
    own: WorkspaceStack,
    template: &Template,
    spec: &mut JsonObject,
) -> Result<(), String> {
    let listed = list(spec.remove("stacks"));
    let is_own = |stack: &Value| stack.get("name").is_some_and(|name| *name == own.name);
    let (about_own, others): (Vec<Value>, Vec<Value>) = listed.into_iter().partition(is_own);
    let place = |stacks: Vec<Value>| json!({ "spec": { "stacks": stacks } });
    let own = without_repeated_config(own, &about_own);
    let mut merged = template.merged(place(vec![json!(own)]), &place(about_own))?;
    let own = list(merged.pointer_mut("/spec/stacks").map(Value::take));
    spec.insert("stacks".to_owned(), others.into_iter().chain(own).collect());
    Ok(())
}

/// Config that is said again is replaced: half a value from here and half a file from there is neither.
fn without_repeated_config(mut own: WorkspaceStack, about_own: &[Value]) -> WorkspaceStack {
    let items = about_own.iter().filter_map(|stack| stack.get("config"));
    let items = items.filter_map(Value::as_array).flatten();
    let repeated = items.filter_map(|item| item.get("key")?.as_str());
    let repeated: BTreeSet<&str> = repeated.collect();
    own.config
        .retain(|item| !repeated.contains(item.key.as_str()));
    own
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}
