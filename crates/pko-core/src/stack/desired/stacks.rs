//! The stacks of a Workspace: those of the template, and the Stack's own.

use std::collections::BTreeSet;

use pko_api::{JsonObject, auto::v1alpha1::WorkspaceStack, pulumi::v1::StackSpec};
use serde_json::{Value, json};

use super::{config, present, template::Template, volumes::Volumes};

/// The Stack's own, whose config may add volumes.
pub(super) fn own(spec: &StackSpec, volumes: &mut Volumes) -> WorkspaceStack {
    WorkspaceStack {
        name: spec.stack.clone(),
        create: Some(spec.may_create_stack()),
        secrets_provider: present(spec.secrets_provider.as_ref()).cloned(),
        config: config::items(spec, volumes),
        environment: spec.environment.clone(),
    }
}

/// Appends the Stack's own to those of the template. An entry of the template with the same name is
/// merged over it, because a list by name has each name once.
///
/// # Errors
/// The field of the template that can't be merged.
pub(super) fn append(
    own: WorkspaceStack,
    template: &Template,
    spec: &mut JsonObject,
) -> Result<(), String> {
    let listed = into_list(spec.remove("stacks"));
    let is_own = |stack: &Value| stack.get("name").is_some_and(|name| *name == own.name);
    let (about_own, others): (Vec<Value>, Vec<Value>) = listed.into_iter().partition(is_own);
    let with_path = |stacks: Vec<Value>| json!({ "spec": { "stacks": stacks } });
    let own = without_repeated_config(own, &about_own);
    let mut merged = template.merge(with_path(vec![json!(own)]), &with_path(about_own))?;
    let own = into_list(merged.pointer_mut("/spec/stacks").map(Value::take));
    spec.insert("stacks".to_owned(), others.into_iter().chain(own).collect());
    Ok(())
}

/// Removes config that the template repeats. A merge could mix an inline value with a file.
fn without_repeated_config(mut own: WorkspaceStack, about_own: &[Value]) -> WorkspaceStack {
    let items = about_own.iter().filter_map(|stack| stack.get("config"));
    let items = items.filter_map(Value::as_array).flatten();
    let repeated = items.filter_map(|item| item.get("key")?.as_str());
    let repeated: BTreeSet<&str> = repeated.collect();
    own.config
        .retain(|item| !repeated.contains(item.key.as_str()));
    own
}

fn into_list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}
