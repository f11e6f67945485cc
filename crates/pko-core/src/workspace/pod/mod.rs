//! A workspace as a pod: the Service and the StatefulSet that its spec asks for.
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
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use pko_api::{Workspace, names::labels};
use serde_json::{Value, json};

pub use agent::{Admits, AgentOf, agent_of};
pub use cached_fields::{trim_pod, trim_service, trim_stateful_set};
pub use check::Invalid;
use finish::finished;
pub use plan::{
    ExistingResources, PodPlan, PodState, PodWrite, RunningPod, WAITING, WaitingRuns,
    WorkspaceDemand, has_orphaned_run, is_outdated, plan,
};
pub use problem::problem;
pub use restrictions::PodRestrictions;
pub use source::{git_credentials, revision_hash};

use super::owner_reference;
use crate::merge::{self, MergeSchema};

/// The shared volume, and where each container sees it.
const SHARE: &str = "share";
const SHARE_PATH: &str = "/share";
/// Where the program is, or a link to it.
const WORKSPACE_PATH: &str = "/share/workspace";
const ENV_FILE: &str = "/share/.env";
/// The container in which `pulumi` runs.
pub const PULUMI_CONTAINER: &str = "pulumi";
const GRPC_PORT: u16 = 50051;
/// As long as an update may need to end after it was asked to.
const TERMINATION_SECONDS: u32 = 600;

/// What the operator was told when it was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// The image that has the agent.
    pub agent_image: String,
    /// When it is pulled.
    pub agent_image_pull_policy: String,
    /// The limit for artifacts, as the user wrote it.
    pub max_untar_size: Option<String>,
    /// By which the agent knows its manager, in PEM.
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

/// Where the agent listens, as a client in the cluster calls it.
#[must_use]
pub fn address(workspace: &Workspace) -> String {
    format!(
        "{}.{}:{GRPC_PORT}",
        child_name(workspace),
        namespace(workspace)
    )
}

/// Whom a caller's token must be for.
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
    // The system's own win: the operator finds its children by them.
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

/// What is wrong with a spec, wherever it is to run.
pub fn check(workspace: &Workspace) -> Result<(), Invalid> {
    check::spec(workspace)
}

/// The StatefulSet with the one pod, or what is wrong with the spec.
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
    Ok(finished(workspace, merged, &base_order))
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

/// What the operator finds its children by.
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
