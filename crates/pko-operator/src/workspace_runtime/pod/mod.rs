//! Workspaces in pods: a Service and a StatefulSet for each, as `pko_core::workspace::pod` says.
//!
//! # Guarantees
//! A pod is not ended while a run is in it, and no run begins in one that is being ended: both go through
//! [`Occupancy`]. What was applied already is not applied again. What the API server does not take leaves what there is
//! as it is; only fields that can't be changed are a reason to make a StatefulSet anew.

mod children;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Pod, Service},
};
use kube::{Client, ResourceExt as _, runtime::reflector::Store};
use pko_api::{
    Decoded, Update, Workspace,
    auto::v1alpha1::OperationType,
    names::{annotations, conditions::ConditionType, failures::FailureClass, field_managers},
};
use pko_core::{
    condition_set::{find, is_true},
    redaction::redacted,
    update::has_begun,
    workspace::{
        AgentEndpoint, RuntimeState,
        pod::{self, Admits, AgentSettings, PodState, PodWrite, WaitingRuns, WorkspaceDemand},
    },
};
use pko_kube::{OwnWrites, RequestError};
use pko_proto::token::audience;
use serde_json::Value;

pub(crate) use children::Children;

use super::{AgentAt, Tokens};
use crate::{agents::Credentials, runs::pod_usage::Occupancy};

/// A pod whose changes are seen is looked at now and then all the same: its agent may hang.
const LOOK_AGAIN: Duration = Duration::from_mins(10);
/// What the StatefulSet controller says when it can't make a pod.
const NOT_MADE: &str = "FailedCreate";
/// Until then nobody wonders where the pod is.
const SOON: Duration = Duration::from_secs(3);
/// What the API server says of fields that can't be changed.
const IMMUTABLE: &str = "updates to statefulset spec for fields other than";

/// How pods are made and reached.
pub(crate) struct PodSettings {
    pub(crate) pod: AgentSettings,
    /// Agents are called by their Service's name, not by their pod's address.
    pub(crate) by_name: bool,
    /// For developers: all agents are there.
    pub(crate) everywhere: Option<String>,
    /// Without a word in the Workspace.
    pub(crate) idle_timeout: Option<Duration>,
}

/// All workspaces in pods.
pub(crate) struct Pods {
    pub(crate) client: Client,
    pub(crate) children: Children,
    pub(crate) updates: Store<Decoded<Update>>,
    pub(crate) tokens: Tokens,
    pub(crate) occupancy: Arc<Occupancy>,
    pub(crate) settings: PodSettings,
    /// The pods that were marked as initialized.
    pub(crate) marked: OwnWrites,
    /// The uids of the pods whose agents refuse this manager.
    pub(crate) refusing: Mutex<HashSet<String>>,
}

