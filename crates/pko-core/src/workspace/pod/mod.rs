//! A workspace as a pod: the Service and the StatefulSet for a spec.
//!
//! ```text
//!   spec ──check──▶ source ──▶ init containers ─┐
//!                   profile, env, resources ────┴▶ base template ──merge──▶ user's template ──finish──▶ pod
//! ```

mod agent;
mod cached_fields;
mod check;
mod containers;
mod finish;
mod plan;
mod problem;
mod profile;
mod restrictions;
#[cfg(test)]
mod scenarios;
mod secret_variables;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use pko_api::{Workspace, names::labels};
use serde_json::{Value, json};

pub use agent::{AdmittedCallers, PodAgent, pod_agent};
pub use cached_fields::{trim_pod, trim_service, trim_stateful_set};
pub use check::Invalid;
use finish::finish_template;
pub use plan::{
    ExistingResources, PodPlan, PodState, PodWrite, RunningPod, WAITING, WaitingRuns,
    WorkspaceDemand, has_orphaned_run, is_outdated, plan,
};
pub use problem::problem;
pub use restrictions::PodRestrictions;
pub use secret_variables::SECRET_VARIABLES;
pub use source::{git_credentials, revision_hash};

use super::owner_reference;
use crate::merge::{self, MergeSchema};

/// The volume that all containers share.
const SHARE: &str = "share";
const SHARE_PATH: &str = "/share";
/// The program's folder, or a link to it.
const WORKSPACE_PATH: &str = "/share/workspace";
const ENV_FILE: &str = "/share/.env";
/// The container in which `pulumi` runs.
pub const PULUMI_CONTAINER: &str = "pulumi";
const GRPC_PORT: u16 = 50051;
/// Enough for an interrupted update to end.
const TERMINATION_SECONDS: u32 = 600;

/// Settings from the manager's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// The image that contains the agent.
    pub agent_image: String,
    pub agent_image_pull_policy: String,
    /// The limit for artifacts, as written by the user.
    pub max_untar_size: Option<String>,
    /// PEM; verifies the manager's tokens.
    pub manager_public_key: String,
    /// What pods may be.
    pub restrictions: PodRestrictions,
}

/// The name of the Service and of the StatefulSet.
#[must_use]
pub fn child_name(workspace: &Workspace) -> String {
    format!("{}-workspace", name(workspace))
}

/// The name of the one pod.
#[must_use]
pub fn pod_name(workspace: &Workspace) -> String {
    format!("{}-0", child_name(workspace))
}

/// The agent's address inside the cluster.
#[must_use]
pub fn address(workspace: &Workspace) -> String {
    format!(
        "{}.{}:{GRPC_PORT}",
        child_name(workspace),
        namespace(workspace)
    )
}

/// The audience that a caller's token must have.
#[must_use]
pub fn audience(workspace: &Workspace) -> String {
    format!("{}.{}", name(workspace), namespace(workspace))
}

/// The headless Service that gives the pod its name.
#[must_use]
pub fn service(workspace: &Workspace) -> Value {
    let template = workspace.spec.service_template.clone().unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    let mut labels = json!(metadata.labels);
    // The system labels take precedence: the operator finds its children by them.
    for (name, value) in system_labels(workspace) {
        put(&mut labels, &name, value);
    }
    let mut own = child_metadata(workspace);
    put(&mut own, "labels", labels);
    if !metadata.annotations.is_empty() {
        put(&mut own, "annotations", json!(metadata.annotations));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": own,
        "spec": {
            "clusterIP": "None",
            "selector": system_labels(workspace),
            "ports": [{"name": "grpc", "port": GRPC_PORT, "targetPort": GRPC_PORT, "protocol": "TCP"}],
        },
    })
}

/// Checks a spec for any workspace runtime.
pub fn check(workspace: &Workspace) -> Result<(), Invalid> {
    check::spec(workspace)
}

/// The StatefulSet with its single pod.
pub fn stateful_set(workspace: &Workspace, settings: &AgentSettings) -> Result<Value, Invalid> {
    check::spec(workspace)?;
    let template = pod_template(workspace, settings)?;
    check::template(workspace, &template)?;
    settings.restrictions.check(&template)?;
    Ok(json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": child_metadata(workspace),
        "spec": {
            "serviceName": child_name(workspace),
            "replicas": 1,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": system_labels(workspace)},
            "template": template,
        },
    }))
}

fn pod_template(workspace: &Workspace, settings: &AgentSettings) -> Result<Value, Invalid> {
    let base = json!({
        "metadata": {
            "labels": system_labels(workspace),
            "annotations": {pko_api::names::annotations::REVISION_HASH: revision_hash(workspace)},
        },
        "spec": {
            "serviceAccountName": settings.restrictions.service_account(given_service_account(workspace)),
            "terminationGracePeriodSeconds": TERMINATION_SECONDS,
            "securityContext": profile::pod(workspace),
            "initContainers": containers::init(workspace, settings),
            "containers": [containers::pulumi(workspace, settings)],
            "volumes": [{"name": SHARE, "emptyDir": {}}],
        },
    });
    let base_order = init_names(&base);
    let patch = json!(workspace.spec.pod_template);
    let merged = if patch.is_null() {
        base
    } else {
        merge::merge(&MergeSchema::POD_TEMPLATE, base, &patch)
            .map_err(|error| Invalid::new("spec.podTemplate", error.to_string()))?
    };
    Ok(finish_template(workspace, merged, &base_order))
}

/// The names of the init containers, in order.
fn init_names(template: &Value) -> Vec<String> {
    let containers = template
        .pointer("/spec/initContainers")
        .and_then(Value::as_array);
    let names = containers.into_iter().flatten().map(container_name);
    names.map(str::to_owned).collect()
}

fn container_name(container: &Value) -> &str {
    container
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn child_metadata(workspace: &Workspace) -> Value {
    json!({
        "name": child_name(workspace),
        "namespace": namespace(workspace),
        "labels": system_labels(workspace),
        "ownerReferences": [owner_reference(workspace)],
    })
}

/// The labels by which the operator finds its children.
#[must_use]
pub fn system_labels(workspace: &Workspace) -> BTreeMap<String, String> {
    let labels = [
        (labels::AUTO_COMPONENT_KEY, labels::WORKSPACE_COMPONENT),
        (labels::WORKSPACE_NAME, name(workspace)),
    ];
    labels
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// Sets a field of an object.
fn put(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = object {
        fields.insert(field.to_owned(), value.into());
    }
}

/// The service account of the pod: the user's template has the last word.
pub(super) fn service_account(workspace: &Workspace) -> &str {
    given_service_account(workspace).unwrap_or("default")
}

fn given_service_account(workspace: &Workspace) -> Option<&str> {
    let template = workspace.spec.pod_template.as_ref();
    let template = template.and_then(|template| template.spec.as_ref());
    let template = template.and_then(|pod| pod.get("serviceAccountName")?.as_str());
    let given = template.or(workspace.spec.service_account_name.as_deref());
    given.filter(|name| !name.is_empty())
}

fn name(workspace: &Workspace) -> &str {
    workspace.metadata.name.as_deref().unwrap_or_default()
}

fn namespace(workspace: &Workspace) -> &str {
    workspace.metadata.namespace.as_deref().unwrap_or_default()
}
