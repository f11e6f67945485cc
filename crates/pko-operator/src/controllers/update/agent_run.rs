//! The run of an Update in the workspace's agent: start, cancel, watch, acknowledge.

use std::time::Duration;

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Update, Workspace};
use pko_core::update::{
    AgentState, InterruptedRun, RunError, RunProgress, has_begun, interrupted_runs,
};
use tonic::Status;

use super::{AgentCalls, Context};
use crate::agents::{self, AgentReply, ConnectError, Connection, start_request};

/// How soon a run is checked again after its watch failed.
const WATCH_RETRY_AFTER: Duration = Duration::from_secs(5);
/// An agent of upstream stops an operation when its caller is gone.
const CALLER_GONE: &str = "the manager was restarted while the operation ran, and this workspace's agent stops an \
                         operation whose caller is gone; completed changes are in the stack's state";

#[derive(Debug, thiserror::Error)]
enum ReachError {
    #[error("the workspace has no agent yet")]
    NoAgent,
    #[error("unable to connect to workspace: {0}")]
    Connect(#[from] ConnectError),
}

impl From<ReachError> for RunError {
    fn from(error: ReachError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

async fn connect(workspace: &Workspace, context: &Context) -> Result<Connection, ReachError> {
    let agent = context
        .runtime
        .agent(workspace)
        .ok_or(ReachError::NoAgent)?;
    let uid = workspace.uid().unwrap_or_default();
    Ok(context.agents.connect(&uid, &agent).await?)
}

/// Contacts the agent. From now on its pod is not replaced until the run is released.
pub(super) async fn reach(
    update: &Update,
    workspace: &Workspace,
    context: &Context,
    calls: &AgentCalls,
) -> AgentState {
    let agent = context.runtime.agent(workspace);
    if let Some(begun_in) = instance_of_run(update) {
        // Its result is here, whatever became of the pod.
        if context
            .runs
            .upstream
            .has_ended(&update.uid().unwrap_or_default())
        {
            return AgentState::Reachable(begun_in.to_owned());
        }
        if agent.is_none() && context.runtime.is_gone(workspace, begun_in).await {
            return AgentState::Gone;
        }
    }
    let instance = agent.as_ref().map(|agent| agent.instance.clone());
    let (run, place) = (
        update.uid().unwrap_or_default(),
        workspace.uid().unwrap_or_default(),
    );
    let blocker = || context.runtime.start_blocker(workspace, update);
    let contact = if !has_begun(update)
        && let Some(blocker) = blocker()
    {
        Err(blocker.to_owned())
    } else if context.runs.pod_usage.acquire(&place, &run) {
        match &agent {
            Some(agent) => {
                let probed = context.agents.probe(&place, agent, &run).await;
                probed.map(|permit| {
                    if let Some(permit) = permit {
                        // Held until the reconcile ends.
                        let _ = calls.permit.set(permit);
                    }
                })
            }
            None => Err(ReachError::NoAgent.to_string()),
        }
    } else {
        Err("the workspace's pod is being replaced".to_owned())
    };
    match (contact, instance) {
        (Ok(()), Some(instance)) => AgentState::Reachable(instance),
        (contact, instance) => AgentState::Unreachable {
            instance,
            message: contact.err().unwrap_or_default(),
        },
    }
}

fn instance_of_run(update: &Update) -> Option<&str> {
    let status = update.status.as_ref();
    status.and_then(|status| status.workspace_instance.as_deref())
}

/// Starts the run of an Update. Idempotent.
pub(super) async fn start(
    update: &Update,
    workspace: &Workspace,
    context: &Context,
) -> Result<RunProgress, RunError> {
    let run = update.uid().unwrap_or_default();
    if let Some(known) = context.runs.upstream.find(&run) {
        return Ok(known);
    }
    let lost = lost_runs_of_workspace(update, context);
    let request = start_request(update, workspace, context.runs.timeout, lost, |path| {
        context.runtime.local_path(workspace, path)
    });
    let request = request.map_err(RunError::Refused)?;
    let connection = connect(workspace, context).await?;
    match agents::start(&connection, request.clone()).await? {
        AgentReply::Run(run) => Ok(run),
        // By the status before this reconcile: a run that an earlier manager started.
        AgentReply::NotOwned if has_begun(update) => Err(RunError::Lost(CALLER_GONE.to_owned())),
        AgentReply::NotOwned => {
            context
                .runs
                .upstream
                .begin(&connection, request, reference(update));
            Ok(RunProgress::Running)
        }
    }
}

/// The runs that were lost in the same Workspace, as far as their Updates exist.
fn lost_runs_of_workspace(update: &Update, context: &Context) -> Vec<InterruptedRun> {
    let known = context.caches.updates.state();
    let known = known.iter().filter_map(|object| object.as_result().ok());
    interrupted_runs(update, known)
}

/// Cancels the run of an Update gracefully.
pub(super) async fn cancel(
    update: &Update,
    workspace: &Workspace,
    context: &Context,
) -> Result<RunProgress, RunError> {
    let run = update.uid().unwrap_or_default();
    if let Some(known) = context.runs.upstream.find(&run) {
        context.runs.upstream.cancel(&run);
        return Ok(known);
    }
    let connection = connect(workspace, context).await?;
    match agents::cancel(&connection, &run).await? {
        AgentReply::Run(run) => Ok(run),
        AgentReply::NotOwned => Err(RunError::Lost(CALLER_GONE.to_owned())),
    }
}

/// Waits in the background for the end of a run, then triggers the Update.
pub(super) fn watch(update: &Update, workspace: Option<&Workspace>, context: &Context) {
    let run = update.uid().unwrap_or_default();
    // These trigger their Update themselves.
    let is_streamed = context.runs.upstream.find(&run).is_some();
    let agent = workspace.and_then(|workspace| {
        let agent = context.runtime.agent(workspace)?;
        Some((workspace.uid().unwrap_or_default(), agent))
    });
    let Some((workspace, agent)) = agent.filter(|_| !is_streamed) else {
        return;
    };
    let Some(earliest) = context.runs.watchers.start(&run) else {
        return;
    };
    let (watchers, agents) = (context.runs.watchers.clone(), context.agents.clone());
    let object = reference(update);
    tokio::spawn(async move {
        let end = match agents.connect(&workspace, &agent).await {
            Ok(connection) => agents::wait_for_end(&connection, &run).await,
            Err(error) => Err(Status::unavailable(error.to_string())),
        };
        if let Err(status) = end {
            let error = agents::status_text(&status);
            tracing::info!(run, error, "Stopped watching a run");
            // Avoids a hot loop.
            tokio::time::sleep(WATCH_RETRY_AFTER).await;
        }
        tokio::time::sleep_until(earliest).await;
        watchers.finish(&run, object);
    });
}

/// Lets the agent forget the run, if it can be reached. Idempotent.
pub(super) async fn acknowledge(update: &Update, workspace: Option<&Workspace>, context: &Context) {
    let run = update.uid().unwrap_or_default();
    if context.runs.upstream.find(&run).is_some() {
        return context.runs.upstream.forget(&run);
    }
    let Some(workspace) = workspace else { return };
    let Ok(connection) = connect(workspace, context).await else {
        return;
    };
    if let Err(status) = agents::acknowledge(&connection, &run).await {
        let (name, error) = (update.name_any(), agents::status_text(&status));
        tracing::info!(name, error, "Failed to acknowledge a run");
    }
}

fn reference(update: &Update) -> ObjectRef<pko_api::Decoded<Update>> {
    ObjectRef::new(&update.name_any()).within(&update.namespace().unwrap_or_default())
}
