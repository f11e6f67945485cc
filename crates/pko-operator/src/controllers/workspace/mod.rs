//! The controller of Workspaces: starts their runtime and sets up their agent.

pub(crate) mod setup;

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::{
    Resource as _, api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Resource as _, ResourceExt as _,
    runtime::{Controller, controller::Action, reflector::ObjectRef},
};
use pko_api::{
    Decoded, Stack, Update, Workspace,
    auto::v1alpha1::WorkspaceStatus,
    names::{conditions::ConditionType, events, field_managers, labels},
};
use pko_core::{
    Machine as _,
    condition_set::{find, is_true},
    update::is_version,
    workspace::{
        AgentError, ObservedWorkspace, SetupStage, SetupState, WorkspaceEffect, WorkspaceRead,
        WorkspaceResponse, WorkspaceWrite, is_awaited,
    },
};
use pko_kube::EventNote;
use pko_proto::agent as wire;
use tokio::time::Instant;

use super::{
    Context, ReconcileError, Reconciler, after_error,
    context::{latest, log_event_error},
    instrument, reconcile_object,
};
use crate::{
    agents::{self, AgentPool, ConnectError, with_deadline},
    metrics::Metrics,
    watch::{pods::WorkspaceStreams, shared::receiver_stream},
    workspace_runtime::{AgentTarget, WorkspaceId},
};

/// A container that has just started may take this long to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);
/// For all calls of the agent in one reconcile, which occupies a worker.
const AGENT_DEADLINE: Duration = Duration::from_secs(20);

/// Runs until the manager ends.
pub(crate) async fn run(
    controller: Controller<Decoded<Workspace>>,
    streams: WorkspaceStreams,
    context: Arc<Context>,
) {
    let stream = controller
        .owns_shared_stream(streams.services)
        .owns_shared_stream(streams.stateful_sets)
        .watches_shared_stream(streams.pods, |pod: Arc<Pod>| of_pod(&pod))
        .watches_shared_stream(streams.updates, |update: Arc<Decoded<Update>>| {
            of_update(&update)
        })
        .reconcile_on(receiver_stream(streams.triggers))
        .run(
            instrument(events::WORKSPACE_CONTROLLER, reconcile),
            |_, error, _| after_error(error),
            context,
        );
    stream.for_each(|_| std::future::ready(())).await;
}

/// The Workspace of a pod, by its label. Its owner is the StatefulSet.
fn of_pod(pod: &Pod) -> Option<ObjectRef<Decoded<Workspace>>> {
    let name = pod.labels().get(labels::WORKSPACE_NAME)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

/// The Workspace of an Update. A waiting Update needs a pod; one that has ended may leave it idle.
fn of_update(update: &Decoded<Update>) -> Option<ObjectRef<Decoded<Workspace>>> {
    let update = update.as_result().ok()?;
    let name = update.spec.workspace_name.as_deref()?;
    Some(ObjectRef::new(name).within(&update.namespace()?))
}

async fn reconcile(
    object: Arc<Decoded<Workspace>>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let Some(object) = latest(object, &context.caches.workspaces, &context).await? else {
        return Ok(Action::await_change());
    };
    let workspace = match object.as_result() {
        Ok(workspace) => workspace,
        Err(undecodable) => {
            for effect in
                ObservedWorkspace::decide_undecodable(undecodable, Timestamp::now()).effects
            {
                if let WorkspaceEffect::PatchStatus(status) = effect {
                    write_status(object.as_ref(), &context, &status).await?;
                }
            }
            return Ok(Action::await_change());
        }
    };
    let reconciler = WorkspaceReconciler {
        workspace,
        context: &context,
    };
    Box::pin(reconcile_object(
        &reconciler,
        ObservedWorkspace::new(workspace.clone()),
    ))
    .await
}

struct WorkspaceReconciler<'a> {
    workspace: &'a Workspace,
    context: &'a Arc<Context>,
}

