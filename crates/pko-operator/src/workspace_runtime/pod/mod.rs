//! Workspaces as pods: a Service and a StatefulSet for each, as planned by
//! `pko_core::workspace::pod`.
//!
//! # Guarantees
//! A pod is not stopped while a run uses it, and no run starts in a pod that is being replaced:
//! [`PodUsage`] ensures both. Unchanged objects are not applied again. A rejected apply changes
//! nothing; a StatefulSet is replaced only if an immutable field has to change.

mod children;

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Pod, Service},
};
use kube::{Client, ResourceExt as _, runtime::reflector::Store};
use parking_lot::Mutex;
use pko_api::{
    Decoded, Update, Workspace,
    auto::v1alpha1::OperationType,
    names::{annotations, conditions::ConditionType, failures::FailureClass, field_managers},
};
use pko_auth::token::audience;
use pko_core::{
    condition_set::{find, is_true},
    redaction::redact,
    update::has_begun,
    workspace::{
        AgentEndpoint, RuntimeState,
        pod::{
            self, AdmittedCallers, AgentSettings, PodState, PodWrite, WaitingRuns, WorkspaceDemand,
        },
    },
};
use pko_kube::{OwnWrites, RequestError};
use serde_json::Value;

pub(crate) use children::Children;

use super::{AgentTarget, MarkError, WorkspaceRuntime};
use crate::{
    agents::{AgentTokens, Credentials},
    runs::pod_usage::PodUsage,
};

/// A backstop for an agent that hangs: changes of the pod trigger a reconcile.
const RECHECK_INTERVAL: Duration = Duration::from_mins(10);
/// The reason of the event of the StatefulSet controller.
const FAILED_CREATE: &str = "FailedCreate";
/// A missing pod is normal until then.
const POD_GRACE: Duration = Duration::from_secs(3);
/// Part of the message of the API server.
const IMMUTABLE: &str = "updates to statefulset spec for fields other than";

pub(crate) struct PodRuntimeSettings {
    pub(crate) pod: AgentSettings,
    /// Call agents by the name of their Service instead of the address of their pod.
    pub(crate) by_name: bool,
    /// The address of all agents, for a manager outside of the cluster.
    pub(crate) address_override: Option<String>,
    /// For Workspaces that don't set one.
    pub(crate) idle_timeout: Option<Duration>,
}

pub(crate) struct PodRuntime {
    client: Client,
    children: Children,
    updates: Store<Decoded<Update>>,
    tokens: AgentTokens,
    pod_usage: Arc<PodUsage>,
    settings: PodRuntimeSettings,
    /// The annotations of pods as initialized.
    marked: OwnWrites,
    /// The uids of the pods whose agents reject this manager's credentials.
    rejecting: Mutex<HashSet<String>>,
}

impl WorkspaceRuntime for PodRuntime {
    fn wait_until_synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.children.wait_until_synced())
    }

    fn ensure<'a>(&'a self, workspace: &'a Workspace) -> BoxFuture<'a, RuntimeState> {
        Box::pin(self.reconcile_pod(workspace))
    }

    fn agent(&self, workspace: &Workspace) -> Option<AgentTarget> {
        let agent = pod::pod_agent(&self.children.pod(workspace)?)?;
        let address = if self.settings.by_name || self.settings.address_override.is_some() {
            self.address_in_status(workspace)
        } else {
            agent.address
        };
        Some(AgentTarget {
            address,
            credentials: self.credentials(workspace, agent.admits),
            instance: agent.uid,
            namespace: workspace.namespace().unwrap_or_default(),
            owns_runs: agent.admits == AdmittedCallers::Manager,
        })
    }

    fn is_gone<'a>(&'a self, workspace: &'a Workspace, instance: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let namespace = workspace.namespace().unwrap_or_default();
            let name = pod::pod_name(workspace);
            // Only a live read proves it: a cache may be behind.
            let found = pko_kube::find::<Pod>(&self.client, &namespace, &name).await;
            found.is_ok_and(|pod| pod.is_none_or(|pod| pod.uid().as_deref() != Some(instance)))
        })
    }

    fn record_rejection(&self, instance: &str) {
        let mut rejecting = self.rejecting.lock();
        rejecting.retain(|pod| self.children.has_pod(pod));
        rejecting.insert(instance.to_owned());
    }

    fn start_blocker(&self, workspace: &Workspace, update: &Update) -> Option<&'static str> {
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

    fn is_initialized(&self, workspace: &Workspace) -> bool {
        let Some(pod) = self.children.pod(workspace) else {
            return false;
        };
        // A copy that is older than our annotation belongs to an annotated pod: we write nothing
        // else to pods.
        self.marked.is_stale(&pod) || pod::pod_agent(&pod).is_some_and(|agent| agent.is_initialized)
    }

    fn mark_initialized<'a>(
        &'a self,
        workspace: &'a Workspace,
        instance: &'a str,
    ) -> BoxFuture<'a, Result<(), MarkError>> {
        Box::pin(async move { Ok(self.annotate_initialized(workspace, instance).await?) })
    }
}

impl PodRuntime {
    pub(crate) fn new(
        client: Client,
        children: Children,
        updates: Store<Decoded<Update>>,
        tokens: AgentTokens,
        pod_usage: Arc<PodUsage>,
        settings: PodRuntimeSettings,
    ) -> Self {
        Self {
            client,
            children,
            updates,
            tokens,
            pod_usage,
            settings,
            marked: OwnWrites::default(),
            rejecting: Mutex::default(),
        }
    }

