//! The plan for a workspace's pod, and its state.
//!
//! A pod whose spec has changed is replaced as soon as it has no run. A pod that another version of
//! the operator created is replaced only for the next run, so that an upgrade does not replace all
//! pods of a cluster at once. If such a pod cannot start, it is replaced at once.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ContainerStatus, Pod, Service},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{Workspace, auto::v1alpha1::FluxArtifact, names::annotations};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    AdmittedCallers, AgentSettings, Invalid, PULUMI_CONTAINER, pod_agent, problem::problem, put,
    service, stateful_set,
};

/// The StatefulSet controller's label for the template of a pod.
const REVISION_LABEL: &str = "controller-revision-hash";
const ROLLING: &str = "Waiting for the statefulset to be updated";
/// The condition's message while a pod starts.
pub const WAITING: &str = "Waiting for the workspace pod to be available";

/// The resources of a workspace in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExistingResources {
    pub service: Option<Service>,
    pub stateful_set: Option<StatefulSet>,
    pub pod: Option<Pod>,
    /// The artifact that this operator serves for the Workspace's Program, if it serves that
    /// generation.
    pub artifact: Option<FluxArtifact>,
}

/// The demand for a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceDemand {
    /// Whether a run is in progress.
    pub is_busy: bool,
    pub waiting_runs: WaitingRuns,
    /// The agent rejects this manager, so no run can start.
    pub is_refused: bool,
    /// When a run that another operator had started was abandoned. Its `pulumi` may still run if
    /// that operator's connection was never closed.
    pub orphaned_run: Option<Timestamp>,
    /// When its last run ended.
    pub last_use: Option<Timestamp>,
    /// How long the pod is kept without a run; `None` for ever.
    pub idle_timeout: Option<Duration>,
}

/// The runs that wait for a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitingRuns {
    #[default]
    None,
    /// Only destroys. They use a pod of another operator version as it is: objects that a new pod
    /// needs may be deleted together with the Stack.
    Destroys,
    /// At least one other run.
    Any,
}

/// The writes for a pod, and its state after them.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPlan {
    /// Objects to apply, in order.
    pub writes: Vec<PodWrite>,
    /// After the writes.
    pub state: PodState,
}

/// An object to apply.
#[derive(Clone, Debug, PartialEq)]
pub enum PodWrite {
    Service(Value),
    StatefulSet {
        object: Value,
        /// The write ends the existing pod: it must have no run, and no run may start.
        ends_pod: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum PodState {
    /// Being replaced, or will be.
    Rolling(String),
    /// Starting.
    Waiting(String),
    /// No pod exists although one should; the cluster's events may explain it.
    Missing,
    Broken(String),
    Running(RunningPod),
    /// Scaled to zero.
    Idle,
}

/// A pod whose agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningPod {
    /// The uid of the pod.
    pub uid: String,
    pub address: String,
    /// The next run gets a new pod.
    pub is_outdated: bool,
    /// When the pod is removed, if no run starts.
    pub idle_in: Option<Duration>,
}

/// The relation of the existing StatefulSet to the desired one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Same,
    /// For the same spec, from another version of the operator.
    Outdated,
    /// For another spec.
    Other,
}

/// Decides the writes. An invalid spec changes nothing.
pub fn plan(
    workspace: &Workspace,
    settings: &AgentSettings,
    found: &ExistingResources,
    demand: &WorkspaceDemand,
    now: Timestamp,
) -> Result<PodPlan, Invalid> {
    let desired = DesiredSet::of(workspace, settings, found.artifact.as_ref())?;
    let service = service_write(workspace, found.service.as_ref());
    let plan = match &found.stateful_set {
        None if found.pod.as_ref().is_some_and(is_of_previous_set) => {
            let message = "Waiting for the pod of the previous workspace to terminate";
            state(PodState::Rolling(message.to_owned()))
        }
        None => desired.plan_apply(1, false, PodState::Waiting(WAITING.to_owned())),
        Some(set) if is_leaving(&set.metadata, workspace) => {
            let message = "Waiting for the statefulset of the previous workspace to be deleted";
            state(PodState::Rolling(message.to_owned()))
        }
        Some(set) => for_set(workspace, &desired, set, found.pod.as_ref(), demand, now),
    };
    Ok(PodPlan {
        writes: service.into_iter().chain(plan.writes).collect(),
        ..plan
    })
}

