//! After the user's template is merged: what every container gets, whoever wrote it.

use pko_api::Workspace;
use serde_json::{Value, json};

use super::{ENV_FILE, SHARE, SHARE_PATH, container_name, profile, put};

const ENV_FILE_VARIABLE: &str = "PULUMI_ENV";

/// The template as the API server gets it. The operator's own init containers come first, in their
/// order: they bring what the user's may need.
pub(super) fn finished(workspace: &Workspace, mut template: Value, base_order: &[String]) -> Value {
    let Some(spec) = template.get_mut("spec") else {
        return template;
    };
    if let Some(Value::Array(containers)) = spec.get_mut("initContainers") {
        let place = |container: &Value| {
            base_order
                .iter()
                .position(|name| name == container_name(container))
                .unwrap_or(usize::MAX)
        };
        containers.sort_by_cached_key(place);
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
    template
}

fn finish_container(workspace: &Workspace, container: &mut Value) {
    apply_profile(workspace, container);
    name_env_file(container);
    keep_last_words(container);
}

/// The kubelet puts the end of a failed container's log into the pod's status, where we read it: no right to read
/// logs is needed.
fn keep_last_words(container: &mut Value) {
    let policy = "terminationMessagePolicy";
    if container.get(policy).is_none_or(Value::is_null) {
        put(container, policy, "FallbackToLogsOnError");
    }
}

/// An init container writes to the shared volume, or it has no effect.
fn mount_share(container: &mut Value) {
    let is_there = |mount: &Value| has(mount, "name", SHARE) || has(mount, "mountPath", SHARE_PATH);
    let share = json!({"name": SHARE, "mountPath": SHARE_PATH});
    push_unless(container, "volumeMounts", is_there, share);
}

/// Where a container says nothing of its own, so that a restricted pod is one as a whole.
fn apply_profile(workspace: &Workspace, container: &mut Value) {
    let Some(context) = profile::container(workspace) else {
        return;
    };
    if container.get("securityContext").is_none_or(Value::is_null) {
        put(container, "securityContext", context);
    }
}

fn name_env_file(container: &mut Value) {
    let is_there = |variable: &Value| has(variable, "name", ENV_FILE_VARIABLE);
    let variable = json!({"name": ENV_FILE_VARIABLE, "value": ENV_FILE});
    push_unless(container, "env", is_there, variable);
}

fn has(item: &Value, field: &str, value: &str) -> bool {
    item.get(field).and_then(Value::as_str) == Some(value)
}

/// One more item in a list of the container, unless there is one like it.
fn push_unless(container: &mut Value, list: &str, is_there: impl Fn(&Value) -> bool, item: Value) {
    let items = container.get(list).and_then(Value::as_array);
    let mut items = items.cloned().unwrap_or_default();
    if !items.iter().any(is_there) {
        items.push(item);
        put(container, list, items);
    }
}