    /// Applies the Service and the StatefulSet, and returns the state of the pod.
    async fn reconcile_pod(&self, workspace: &Workspace) -> RuntimeState {
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
                self.pod_usage.end_replacing(&uid);
                return RuntimeState::Invalid(invalid.to_string());
            }
        };
        for write in plan.writes {
            if let Err(place) = self.carry_out(workspace, write).await {
                return place;
            }
        }
        if let PodState::Running(_) | PodState::Idle = plan.state {
            self.pod_usage.end_replacing(&uid);
        }
        match plan.state {
            PodState::Rolling(message) => RuntimeState::Rolling(message),
            PodState::Waiting(message) => RuntimeState::Starting(message),
            PodState::Broken(message) => RuntimeState::Failed(message),
            PodState::Missing => self.missing(found.stateful_set.as_ref()).await,
            PodState::Idle => RuntimeState::Idle,
            PodState::Running(running) => RuntimeState::Running(AgentEndpoint {
                address: self.address_in_status(workspace),
                name: format!("pod \"{}\"", pod::pod_name(workspace)),
                is_outdated: running.is_outdated,
                requeue_after: running
                    .idle_in
                    .unwrap_or(RECHECK_INTERVAL)
                    .min(RECHECK_INTERVAL),
            }),
        }
    }

    /// What the Updates of a workspace need.
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
                count_update(&mut demand, update);
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
                    .remember_service(applied.map_err(|error| rejection(&error))?);
            }
            PodWrite::StatefulSet { object, ends_pod } => {
                let uid = workspace.uid().unwrap_or_default();
                if ends_pod && !self.pod_usage.begin_replacing(&uid) {
                    let message = "the pod is replaced when the run in progress ends";
                    return Err(RuntimeState::Rolling(message.to_owned()));
                }
                match self.apply::<StatefulSet>(&namespace, &object).await {
                    Ok(applied) => self.children.remember_stateful_set(applied),
                    Err(error) => return Err(self.replace_if_immutable(workspace, &error).await),
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

    /// Replaces a StatefulSet if the apply was rejected because of immutable fields.
    async fn replace_if_immutable(
        &self,
        workspace: &Workspace,
        error: &RequestError,
    ) -> RuntimeState {
        let uid = workspace.uid().unwrap_or_default();
        let found = self.children.of(workspace).stateful_set;
        let is_immutable = error.is_invalid() && error.cause().contains(IMMUTABLE);
        let Some(set) = found.filter(|_| is_immutable) else {
            self.pod_usage.end_replacing(&uid);
            return rejection(error);
        };
        if !self.pod_usage.begin_replacing(&uid) {
            let message = "the pod is replaced when the run in progress ends";
            return RuntimeState::Rolling(message.to_owned());
        }
        let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
        let deleted =
            pko_kube::delete::<StatefulSet>(&self.client, &namespace, &name, set.uid()).await;
        self.children.forget_stateful_set(&set);
        match deleted {
            Ok(()) => RuntimeState::Migrated,
            Err(error) => rejection(&error),
        }
    }

    /// Why there is no pod, by the events of its StatefulSet.
    async fn missing(&self, set: Option<&StatefulSet>) -> RuntimeState {
        let waiting = pod::WAITING;
        let Some(set) = set.filter(|set| is_older_than(set, POD_GRACE)) else {
            return RuntimeState::Starting(waiting.to_owned());
        };
        match pko_kube::last_event_message(&self.client, set, FAILED_CREATE).await {
            Ok(Some(message)) => RuntimeState::Failed(redact(&format!(
                "the StatefulSet can't create its pod: {message}"
            ))),
            Ok(None) => RuntimeState::Starting(waiting.to_owned()),
            Err(error) => {
                tracing::info!(error = error.full_text(), "Failed to read events");
                RuntimeState::Starting(waiting.to_owned())
            }
        }
    }

    fn address_in_status(&self, workspace: &Workspace) -> String {
        let address = self.settings.address_override.clone();
        address.unwrap_or_else(|| pod::address(workspace))
    }

    fn is_refused(&self, workspace: &Workspace) -> bool {
        let pod = self.children.pod(workspace).and_then(|pod| pod.uid());
        pod.is_some_and(|pod| self.rejecting.lock().contains(&pod))
    }

    fn credentials(&self, workspace: &Workspace, admits: AdmittedCallers) -> Credentials {
        let namespace = workspace.namespace().unwrap_or_default();
        let audience = audience(&namespace, &workspace.name_any());
        match (admits, self.tokens.service_account.clone()) {
            (AdmittedCallers::All, _) => Credentials::None,
            (AdmittedCallers::Manager, _) => Credentials::Manager {
                tokens: Arc::clone(&self.tokens.manager),
                audience,
            },
            (AdmittedCallers::ServiceAccount, Some(tokens)) => {
                Credentials::ServiceAccount { tokens, audience }
            }
            (AdmittedCallers::ServiceAccount, None) => Credentials::Unavailable,
        }
    }

    /// Annotates the pod, and changes nothing else of it.
    async fn annotate_initialized(
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

/// Whether another operator started this Update, which has ended, and this one gave it up.
fn is_orphaned(update: &Update) -> bool {
    update.status.as_ref().is_some_and(|status| {
        status.workspace_instance.is_none()
            && status.failure_class.as_deref() == Some(FailureClass::Interrupted.as_str())
    })
}

fn count_update(demand: &mut WorkspaceDemand, update: &Update) {
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

/// Classifies the rejection of an object.
fn rejection(error: &RequestError) -> RuntimeState {
    let message = redact(&error.full_text());
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