/// Whether another version of the operator created the existing pod, so that it is replaced before
/// the next `up`. The Workspace's status may not show it yet.
#[must_use]
pub fn is_outdated(
    workspace: &Workspace,
    settings: &AgentSettings,
    found: &ExistingResources,
) -> bool {
    let desired = DesiredSet::of(workspace, settings, found.artifact.as_ref());
    let (Ok(desired), Some(set)) = (desired, &found.stateful_set) else {
        return false;
    };
    desired.relation(workspace, set) == Relation::Outdated
}

/// Whether the object is being deleted, or belongs to an earlier Workspace of this name and will
/// be.
fn is_leaving(metadata: &ObjectMeta, workspace: &Workspace) -> bool {
    let owners = metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| owner.controller == Some(true));
    metadata.deletion_timestamp.is_some()
        || owners.any(|owner| Some(&owner.uid) != workspace.metadata.uid.as_ref())
}

/// Whether a pod without a StatefulSet belongs to a previous one and terminates by itself. Until
/// then the controller of a new StatefulSet cannot create its pod under the same name. No event
/// triggers it afterwards, so it would retry with growing pauses. A pod without an owner is
/// adopted.
fn is_of_previous_set(pod: &Pod) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    pod.metadata.deletion_timestamp.is_some() || owners.any(|owner| owner.controller == Some(true))
}

fn state(state: PodState) -> PodPlan {
    PodPlan {
        writes: Vec::new(),
        state,
    }
}

fn for_set(
    workspace: &Workspace,
    desired: &DesiredSet,
    set: &StatefulSet,
    pod: Option<&Pod>,
    demand: &WorkspaceDemand,
    now: Timestamp,
) -> PodPlan {
    let replicas = set
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let idle = Idleness::of(demand, pod, replicas, now);
    let replicas_needed = i32::from(!idle.is_over());
    // A run in a broken pod does not count: it must not prevent the repair.
    let is_busy = demand.is_busy && pod.is_some_and(is_alive);
    let relation = desired.relation(workspace, set);
    match relation {
        Relation::Other if is_busy => {
            let message = "the pod is replaced when the run in progress ends";
            state(PodState::Rolling(message.to_owned()))
        }
        Relation::Other if replicas_needed == 0 => desired.plan_apply(0, true, PodState::Idle),
        Relation::Other => desired.plan_apply(1, true, PodState::Rolling(ROLLING.to_owned())),
        Relation::Outdated
            if !is_busy && (needs_renewal(demand, pod) || is_useless(demand, pod)) =>
        {
            desired.plan_apply(1, true, PodState::Rolling(ROLLING.to_owned()))
        }
        _ if replicas_needed == 0 && replicas == 0 => state(PodState::Idle),
        _ if replicas_needed == 0 => desired.plan_apply(0, true, PodState::Idle),
        _ if replicas == 0 => desired.plan_apply(1, false, PodState::Waiting(WAITING.to_owned())),
        _ => state(pod_state(set, pod, relation == Relation::Outdated, &idle)),
    }
}

/// Whether a run waits for a pod of this operator version.
fn needs_renewal(demand: &WorkspaceDemand, pod: Option<&Pod>) -> bool {
    let keeps = |pod: &Pod| is_alive(pod) && !has_orphaned_run(demand, pod);
    match demand.waiting_runs {
        WaitingRuns::None => false,
        WaitingRuns::Destroys => !pod.is_some_and(keeps),
        WaitingRuns::Any => true,
    }
}

