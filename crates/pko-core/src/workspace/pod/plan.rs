//! What is to be done for a workspace's pod, and where it stands.
//!
//! A pod is replaced for its own spec's sake as soon as nothing runs in it. That another operator would build it
//! differently is no reason by itself: then the next run gets a new one, so that an upgrade does not replace all pods
//! of a cluster at once. A pod of another operator version that can't start is replaced without waiting for a run.

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
    Admits, AgentSettings, Invalid, PULUMI_CONTAINER, agent_of, problem::problem, put, service,
    stateful_set,
};
use crate::hex::hex;

/// The StatefulSet controller's label on a pod: which template it is of.
const REVISION_LABEL: &str = "controller-revision-hash";
const ROLLING: &str = "Waiting for the statefulset to be updated";
/// What is said while a pod comes up.
pub const WAITING: &str = "Waiting for the workspace pod to be available";

/// What there is of a workspace in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExistingResources {
    /// Its Service.
    pub service: Option<Service>,
    /// Its StatefulSet.
    pub stateful_set: Option<StatefulSet>,
    /// Its pod.
    pub pod: Option<Pod>,
    /// What this operator serves for the Program that the Workspace fetches, if it serves that generation.
    pub artifact: Option<FluxArtifact>,
}

/// Who needs a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceDemand {
    /// A run is under way in it.
    pub is_busy: bool,
    /// Which runs wait for it.
    pub waiting_runs: WaitingRuns,
    /// Its agent refuses this manager, so no run can ever begin in it.
    pub is_refused: bool,
    /// When a run that another operator had begun in it was given up. Its `pulumi` may still be there if that
    /// operator's connection was never closed.
    pub orphaned_run: Option<Timestamp>,
    /// When its last run ended.
    pub last_use: Option<Timestamp>,
    /// How long it keeps its pod without a run; nothing for ever.
    pub idle_timeout: Option<Duration>,
}

/// Which runs wait for a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitingRuns {
    /// None.
    #[default]
    None,
    /// Only destroys. They use a pod of another operator version as it is: what a new one would
    /// need may be deleted together with the Stack.
    Destroys,
    /// Others, too.
    Any,
}

/// What is to be done, and where the pod stands.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPlan {
    /// Objects to apply, in order.
    pub writes: Vec<PodWrite>,
    /// Where the pod stands, after that.
    pub state: PodState,
}

/// An object to apply.
#[derive(Clone, Debug, PartialEq)]
pub enum PodWrite {
    /// The Service.
    Service(Value),
    /// The StatefulSet.
    StatefulSet {
        /// It.
        object: Value,
        /// This ends the pod that there is: no run may be in it, and none may begin.
        ends_pod: bool,
    },
}

/// Where a pod stands.
#[derive(Clone, Debug, PartialEq)]
pub enum PodState {
    /// It is being replaced, or waits to be.
    Rolling(String),
    /// It is coming up.
    Waiting(String),
    /// There is none, though there should be; the cluster's events may say why.
    Missing,
    /// Something is wrong with it.
    Broken(String),
    /// Its agent runs.
    Running(RunningPod),
    /// There is none, because nobody needs one.
    Idle,
}

/// A pod whose agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningPod {
    /// The pod's own.
    pub uid: String,
    /// Where it is.
    pub address: String,
    /// The next run gets a new one.
    pub is_outdated: bool,
    /// When it goes, if no run comes.
    pub idle_in: Option<Duration>,
}

/// How the StatefulSet that there is relates to the one that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// It is that.
    Same,
    /// It is for the same spec, by another operator.
    Outdated,
    /// It is for another spec.
    Other,
}

/// Decides; what is wrong with a spec leaves everything as it is.
pub fn plan(
    workspace: &Workspace,
    settings: &AgentSettings,
    found: &ExistingResources,
    demand: &WorkspaceDemand,
    now: Timestamp,
) -> Result<PodPlan, Invalid> {
    let wanted = DesiredSet::of(workspace, settings, found.artifact.as_ref())?;
    let service = service_write(workspace, found.service.as_ref());
    let plan = match &found.stateful_set {
        None if found.pod.as_ref().is_some_and(is_of_previous_set) => {
            let message = "Waiting for the pod of the previous workspace to terminate";
            state(PodState::Rolling(message.to_owned()))
        }
        None => wanted.applied(1, false, PodState::Waiting(WAITING.to_owned())),
        Some(set) if is_leaving(&set.metadata, workspace) => {
            let message = "Waiting for the statefulset of the previous workspace to be deleted";
            state(PodState::Rolling(message.to_owned()))
        }
        Some(set) => for_set(workspace, &wanted, set, found.pod.as_ref(), demand, now),
    };
    Ok(PodPlan {
        writes: service.into_iter().chain(plan.writes).collect(),
        ..plan
    })
}

/// Whether another operator version made the pod that there is, so that it is replaced before its next `up`. The
/// Workspace's status may not say so yet.
#[must_use]
pub fn is_outdated(
    workspace: &Workspace,
    settings: &AgentSettings,
    found: &ExistingResources,
) -> bool {
    let wanted = DesiredSet::of(workspace, settings, found.artifact.as_ref());
    let (Ok(wanted), Some(set)) = (wanted, &found.stateful_set) else {
        return false;
    };
    wanted.relation(workspace, set) == Relation::Outdated
}

/// Being deleted, or of a Workspace of before with this name, with which it goes.
fn is_leaving(metadata: &ObjectMeta, workspace: &Workspace) -> bool {
    let owners = metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| owner.controller == Some(true));
    metadata.deletion_timestamp.is_some()
        || owners.any(|owner| Some(&owner.uid) != workspace.metadata.uid.as_ref())
}