impl Pods {
    /// Makes the pod what it should be, and says where it stands.
    pub(super) async fn ensure(&self, workspace: &Workspace) -> RuntimeState {
        let uid = workspace.uid().unwrap_or_default();
        let found = self.children.of(workspace);
        if let Some(pod) = &found.pod {
            self.marked.forget_if_reached(pod);
        }
        let demand = self.demand(workspace);
        let plan = pod::plan(
            workspace,
            &self.settings.pod,
            &found,
            &demand,
            Timestamp::now(),
        );
        let plan = match plan {
            Ok(plan) => plan,
            Err(invalid) => {
                self.occupancy.end_replacing(&uid);
                return RuntimeState::Invalid(invalid.to_string());
            }
        };
        for write in plan.writes {
            if let Err(place) = self.carry_out(workspace, write).await {
                return place;
            }
        }
        if let PodState::Running(_) | PodState::Idle = plan.state {
            self.occupancy.end_replacing(&uid);
        }
        match plan.state {
            PodState::Rolling(message) => RuntimeState::Rolling(message),
            PodState::Waiting(message) => RuntimeState::Starting(message),
            PodState::Broken(message) => RuntimeState::Failed(message),
            PodState::Missing => self.missing(found.stateful_set.as_ref()).await,
            PodState::Idle => RuntimeState::Idle,
            PodState::Running(running) => RuntimeState::Running(AgentEndpoint {
                address: self.shown_address(workspace),
                name: format!("pod \"{}\"", pod::pod_name(workspace)),
                is_outdated: running.is_outdated,
                look_again: running.idle_in.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN),
            }),
        }
    }

    /// Who needs a workspace, as its Updates tell.
    fn demand(&self, workspace: &Workspace) -> WorkspaceDemand {
        let (namespace, name) = (workspace.namespace(), workspace.name_any());
        let own = workspace.spec.idle_timeout.as_ref();
        let idle_timeout = own.map(pko_api::GoDuration::get);
        let mut demand = WorkspaceDemand {
            idle_timeout: idle_timeout
                .or(self.settings.idle_timeout)
                .filter(|timeout| !timeout.is_zero()),
            is_refused: self.is_refused(workspace),
            ..WorkspaceDemand::default()
        };
        for object in self.updates.state() {
            if let Ok(update) = object.as_result()
                && update.namespace() == namespace
                && update.spec.workspace_name.as_deref() == Some(&name)
            {
                count(&mut demand, update);
            }
        }
        demand
    }

    async fn carry_out(&self, workspace: &Workspace, write: PodWrite) -> Result<(), RuntimeState> {
        let namespace = workspace.namespace().unwrap_or_default();
        match write {
            PodWrite::Service(service) => {
                let applied = self.apply::<Service>(&namespace, &service).await;
                self.children
                    .remember_service(applied.map_err(|error| refused(&error))?);
            }
            PodWrite::StatefulSet { object, ends_pod } => {
                let uid = workspace.uid().unwrap_or_default();
                if ends_pod && !self.occupancy.begin_replacing(&uid) {
                    let message = "the pod is replaced when the run that begins in it has ended";
                    return Err(RuntimeState::Rolling(message.to_owned()));
                }
                match self.apply::<StatefulSet>(&namespace, &object).await {
                    Ok(applied) => self.children.remember_stateful_set(applied),
                    Err(error) => return Err(self.not_applied(workspace, &error).await),
                }
            }
        }
        Ok(())
    }

    async fn apply<K: pko_kube::Namespaced>(
        &self,
        namespace: &str,
        object: &Value,
    ) -> Result<K, RequestError> {
        pko_kube::apply_json(&self.client, namespace, object, field_managers::OPERATOR).await
    }

    /// What becomes of a StatefulSet that the API server did not take.
    async fn not_applied(&self, workspace: &Workspace, error: &RequestError) -> RuntimeState {
        let uid = workspace.uid().unwrap_or_default();
        let found = self.children.of(workspace).stateful_set;
        let is_immutable = error.is_invalid() && error.cause().contains(IMMUTABLE);
        let Some(set) = found.filter(|_| is_immutable) else {
            self.occupancy.end_replacing(&uid);
            return refused(error);
        };
        if !self.occupancy.begin_replacing(&uid) {
            let message = "the pod is replaced when the run that is under way in it has ended";
            return RuntimeState::Rolling(message.to_owned());
        }
        let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
        let deleted =
            pko_kube::delete::<StatefulSet>(&self.client, &namespace, &name, set.uid()).await;
        self.children.forget_stateful_set(&set);
        match deleted {
            Ok(()) => RuntimeState::Migrated,
            Err(error) => refused(&error),
        }
    }

    /// Why there is no pod, if the cluster says so.
    async fn missing(&self, set: Option<&StatefulSet>) -> RuntimeState {
        let waiting = pod::WAITING;
        let Some(set) = set.filter(|set| is_older_than(set, SOON)) else {
            return RuntimeState::Starting(waiting.to_owned());
        };
        match pko_kube::last_event_message(&self.client, set, NOT_MADE).await {
            Ok(Some(message)) => {
                RuntimeState::Failed(redacted(&format!("no pod could be made: {message}")))
            }
            Ok(None) => RuntimeState::Starting(waiting.to_owned()),
            Err(error) => {
                tracing::info!(error = error.full_text(), "Events could not be read");
                RuntimeState::Starting(waiting.to_owned())
            }
        }
    }

    fn shown_address(&self, workspace: &Workspace) -> String {
        let everywhere = self.settings.everywhere.clone();
        everywhere.unwrap_or_else(|| pod::address(workspace))
    }

    /// The agent of a workspace's pod.
    pub(super) fn agent(&self, workspace: &Workspace) -> Option<AgentAt> {
        let agent = pod::agent_of(&self.children.pod(workspace)?)?;
        let address = if self.settings.by_name || self.settings.everywhere.is_some() {
            self.shown_address(workspace)
        } else {
            agent.address
        };
        Some(AgentAt {
            address,
            credentials: self.credentials(workspace, agent.admits),
            instance: agent.uid,
            owns_runs: agent.admits == Admits::Manager,
        })
    }

    /// Remembers that the agent in a pod refuses this manager, and forgets pods that are gone.
    pub(super) fn mark_refused(&self, instance: &str) {
        let mut refusing = self.refusing();
        refusing.retain(|pod| self.children.has_pod(pod));
        refusing.insert(instance.to_owned());
    }

    fn is_refused(&self, workspace: &Workspace) -> bool {
        let pod = self.children.pod(workspace).and_then(|pod| pod.uid());
        pod.is_some_and(|pod| self.refusing().contains(&pod))
    }

    fn refusing(&self) -> MutexGuard<'_, HashSet<String>> {
        self.refusing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why an Update may not begin in a workspace's pod, if that is so.
    pub(super) fn refuses(&self, workspace: &Workspace, update: &Update) -> Option<&'static str> {
        let found = self.children.of(workspace);
        let pod = found.pod.as_ref()?;
        let is_destroy = update.spec.operation == Some(OperationType::Destroy);
        if pod::has_orphaned_run(&self.demand(workspace), pod) {
            Some("the pod is replaced first: another operator was stopped during a run in it")
        } else if !is_destroy && pod::is_outdated(workspace, &self.settings.pod, &found) {
            Some("the pod is replaced first: another version of the operator made it")
        } else {
            None
        }
    }

    fn credentials(&self, workspace: &Workspace, admits: Admits) -> Credentials {
        let namespace = workspace.namespace().unwrap_or_default();
        let audience = audience(&namespace, &workspace.name_any());
        match (admits, self.tokens.account.clone()) {
            (Admits::All, _) => Credentials::Nothing,
            (Admits::Manager, _) => Credentials::Manager {
                tokens: Arc::clone(&self.tokens.manager),
                audience,
            },
            (Admits::Account, Some(tokens)) => Credentials::Account { tokens, audience },
            (Admits::Account, None) => Credentials::Unknown,
        }
    }

    pub(super) fn is_initialized(&self, workspace: &Workspace) -> bool {
        let Some(pod) = self.children.pod(workspace) else {
            return false;
        };
        // A copy from before the mark is of a pod that has it: it is all that we write to pods.
        self.marked.is_stale(&pod) || pod::agent_of(&pod).is_some_and(|agent| agent.is_initialized)
    }

    /// The mark is a patch of one annotation: whatever else happens to the pod is not our business.
    pub(super) async fn mark_initialized(
        &self,
        workspace: &Workspace,
        instance: &str,
    ) -> Result<(), RequestError> {
        let pod = self.children.pod(workspace);
        let Some(pod) = pod.filter(|pod| pod.uid().as_deref() == Some(instance)) else {
            return Ok(());
        };
        let marked =
            pko_kube::annotate::<Pod>(&self.client, &pod, annotations::INITIALIZED, "true").await?;
        self.marked.record(&marked);
        Ok(())
    }
}