/// Whether a run that another operator started may still be in progress in this pod. No other run
/// starts in it.
#[must_use]
pub fn has_orphaned_run(demand: &WorkspaceDemand, pod: &Pod) -> bool {
    let created = pod.metadata.creation_timestamp.as_ref();
    let admits = pod_agent(pod).map(|agent| agent.admits);
    admits != Some(AdmittedCallers::Manager)
        && demand
            .orphaned_run
            .is_some_and(|since| created.is_none_or(|created| created.0 <= since))
}

/// The state of a pod that needs no write.
fn pod_state(set: &StatefulSet, pod: Option<&Pod>, is_outdated: bool, idle: &Idleness) -> PodState {
    let status = set.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation);
    if observed.is_none() {
        // A new StatefulSet replaces nothing.
        return PodState::Waiting(WAITING.to_owned());
    }
    if observed != set.metadata.generation {
        return PodState::Rolling(ROLLING.to_owned());
    }
    let Some(pod) = pod else {
        return PodState::Missing;
    };
    if pod.metadata.deletion_timestamp.is_some() {
        return PodState::Waiting(WAITING.to_owned());
    }
    let revision = pod
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(REVISION_LABEL));
    if revision != status.and_then(|status| status.update_revision.as_ref()) {
        return PodState::Rolling(ROLLING.to_owned());
    }
    match (is_alive(pod), pod_address(pod)) {
        (true, Some(address)) => PodState::Running(RunningPod {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            address,
            is_outdated,
            idle_in: idle.left,
        }),
        _ => problem(pod).map_or(PodState::Waiting(WAITING.to_owned()), PodState::Broken),
    }
}

/// Whether the agent's container runs.
fn is_alive(pod: &Pod) -> bool {
    let containers = pod
        .status
        .iter()
        .flat_map(|status| &status.container_statuses);
    let is_pulumi = |container: &&ContainerStatus| container.name == PULUMI_CONTAINER;
    let runs = |container: &ContainerStatus| {
        let state = container.state.as_ref();
        state.is_some_and(|state| state.running.is_some())
    };
    pod.metadata.deletion_timestamp.is_none()
        && containers.flatten().find(is_pulumi).is_some_and(runs)
}

/// Whether a pod cannot start, or its agent rejects this manager. A pod of another operator version
/// may stay so for ever: it may request an archive that this operator does not serve, or lack
/// rights that this operator's agent does not need.
fn is_useless(demand: &WorkspaceDemand, pod: Option<&Pod>) -> bool {
    demand.is_refused || pod.is_some_and(|pod| !is_alive(pod) && problem(pod).is_some())
}

fn pod_address(pod: &Pod) -> Option<String> {
    let address = pod.status.as_ref()?.pod_ip.clone();
    address.filter(|address| !address.is_empty())
}

/// The time until an unused workspace is scaled to zero.
struct Idleness {
    /// `None` if it is never scaled to zero.
    left: Option<Duration>,
}

impl Idleness {
    fn of(demand: &WorkspaceDemand, pod: Option<&Pod>, replicas: i32, now: Timestamp) -> Self {
        let Some(timeout) = demand.idle_timeout else {
            return Self { left: None };
        };
        if demand.is_busy || demand.waiting_runs != WaitingRuns::None {
            return Self { left: None };
        }
        let created = pod.and_then(|pod| Some(pod.metadata.creation_timestamp.as_ref()?.0));
        let left = match demand.last_use.max(created) {
            Some(since) => {
                let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
                timeout.saturating_sub(now.duration_since(since))
            }
            // Already scaled to zero, or without a pod yet.
            None if replicas == 0 => SignedDuration::ZERO,
            None => return Self { left: None },
        };
        let left = if left.is_positive() {
            left
        } else {
            SignedDuration::ZERO
        };
        Self {
            left: Some(left.unsigned_abs()),
        }
    }

