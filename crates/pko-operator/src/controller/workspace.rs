//! Workspaces: a place to run, and an agent that is ready.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use kube::{
    ResourceExt as _,
    runtime::{Controller, controller::Action, reflector::ObjectRef},
};
use pko_api::{
    Decoded, Workspace,
    auto::v1alpha1::WorkspaceStatus,
    names::{conditions::ConditionType, events, field_managers},
};
use pko_core::condition_set::{find, is_true};
use pko_core::workspace::{Agent, AgentError, Answer, Effect, Question, World, decide_undecodable};
use pko_kube::Notice;
use pko_proto::agent as wire;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    Context, Pass, PassError, after_error,
    context::{fresh, told},
    drive,
    feed::receiving,
    supervised,
};
use crate::{
    agent_client::{self, Credentials, in_time},
    metrics::Metrics,
};

/// Runs the controller until the manager ends; `woken` are Workspaces whose place has changed.
pub(crate) async fn run(
    controller: Controller<Decoded<Workspace>>,
    woken: UnboundedReceiver<ObjectRef<Decoded<Workspace>>>,
    context: Arc<Context>,
) {
    let stream = controller.reconcile_on(receiving(woken)).run(
        supervised(events::WORKSPACE_CONTROLLER, reconcile),
        |_, error, _| after_error(error),
        context,
    );
    futures::StreamExt::for_each(stream, |_| std::future::ready(())).await;
}

async fn reconcile(
    object: Arc<Decoded<Workspace>>,
    context: Arc<Context>,
) -> Result<Action, PassError> {
    let Some(object) = fresh(object, &context).await? else {
        return Ok(Action::await_change());
    };
    let workspace = match object.as_result() {
        Ok(workspace) => workspace,
        Err(undecodable) => {
            for effect in decide_undecodable(undecodable, Timestamp::now()).effects {
                if let Effect::PatchStatus(status) = effect {
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
    drive(&pass, World::new(workspace.clone())).await
}

struct WorkspacePass<'pass> {
    workspace: &'pass Workspace,
    context: &'pass Context,
}

impl Pass for WorkspacePass<'_> {
    type World = World;

    async fn answer(&self, question: Question) -> Result<Answer, PassError> {
        match question {
            Question::Place => Ok(Answer::Place(
                self.context.places.ensure(self.workspace).await,
            )),
            Question::Agent(address, publish) => {
                if let Some(status) = &publish
                    && self.workspace.status.as_ref() != Some(status.as_ref())
                {
                    write_status(self.workspace, self.context, status).await?;
                }
                let credentials = self.context.places.credentials(self.workspace);
                let metrics = &self.context.metrics;
                let agent = agent(&address, &credentials, publish.is_some(), metrics).await;
                Ok(Answer::Agent(agent))
            }
        }
    }

    async fn act(&self, _: &World, effect: Effect) -> Result<(), PassError> {
        let Self { workspace, context } = *self;
        match effect {
            Effect::PatchStatus(status) => {
                write_status(workspace, context, &status).await?;
                measure_start(workspace, &status, &context.metrics);
            }
            Effect::Remove => {
                let (namespace, uid) = (workspace.namespace(), workspace.uid());
                context.places.remove(
                    &namespace.unwrap_or_default(),
                    &workspace.name_any(),
                    &uid.unwrap_or_default(),
                );
            }
            Effect::Emit(event) => {
                let notice = Notice {
                    reason: event.reason.as_str(),
                    message: &event.message,
                    warning: event.warning,
                };
                told(context.reporters.workspace.report(workspace, &notice).await);
            }
        }
        Ok(())
    }

    fn log(&self, rule: &'static str) {
        tracing::debug!(
            namespace = self.workspace.namespace(),
            name = self.workspace.name_any(),
            rule,
            "Workspace decided"
        );
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

/// Whether an agent is ready; a new one installs what its program needs.
async fn agent(
    address: &str,
    credentials: &Credentials,
    install: bool,
    metrics: &Metrics,
) -> Result<Agent, AgentError> {
    let unreachable = |error: &dyn std::error::Error| {
        AgentError::Unreachable(format!("unable to connect to workspace: {error}"))
    };
    let mut connection = agent_client::connect(address, credentials)
        .await
        .map_err(|error| unreachable(&error))?;
    let version = in_time(
        connection
            .automation
            .pulumi_version(wire::PulumiVersionRequest {}),
    )
    .await;
    let version = version.map_err(|status| AgentError::Unreachable(agent_client::text(&status)))?;
    if install {
        let start = Instant::now();
        let installed = connection.automation.install(wire::InstallRequest {}).await;
        metrics.installed(installed.is_ok(), start.elapsed());
        installed.map_err(|status| AgentError::Installation(agent_client::text(&status)))?;
    }
    Ok(Agent {
        pulumi_version: version.version,
    })
}
