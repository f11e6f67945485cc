//! The run of an Update, in the workspace's agent: reached, begun or found, told to end, followed and let go.

use std::time::Duration;

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Update, Workspace};
use pko_core::update::{
    AgentState, InterruptedRun, RunError, RunProgress, has_begun, interrupted_runs,
};
use tonic::Status;

use super::Context;
use crate::agents::{self, Begun, ConnectError, Connection, start_request};

/// How soon a run that could not be followed is looked at.
const FOLLOW_AGAIN: Duration = Duration::from_secs(5);
/// Upstream's agent stops an operation when its caller goes away.
const FORGOTTEN: &str = "the manager was restarted while the operation ran, and this workspace's agent stops an \
                         operation whose caller is gone; what it had done by then is in the stack's state";

/// Why a workspace's agent can't be talked to.
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
    let agent = context.places.agent(workspace).ok_or(ReachError::NoAgent)?;
    let uid = workspace.uid().unwrap_or_default();
    Ok(context.agents.connect(&uid, &agent).await?)
}

/// Speaks to the agent. From now on nobody replaces what it runs in, until the run has left.
pub(super) async fn reach(update: &Update, workspace: &Workspace, context: &Context) -> AgentState {
    let agent = context.places.agent(workspace);
    let instance = agent.as_ref().map(|agent| agent.instance.clone());
    let (run, place) = (
        update.uid().unwrap_or_default(),
        workspace.uid().unwrap_or_default(),
    );
    let refusal = || context.places.refuses(workspace, update);
    let spoken_to = if !has_begun(update)
        && let Some(refusal) = refusal()
    {
        Err(refusal.to_owned())
    } else if context.occupancy.enter(&place, &run) {
        match &agent {
            Some(agent) => context.agents.greet(&place, agent, &run).await,
            None => Err(ReachError::NoAgent.to_string()),
        }
    } else {
        Err("the workspace's pod is being replaced".to_owned())
    };
    match (spoken_to, instance) {
        (Ok(()), Some(instance)) => AgentState::Reachable(instance),
        (spoken_to, instance) => AgentState::Unreachable {
            instance,
            message: spoken_to.err().unwrap_or_default(),
        },
    }
}

/// Starts the run of an Update, or finds it.
pub(super) async fn start(
    update: &Update,
    workspace: &Workspace,
    context: &Context,
) -> Result<RunProgress, RunError> {
    let run = update.uid().unwrap_or_default();
    if let Some(known) = context.streams.find(&run) {
        return Ok(known);
    }
    let lost = lost_beside(update, context);
    let request = start_request(update, workspace, context.run_timeout, lost, |path| {
        context.places.local_path(workspace, path)
    });
    let request = request.map_err(RunError::Refused)?;
    let connection = connect(workspace, context).await?;
    match agents::start(&connection, request.clone()).await? {
        Begun::Run(run) => Ok(run),
        // As the status says that this pass was given: an earlier one, of another manager, began it.
        Begun::NotOwned if has_begun(update) => Err(RunError::Lost(FORGOTTEN.to_owned())),
        Begun::NotOwned => {
            context
                .streams
                .begin(&connection, request, reference(update));
            Ok(RunProgress::Running)
        }
    }
}

/// The runs that were lost in the same Workspace, as far as their Updates are kept.
fn lost_beside(update: &Update, context: &Context) -> Vec<InterruptedRun> {
    let known = context.updates.state();
    let known = known.iter().filter_map(|object| object.as_result().ok());
    interrupted_runs(update, known)
}

/// Tells the run of an Update to end, gently.
pub(super) async fn cancel(
    update: &Update,
    workspace: &Workspace,
    context: &Context,
) -> Result<RunProgress, RunError> {
    let run = update.uid().unwrap_or_default();
    if let Some(known) = context.streams.find(&run) {
        context.streams.cancel(&run);
        return Ok(known);
    }
    let connection = connect(workspace, context).await?;
    match agents::cancel(&connection, &run).await? {
        Begun::Run(run) => Ok(run),
        Begun::NotOwned => Err(RunError::Lost(FORGOTTEN.to_owned())),
    }
}

/// Waits in the background for the end of a run, then wakes the Update.
pub(super) fn follow(update: &Update, workspace: Option<&Workspace>, context: &Context) {
    let run = update.uid().unwrap_or_default();
    // One of these wakes its Update itself.
    let is_streamed = context.streams.find(&run).is_some();
    let agent = workspace.and_then(|workspace| {
        let agent = context.places.agent(workspace)?;
        Some((workspace.uid().unwrap_or_default(), agent))
    });
    let Some((workspace, agent)) = agent.filter(|_| !is_streamed) else {
        return;
    };
    if !context.followed.begin(&run) {
        return;
    }
    let (followed, agents) = (context.followed.clone(), context.agents.clone());
    let object = reference(update);
    tokio::spawn(async move {
        let end = match agents.connect(&workspace, &agent).await {
            Ok(connection) => agents::until_end(&connection, &run).await,
            Err(error) => Err(Status::unavailable(error.to_string())),
        };
        if let Err(status) = end {
            let error = agents::text(&status);
            tracing::info!(run, error, "Run is not followed any more");
            // A run that can't be followed is looked at now and then, not at once again and again.
            tokio::time::sleep(FOLLOW_AGAIN).await;
        }
        followed.end(&run, object);
    });
}

/// Lets the agent forget the run, if it can be reached: that can be said again, and one that is gone knows no run.
pub(super) async fn acknowledge(update: &Update, workspace: Option<&Workspace>, context: &Context) {
    let run = update.uid().unwrap_or_default();
    if context.streams.find(&run).is_some() {
        return context.streams.forget(&run);
    }
    let Some(workspace) = workspace else { return };
    let Ok(connection) = connect(workspace, context).await else {
        return;
    };
    if let Err(status) = agents::acknowledge(&connection, &run).await {
        let (name, error) = (update.name_any(), agents::text(&status));
        tracing::info!(name, error, "Agent was not told that a result is recorded");
    }
}

fn reference(update: &Update) -> ObjectRef<pko_api::Decoded<Update>> {
    ObjectRef::new(&update.name_any()).within(&update.namespace().unwrap_or_default())
}