    fn is_over(&self) -> bool {
        self.left == Some(Duration::ZERO)
    }
}

/// The desired StatefulSet, with the hashes that identify it.
struct DesiredSet {
    set: Value,
    spec_hash: String,
    template_hash: String,
}

impl DesiredSet {
    fn of(
        workspace: &Workspace,
        settings: &AgentSettings,
        artifact: Option<&FluxArtifact>,
    ) -> Result<Self, Invalid> {
        let set = match artifact {
            Some(artifact) => stateful_set(&with_artifact(workspace, artifact), settings)?,
            None => stateful_set(workspace, settings)?,
        };
        Ok(Self {
            spec_hash: hash(&pod_spec(workspace, settings)),
            template_hash: hash(&set),
            set,
        })
    }

    fn mark(&self) -> String {
        format!("{}.{}", self.spec_hash, self.template_hash)
    }

    fn relation(&self, workspace: &Workspace, set: &StatefulSet) -> Relation {
        match mark(&set.metadata) {
            Some(mark) if mark == self.mark() => Relation::Same,
            Some(mark) if mark.split('.').next() == Some(&self.spec_hash) => Relation::Outdated,
            Some(_) => Relation::Other,
            // Upstream's operator created it, for the spec that the status describes.
            None => {
                let status = workspace.status.as_ref();
                let observed = status.and_then(|status| status.observed_generation);
                if observed == workspace.metadata.generation {
                    Relation::Outdated
                } else {
                    Relation::Other
                }
            }
        }
    }

    fn plan_apply(&self, replicas: i32, ends_pod: bool, state: PodState) -> PodPlan {
        let mut object = self.set.clone();
        set_mark(&mut object, &self.mark());
        if let Some(spec) = object.get_mut("spec") {
            put(spec, "replicas", replicas);
        }
        PodPlan {
            writes: vec![PodWrite::StatefulSet { object, ends_pod }],
            state,
        }
    }
}

/// The Workspace with the artifact that is served now. Another operator may have stored another
/// digest of the same Program. This does not change the spec, so a running pod stays.
fn with_artifact(workspace: &Workspace, artifact: &FluxArtifact) -> Workspace {
    let mut workspace = workspace.clone();
    workspace.spec.flux = Some(artifact.clone());
    workspace
}

/// The inputs on which the pod depends. The running agent handles stacks, their config and
/// environments; the Service's template affects only the Service. An agent with another manager's
/// key rejects us.
fn pod_spec(workspace: &Workspace, settings: &AgentSettings) -> Value {
    let mut spec = json!(workspace.spec);
    if let Value::Object(fields) = &mut spec {
        for field in ["stacks", "serviceTemplate", "idleTimeout"] {
            fields.remove(field);
        }
    }
    json!([spec, settings.manager_public_key])
}

fn service_write(workspace: &Workspace, found: Option<&Service>) -> Option<PodWrite> {
    if found.is_some_and(|found| is_leaving(&found.metadata, workspace)) {
        return None;
    }
    let mut desired = service(workspace);
    let hash = hash(&desired);
    if found.and_then(|found| mark(&found.metadata)) == Some(&hash) {
        return None;
    }
    set_mark(&mut desired, &hash);
    Some(PodWrite::Service(desired))
}

fn mark(metadata: &ObjectMeta) -> Option<&str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(annotations::APPLIED).map(String::as_str)
}

fn set_mark(object: &mut Value, mark: &str) {
    let Some(metadata) = object.get_mut("metadata") else {
        return;
    };
    if metadata.get("annotations").is_none() {
        put(metadata, "annotations", json!({}));
    }
    if let Some(annotations) = metadata.get_mut("annotations") {
        put(annotations, annotations::APPLIED, mark);
    }
}

fn hash(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string());
    hex::encode(digest.get(..8).unwrap_or_default())
}
