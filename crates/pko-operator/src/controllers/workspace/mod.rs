//! Workspaces: a place to run, and an agent that is ready.

pub(crate) mod setup;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use jiff::Timestamp;
use k8s_openapi::{
    Resource as _,
    api::{
        apps::v1::StatefulSet,
        core::v1::{Pod, Service},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
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
    workspace::{
        AgentError, ObservedWorkspace, SetupStage, SetupState, WorkspaceEffect, WorkspaceRead,
        WorkspaceResponse, WorkspaceWrite, is_awaited,
    },
};
use pko_kube::EventNote;
use pko_proto::agent as wire;
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

use super::{
    Context, Pass, PassError, after_error,
    context::{fresh, told},
    drive, supervised,
};
use crate::{
    agents::{self, Agents, ConnectError, in_time},
    metrics::Metrics,
    watch::shared::receiving,
    workspace_runtime::AgentAt,
};

/// A container that has just been started may take so long to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);

/// What wakes a Workspace besides itself.
pub(crate) struct Wakers {
    pub(crate) services: BoxStream<'static, Arc<Service>>,
    pub(crate) stateful_sets: BoxStream<'static, Arc<StatefulSet>>,
    pub(crate) pods: BoxStream<'static, Arc<Pod>>,
    pub(crate) updates: BoxStream<'static, Arc<Decoded<Update>>>,
    /// Workspaces whose place or preparation has changed.
    pub(crate) woken: UnboundedReceiver<ObjectRef<Decoded<Workspace>>>,
}

/// Runs the controller until the manager ends.
pub(crate) async fn run(
    controller: Controller<Decoded<Workspace>>,
    wakers: Wakers,
    context: Arc<Context>,
) {
    let stream = controller
        .owns_shared_stream(wakers.services)
        .owns_shared_stream(wakers.stateful_sets)
        .watches_shared_stream(wakers.pods, |pod: Arc<Pod>| of_pod(&pod))
        .watches_shared_stream(wakers.updates, |update: Arc<Decoded<Update>>| {
            of_update(&update)
        })
        .reconcile_on(receiving(wakers.woken))
        .run(
            supervised(events::WORKSPACE_CONTROLLER, reconcile),
            |_, error, _| after_error(error),
            context,
        );
    stream.for_each(|_| std::future::ready(())).await;
}

/// A pod belongs to its StatefulSet; the label says to which Workspace.
fn of_pod(pod: &Pod) -> Option<ObjectRef<Decoded<Workspace>>> {
    let name = pod.labels().get(labels::WORKSPACE_NAME)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

/// An Update that waits wants a pod; one that has ended may let it go.
fn of_update(update: &Decoded<Update>) -> Option<ObjectRef<Decoded<Workspace>>> {
    let update = update.as_result().ok()?;
    let name = update.spec.workspace_name.as_deref()?;
    Some(ObjectRef::new(name).within(&update.namespace()?))
}

async fn reconcile(
    object: Arc<Decoded<Workspace>>,
    context: Arc<Context>,
) -> Result<Action, PassError> {
    let Some(object) = fresh(object, &context.workspaces, &context).await? else {
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
    let pass = WorkspacePass {
        workspace,
        context: &context,
    };
    Box::pin(drive(&pass, ObservedWorkspace::new(workspace.clone()))).await
}

struct WorkspacePass<'pass> {
    workspace: &'pass Workspace,
    context: &'pass Arc<Context>,
}

impl Pass for WorkspacePass<'_> {
    type Observed = ObservedWorkspace;

    async fn read(&self, read: WorkspaceRead) -> Result<WorkspaceResponse, PassError> {
        match read {
            WorkspaceRead::Awaited(stack) => Ok(WorkspaceResponse::Awaited(
                self.is_awaited_by(&stack).await?,
            )),
            WorkspaceRead::Version => Ok(WorkspaceResponse::Version(self.version().await)),
        }
    }

    async fn write(&self, write: WorkspaceWrite) -> Result<WorkspaceResponse, PassError> {
        let Self { workspace, context } = *self;
        match write {
            WorkspaceWrite::EnsureRuntime => {
                // Runs from before the start count before any pod is ended.
                context.turns.are_primed().await;
                Ok(WorkspaceResponse::Runtime(
                    context.places.ensure(workspace).await,
                ))
            }
            WorkspaceWrite::SetUp => {
                let Some(agent) = context.places.agent(workspace) else {
                    let gone = SetupState::InProgress(SetupStage::Installing);
                    return Ok(WorkspaceResponse::Setup(gone));
                };
                let preparation = context.preparations.ask(workspace, agent, context);
                Ok(WorkspaceResponse::Setup(preparation.await))
            }
        }
    }

    async fn act(&self, _: &ObservedWorkspace, effect: WorkspaceEffect) -> Result<(), PassError> {
        let Self { workspace, context } = *self;
        match effect {
            WorkspaceEffect::PatchStatus(status) => {
                write_status(workspace, context, &status).await?;
                measure_start(workspace, &status, &context.metrics);
            }
            WorkspaceEffect::Remove => {
                let namespace = workspace.namespace().unwrap_or_default();
                let (name, uid) = (workspace.name_any(), workspace.uid());
                context.applied.forget(&namespace, &name);
                context
                    .places
                    .remove(&namespace, &name, &uid.unwrap_or_default());
            }
            WorkspaceEffect::Delete => {
                pko_kube::delete_unchanged(&context.client, workspace).await?
            }
            WorkspaceEffect::Emit(event) => {
                let note = EventNote {
                    reason: event.reason.as_str(),
                    message: &event.message,
                    warning: event.warning,
                };
                told(context.recorders.workspace.record(workspace, &note).await);
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

impl WorkspacePass<'_> {
    /// Whether the Stack of this name waits for the Workspace. The cache is believed that it does, and that it does not the
    /// API server alone.
    async fn is_awaited_by(&self, stack: &str) -> Result<bool, PassError> {
        let Self { workspace, context } = *self;
        let namespace = workspace.namespace().unwrap_or_default();
        let waits = |stack: &Decoded<Stack>| is_awaited(workspace, stack.meta());
        let cached = context
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
        let Some(agent) = self.context.places.agent(self.workspace) else {
            return Err(AgentError::Unreachable("there is no agent yet".to_owned()));
        };
        let is_new = !self.context.places.is_initialized(self.workspace);
        let patience = if is_new {
            LISTENS_WITHIN
        } else {
            Duration::ZERO
        };
        let uid = self.workspace.uid().unwrap_or_default();
        let version = version(&self.context.agents, &uid, &agent, patience).await;
        let denials = ["Unauthenticated", "PermissionDenied"];
        if let Err(AgentError::Refused { reason, .. }) = &version
            && denials.contains(&reason.as_str())
        {
            self.context.places.mark_refused(&agent.instance);
        }
        version
    }
}

async fn write_status(
    workspace: &impl kube::ResourceExt,
    context: &Context,
    status: &WorkspaceStatus,
) -> Result<(), PassError> {
    let manager = field_managers::WORKSPACE_STATUS;
    context
        .write_status::<Workspace>(workspace, status, manager)
        .await
}

/// Measures how long it took a Workspace to be Ready, which it is with this status: since it was not, or since it is.
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

/// The version of an agent's Pulumi CLI; a new agent may take a moment to listen.
async fn version(
    agents: &Agents,
    workspace: &str,
    agent: &AgentAt,
    patience: Duration,
) -> Result<String, AgentError> {
    let end = Instant::now() + patience;
    let mut connection = loop {
        match agents.connect(workspace, agent).await {
            Ok(connection) => break connection,
            Err(ConnectError::Transport(_)) if Instant::now() < end => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => {
                let message = format!("unable to connect to workspace: {error}");
                return Err(AgentError::Unreachable(message));
            }
        }
    };
    let request = wire::PulumiVersionRequest {};
    let version = in_time(connection.automation.pulumi_version(request)).await;
    version
        .map(|version| version.version)
        .map_err(|status| agents::refusal(&status))
}