impl Reconciler for WorkspaceReconciler<'_> {
    type Observed = ObservedWorkspace;

    async fn read(&self, read: WorkspaceRead) -> Result<WorkspaceResponse, ReconcileError> {
        match read {
            WorkspaceRead::Awaited(stack) => Ok(WorkspaceResponse::Awaited(
                self.is_awaited_by(&stack).await?,
            )),
            WorkspaceRead::Version => Ok(WorkspaceResponse::Version(self.version().await)),
        }
    }

    async fn write(&self, write: WorkspaceWrite) -> Result<WorkspaceResponse, ReconcileError> {
        let Self { workspace, context } = *self;
        match write {
            WorkspaceWrite::EnsureRuntime => {
                // Runs of an earlier manager count before any pod is stopped.
                context.runs.queue.wait_until_primed().await;
                Ok(WorkspaceResponse::Runtime(
                    context.runtime.ensure(workspace).await,
                ))
            }
            WorkspaceWrite::SetUp => {
                let Some(agent) = context.runtime.agent(workspace) else {
                    let gone = SetupState::InProgress(SetupStage::Installing);
                    return Ok(WorkspaceResponse::Setup(gone));
                };
                let preparation = context.workspace_setup.ensure(workspace, agent, context);
                Ok(WorkspaceResponse::Setup(preparation.await))
            }
        }
    }

    async fn perform(
        &self,
        _: &ObservedWorkspace,
        effect: WorkspaceEffect,
    ) -> Result<(), ReconcileError> {
        let Self { workspace, context } = *self;
        match effect {
            WorkspaceEffect::PatchStatus(status) => {
                write_status(workspace, context, &status).await?;
                measure_start(workspace, &status, &context.metrics);
            }
            WorkspaceEffect::RemoveRuntime => {
                let namespace = workspace.namespace().unwrap_or_default();
                let (name, uid) = (workspace.name_any(), workspace.uid());
                context.memory.applied_workspaces.forget(&namespace, &name);
                context.runtime.remove(&WorkspaceId {
                    namespace,
                    name,
                    uid: uid.unwrap_or_default(),
                });
            }
            WorkspaceEffect::Delete => {
                pko_kube::delete_unchanged(&context.client, workspace).await?;
            }
            WorkspaceEffect::Emit(event) => {
                let note = EventNote {
                    reason: event.reason.as_str(),
                    message: &event.message,
                    warning: event.warning,
                };
                log_event_error(context.recorders.workspace.record(workspace, &note).await);
            }
        }
        Ok(())
    }

    fn object(&self) -> (&'static str, &ObjectMeta) {
        (Workspace::KIND, &self.workspace.metadata)
    }

    fn context(&self) -> &Context {
        self.context
    }
}

impl WorkspaceReconciler<'_> {
    /// Whether the Stack of this name waits for the Workspace. The cache can prove that it does;
    /// only a live read proves that it does not.
    async fn is_awaited_by(&self, stack: &str) -> Result<bool, ReconcileError> {
        let Self { workspace, context } = *self;
        let namespace = workspace.namespace().unwrap_or_default();
        let waits = |stack: &Decoded<Stack>| is_awaited(workspace, stack.meta());
        let cached = context
            .caches
            .stacks
            .get(&ObjectRef::new(stack).within(&namespace));
        if cached.is_some_and(|stack| waits(&stack)) {
            return Ok(true);
        }
        let live: Option<Decoded<Stack>> =
            pko_kube::find(&context.client, &namespace, stack).await?;
        Ok(live.is_some_and(|stack| waits(&stack)))
    }

    async fn version(&self) -> Result<String, AgentError> {
        let Some(agent) = self.context.runtime.agent(self.workspace) else {
            return Err(AgentError::Unreachable(
                "the workspace has no agent yet".to_owned(),
            ));
        };
        let is_new = !self.context.runtime.is_initialized(self.workspace);
        let patience = if is_new {
            LISTENS_WITHIN
        } else {
            Duration::ZERO
        };
        let uid = self.workspace.uid().unwrap_or_default();
        let version = version(&self.context.agents, &uid, &agent, patience);
        let late = |_| {
            let message = "the workspace's agent did not respond within 20 seconds";
            Err(AgentError::Unreachable(message.to_owned()))
        };
        let version = tokio::time::timeout(AGENT_DEADLINE, version).await;
        let version = version.unwrap_or_else(late).and_then(checked_version);
        let denials = ["Unauthenticated", "PermissionDenied"];
        if let Err(AgentError::Refused { reason, .. }) = &version
            && denials.contains(&reason.as_str())
        {
            self.context.runtime.record_rejection(&agent.instance);
        }
        version
    }
}