/// Whether an Update, which is over, was begun by another operator and given up by this one.
fn is_orphaned(update: &Update) -> bool {
    update.status.as_ref().is_some_and(|status| {
        status.workspace_instance.is_none()
            && status.failure_class.as_deref() == Some(FailureClass::Interrupted.as_str())
    })
}

fn count(demand: &mut WorkspaceDemand, update: &Update) {
    let conditions = update.status.as_ref().map(|status| &status.conditions[..]);
    let conditions = conditions.unwrap_or_default();
    if is_true(conditions, ConditionType::Complete) {
        let end = find(conditions, ConditionType::Complete);
        let end = end.map(|end| end.last_transition_time.0);
        demand.last_use = demand.last_use.max(end);
        if is_orphaned(update) {
            demand.orphaned_run = demand.orphaned_run.max(end);
        }
    } else if has_begun(update) {
        demand.is_busy = true;
    } else {
        let is_destroy = update.spec.operation == Some(OperationType::Destroy);
        let is_only_destroys = is_destroy && demand.waiting_runs != WaitingRuns::Any;
        demand.waiting_runs = if is_only_destroys {
            WaitingRuns::Destroys
        } else {
            WaitingRuns::Any
        };
    }
}

/// What the API server does not take: the spec's fault, or somebody else's that may pass.
fn refused(error: &RequestError) -> RuntimeState {
    let message = redacted(&error.full_text());
    if error.is_invalid() {
        RuntimeState::Invalid(message)
    } else {
        RuntimeState::Failed(message)
    }
}

fn is_older_than(set: &StatefulSet, age: Duration) -> bool {
    let made = set.metadata.creation_timestamp.as_ref();
    let age = jiff::SignedDuration::try_from(age).unwrap_or_default();
    made.is_none_or(|made| Timestamp::now().duration_since(made.0) > age)
}
