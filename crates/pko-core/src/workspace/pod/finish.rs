//! Completes the containers after the user's template is merged.

use pko_api::Workspace;
use serde_json::{Value, json};

use super::{ENV_FILE, SHARE, SHARE_PATH, container_name, profile, put, secret_variables};

const ENV_FILE_VARIABLE: &str = "PULUMI_ENV";

/// The final template. The operator's init containers come first, in their order: the user's may
/// need the files that they create.
pub(super) fn finish_template(
    workspace: &Workspace,
    mut template: Value,
    base_order: &[String],
) -> Value {
    let Some(spec) = template.get_mut("spec") else {
        return template;
    };
    if let Some(Value::Array(containers)) = spec.get_mut("initContainers") {
        let position = |container: &Value| {
            base_order
                .iter()
                .position(|name| name == container_name(container))
                .unwrap_or(usize::MAX)
        };
        containers.sort_by_cached_key(position);
        for container in containers {
            mount_share(container);
            finish_container(workspace, container);
        }
    }
    if let Some(Value::Array(containers)) = spec.get_mut("containers") {
        for container in containers {
            finish_container(workspace, container);
        }
    }
    secret_variables::name_all(spec);
    template
}

fn finish_container(workspace: &Workspace, container: &mut Value) {
    apply_profile(workspace, container);
    name_env_file(container);
    keep_end_of_log(container);
}

/// The kubelet copies the end of a failed container's log into the pod's status, so the operator
/// needs no right to read logs.
fn keep_end_of_log(container: &mut Value) {
    let policy = "terminationMessagePolicy";
    if container.get(policy).is_none_or(Value::is_null) {
        put(container, policy, "FallbackToLogsOnError");
    }
}

/// An init container has an effect only through the shared volume.
fn mount_share(container: &mut Value) {
    let is_present =
        |mount: &Value| has(mount, "name", SHARE) || has(mount, "mountPath", SHARE_PATH);
    let share = json!({"name": SHARE, "mountPath": SHARE_PATH});
    push_unless(container, "volumeMounts", is_present, share);
}

/// Applies to containers without a security context, so that the whole pod is restricted.
fn apply_profile(workspace: &Workspace, container: &mut Value) {
    let Some(context) = profile::container(workspace) else {
        return;
    };
    if container.get("securityContext").is_none_or(Value::is_null) {
        put(container, "securityContext", context);
    }
}

fn name_env_file(container: &mut Value) {
    let is_present = |variable: &Value| has(variable, "name", ENV_FILE_VARIABLE);
    let variable = json!({"name": ENV_FILE_VARIABLE, "value": ENV_FILE});
    push_unless(container, "env", is_present, variable);
}

fn has(item: &Value, field: &str, value: &str) -> bool {
    item.get(field).and_then(Value::as_str) == Some(value)
}

fn push_unless(
    container: &mut Value,
    list: &str,
    is_present: impl Fn(&Value) -> bool,
    item: Value,
) {
    let items = container.get(list).and_then(Value::as_array);
    let mut items = items.cloned().unwrap_or_default();
    if !items.iter().any(is_present) {
        items.push(item);
        put(container, list, items);
    }
}