/// Whether a pod without a StatefulSet belongs to a previous one, so that it terminates by itself. The controller of a
/// new StatefulSet can't create its pod under the same name before that, and no event wakes it then: it would retry
/// with growing pauses. A pod without an owner is adopted.
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
    wanted: &DesiredSet,
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
    let wanted_replicas = i32::from(!idle.is_over());
    // A run in a pod that is broken is none: it must not keep the pod from being mended.
    let is_busy = demand.is_busy && pod.is_some_and(is_alive);
    let relation = wanted.relation(workspace, set);
    match relation {
        Relation::Other if is_busy => {
            let message = "the pod is replaced when the run in progress ends";
            state(PodState::Rolling(message.to_owned()))
        }
        Relation::Other if wanted_replicas == 0 => wanted.applied(0, true, PodState::Idle),
        Relation::Other => wanted.applied(1, true, PodState::Rolling(ROLLING.to_owned())),
        Relation::Outdated if !is_busy && (renews(demand, pod) || is_useless(demand, pod)) => {
            wanted.applied(1, true, PodState::Rolling(ROLLING.to_owned()))
        }
        _ if wanted_replicas == 0 && replicas == 0 => state(PodState::Idle),
        _ if wanted_replicas == 0 => wanted.applied(0, true, PodState::Idle),
        _ if replicas == 0 => wanted.applied(1, false, PodState::Waiting(WAITING.to_owned())),
        _ => state(observed(set, pod, relation == Relation::Outdated, &idle)),
    }
}

/// Whether a run waits for a pod of this operator version.
fn renews(demand: &WorkspaceDemand, pod: Option<&Pod>) -> bool {
    let keeps = |pod: &Pod| is_alive(pod) && !has_orphaned_run(demand, pod);
    match demand.waiting_runs {
        WaitingRuns::None => false,
        WaitingRuns::Destroys => !pod.is_some_and(keeps),
        WaitingRuns::Any => true,
    }
}

/// Whether a run that another operator had begun may still be under way in this pod. No other run begins in it.
#[must_use]
pub fn has_orphaned_run(demand: &WorkspaceDemand, pod: &Pod) -> bool {
    let created = pod.metadata.creation_timestamp.as_ref();
    let admits = agent_of(pod).map(|agent| agent.admits);
    admits != Some(Admits::Manager)
        && demand
            .orphaned_run
            .is_some_and(|since| created.is_none_or(|created| created.0 <= since))
}

/// Where a pod that is left as it is stands.
fn observed(set: &StatefulSet, pod: Option<&Pod>, is_outdated: bool, idle: &Idleness) -> PodState {
    let status = set.status.as_ref();
    let seen = status.and_then(|status| status.observed_generation);
    if seen.is_none() {
        // It is new: nothing is replaced by it.
        return PodState::Waiting(WAITING.to_owned());
    }
    if seen != set.metadata.generation {
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

/// Whether the container with the agent runs.
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

/// Whether a pod can't start, or its agent lets nobody in. One of another operator version may stay like that for ever:
/// it may ask for an archive that this operator does not serve, or lack rights that this operator's agent does not need.
fn is_useless(demand: &WorkspaceDemand, pod: Option<&Pod>) -> bool {
    demand.is_refused || pod.is_some_and(|pod| !is_alive(pod) && problem(pod).is_some())
}

fn pod_address(pod: &Pod) -> Option<String> {
    let address = pod.status.as_ref()?.pod_ip.clone();
    address.filter(|address| !address.is_empty())
}

/// How long a workspace may still be without a run.
struct Idleness {
    /// Nothing where it does not end.
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
        let made = pod.and_then(|pod| Some(pod.metadata.creation_timestamp.as_ref()?.0));
        let left = match demand.last_use.max(made) {
            Some(since) => {
                let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
                timeout.saturating_sub(now.duration_since(since))
            }
            // It sleeps already, or has no pod yet.
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

/// The StatefulSet that is wanted, and by what one knows that there is it.
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
            Some(artifact) => stateful_set(&fetching(workspace, artifact), settings)?,
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
            // Somebody else made it: upstream's operator, for the spec that its status speaks of.
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

    fn applied(&self, replicas: i32, ends_pod: bool, state: PodState) -> PodPlan {
        let mut object = self.set.clone();
        marked(&mut object, &self.mark());
        if let Some(spec) = object.get_mut("spec") {
            put(spec, "replicas", replicas);
        }
        PodPlan {
            writes: vec![PodWrite::StatefulSet { object, ends_pod }],
            state,
        }
    }
}

/// The Workspace as it fetches the artifact that is served now. Another operator may have left it another digest of the
/// same Program. That is no change of the spec, so a pod that runs stays.
fn fetching(workspace: &Workspace, artifact: &FluxArtifact) -> Workspace {
    let mut workspace = workspace.clone();
    workspace.spec.flux = Some(artifact.clone());
    workspace
}

/// What of a Workspace its pod depends on. Stacks, their config and their environments are the running agent's
/// business, and the Service's template is the Service's. The key is how an agent knows us: one that knows another is
/// of no use.
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
    let mut wanted = service(workspace);
    let hash = hash(&wanted);
    if found.and_then(|found| mark(&found.metadata)) == Some(&hash) {
        return None;
    }
    marked(&mut wanted, &hash);
    Some(PodWrite::Service(wanted))
}

fn mark(metadata: &ObjectMeta) -> Option<&str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(annotations::APPLIED).map(String::as_str)
}

fn marked(object: &mut Value, mark: &str) {
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
    hex(digest.get(..8).unwrap_or_default())
}