async fn write_status(
    workspace: &impl kube::ResourceExt,
    context: &Context,
    status: &WorkspaceStatus,
) -> Result<(), ReconcileError> {
    let manager = field_managers::WORKSPACE_STATUS;
    context
        .write_status::<Workspace>(workspace, status, manager)
        .await
}

/// Records how long a Workspace took to become Ready with this status.
fn measure_start(workspace: &Workspace, status: &WorkspaceStatus, metrics: &Metrics) {
    let before = workspace.status.as_ref();
    let before = before.and_then(|status| find(&status.conditions, ConditionType::Ready));
    let was_ready = before.is_some_and(|condition| condition.status == "True");
    if was_ready || !is_true(&status.conditions, ConditionType::Ready) {
        return;
    }
    let since = before.map(|condition| condition.last_transition_time.0);
    let created = workspace.metadata.creation_timestamp.as_ref();
    if let Some(since) = since.or(created.map(|time| time.0)) {
        metrics.workspace_started(Timestamp::now().duration_since(since).as_secs_f64());
    }
}

fn checked_version(version: String) -> Result<String, AgentError> {
    if is_version(&version) {
        return Ok(version);
    }
    Err(AgentError::Refused {
        reason: "InvalidVersion".to_owned(),
        message: "the workspace's agent reports a version of Pulumi's CLI that is too long or has \
                  unusual characters"
            .to_owned(),
    })
}

/// The version of an agent's Pulumi CLI. Retries while a new agent does not listen yet.
async fn version(
    agents: &AgentPool,
    workspace: &str,
    agent: &AgentTarget,
    patience: Duration,
) -> Result<String, AgentError> {
    let _permit = agents
        .check_version(workspace, agent)
        .map_err(AgentError::Unreachable)?;
    let end = Instant::now() + patience;
    let (answer, asked) = loop {
        let asked = std::time::Instant::now();
        match attempt(agents, workspace, agent).await {
            Err(VersionError::Connect(ConnectError::Transport(_))) if Instant::now() < end => {
                tokio::time::sleep(PAUSE).await;
            }
            answer => break (answer, asked),
        }
    };
    let answer = answer.map_err(AgentError::from);
    let unreachable = match &answer {
        Err(AgentError::Unreachable(message)) => Some(message),
        _ => None,
    };
    agents.record_version(workspace, agent, unreachable, asked);
    answer
}

#[derive(Debug, thiserror::Error)]
enum VersionError {
    #[error("unable to connect to workspace: {0}")]
    Connect(#[from] ConnectError),
    #[error("failed to read the version of the CLI")]
    Call(#[from] tonic::Status),
}

impl From<VersionError> for AgentError {
    fn from(error: VersionError) -> Self {
        match error {
            VersionError::Connect(_) => Self::Unreachable(error.to_string()),
            VersionError::Call(status) => agents::agent_error(&status),
        }
    }
}

async fn attempt(
    agents: &AgentPool,
    workspace: &str,
    agent: &AgentTarget,
) -> Result<String, VersionError> {
    let mut connection = agents.connect(workspace, agent).await?;
    let request = wire::PulumiVersionRequest {};
    let version = with_deadline(connection.automation.pulumi_version(request)).await?;
    Ok(version.version)
}
