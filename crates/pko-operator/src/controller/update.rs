//! Updates: each is one run of the workspace's agent.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use kube::{
    ResourceExt as _,
    runtime::{Controller, controller::Action, reflector::ObjectRef},
};
use pko_api::{
    Decoded, Update, Workspace,
    auto::v1alpha1::{OperationType, UpdateStatus},
    names::{conditions::ConditionType, events, field_managers},
};
use pko_core::{
    Known,
    condition_set::is_true,
    update::{Answer, Effect, Question, Run, RunError, World, decide_undecodable, has_begun},
};
use pko_kube::Notice;
use pko_proto::run as runs;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    Context, Pass, PassError, after_error,
    context::{fresh, told},
    drive,
    feed::receiving,
    supervised,
};
use crate::{
    agent_client::{self, ConnectError, Credentials, in_time},
    metrics::Metrics,
    telemetry::{self, EndedRun},
};

/// How soon a run that could not be followed is looked at.
const FOLLOW_AGAIN: Duration = Duration::from_secs(5);

/// Runs the controller until the manager ends; `woken` are Updates whose run has ended.
pub(crate) async fn run(
    controller: Controller<Decoded<Update>>,
    workspaces: impl Stream<Item = Arc<Decoded<Workspace>>> + Send + 'static,
    woken: UnboundedReceiver<ObjectRef<Decoded<Update>>>,
    context: Arc<Context>,
) {
    let updates = controller.store();
    let waiting = move |workspace: Arc<Decoded<Workspace>>| {
        let (namespace, name) = (workspace.namespace(), workspace.name_any());
        let waiting = updates
            .state()
            .into_iter()
            .filter(move |update| update.namespace() == namespace && runs_in(update, &name));
        waiting
            .map(|update| ObjectRef::from_obj(update.as_ref()))
            .collect::<Vec<_>>()
    };
    let stream = controller
        .watches_shared_stream(workspaces, waiting)
        .reconcile_on(receiving(woken))
        .run(
            supervised(events::UPDATE_CONTROLLER, reconcile),
            |_, error, _| after_error(error),
            context,
        );
    stream.for_each(|_| std::future::ready(())).await;
}

fn runs_in(update: &Decoded<Update>, workspace: &str) -> bool {
    update
        .as_result()
        .is_ok_and(|update| update.spec.workspace_name.as_deref() == Some(workspace))
}

async fn reconcile(
    object: Arc<Decoded<Update>>,
    context: Arc<Context>,
) -> Result<Action, PassError> {
    let Some(object) = fresh(object, &context).await? else {
        return Ok(Action::await_change());
    };
    let update = match object.as_result() {
        Ok(update) => update,
        Err(undecodable) => {
            for effect in decide_undecodable(undecodable, Timestamp::now()).effects {
                if let Effect::PatchStatus(status) = effect {
                    write_status(object.as_ref(), &context, &status).await?;
                }
            }
            return Ok(Action::await_change());
        }
    };
    let pass = UpdatePass {
        update,
        context: &context,
    };
    drive(&pass, World::new(update.clone())).await
}

struct UpdatePass<'pass> {
    update: &'pass Update,
    context: &'pass Context,
}

impl Pass for UpdatePass<'_> {
    type World = World;

    async fn answer(&self, question: Question) -> Result<Answer, PassError> {
        let Self { update, context } = *self;
        match question {
            Question::Workspace(name) => {
                Ok(Answer::Workspace(workspace(update, context, &name).await?))
            }
            Question::Turn(question) => {
                context.turns.are_primed().await;
                Ok(Answer::Turn(context.turns.ask(update, *question)))
            }
            Question::Run(workspace, publish) => {
                if let Some(status) = publish {
                    write_status(update, context, &status).await?;
                }
                Ok(Answer::Run(start(update, &workspace, context).await))
            }
        }
    }

    async fn act(&self, world: &World, effect: Effect) -> Result<(), PassError> {
        let Self { update, context } = *self;
        let workspace = match &world.workspace {
            Known::Known(workspace) => workspace.as_ref(),
            Known::Unknown => None,
        };
        match effect {
            Effect::PatchStatus(status) => {
                write_status(update, context, &status).await?;
                measure_end(update, &status, &context.metrics);
            }
            Effect::Adopt(owner) => {
                let adopted = pko_kube::adopt(&context.client, update, &owner).await?;
                context.written.remember(&adopted);
            }
            Effect::CreateOutputs(secret) => {
                pko_kube::create_once(&context.client, secret.as_ref(), field_managers::OPERATOR)
                    .await?;
            }
            Effect::FollowRun => follow(update, workspace, context),
            Effect::CancelRun => tell(update, workspace, context, Word::Cancel).await,
            Effect::AcknowledgeRun => tell(update, workspace, context, Word::Acknowledge).await,
            Effect::Delete => {
                let namespace = update.namespace().unwrap_or_default();
                pko_kube::delete::<Update>(
                    &context.client,
                    &namespace,
                    &update.name_any(),
                    update.uid(),
                )
                .await?;
            }
            Effect::Emit(event) => {
                let notice = Notice {
                    reason: event.reason.as_str(),
                    message: &event.message,
                    warning: event.warning,
                };
                told(context.reporters.update.report(update, &notice).await);
            }
        }
        Ok(())
    }

    fn log(&self, rule: &'static str) {
        tracing::debug!(
            namespace = self.update.namespace(),
            name = self.update.name_any(),
            rule,
            "Update decided"
        );
    }
}

/// The Workspace from the cache, if that has seen the Stack's last change of it: a run with the config of before
/// would be a run for nothing. Its absence is believed from a live read only.
async fn workspace(
    update: &Update,
    context: &Context,
    name: &str,
) -> Result<Option<Box<Workspace>>, PassError> {
    let namespace = update.namespace().unwrap_or_default();
    let cached = context
        .workspaces
        .get(&ObjectRef::new(name).within(&namespace));
    if let Some(workspace) = cached.as_ref().and_then(|object| object.as_result().ok())
        && !context.written.is_stale(workspace)
    {
        return Ok(Some(Box::new(workspace.clone())));
    }
    Ok(
        pko_kube::find::<Workspace>(&context.client, &namespace, name)
            .await?
            .map(Box::new),
    )
}

/// Where a workspace's agent is, and what it wants to see.
fn agent(workspace: &Workspace, context: &Context) -> Option<(String, Credentials)> {
    let agent = context.places.agent(workspace)?;
    Some((agent.address, agent.credentials))
}

async fn start(update: &Update, workspace: &Workspace, context: &Context) -> Result<Run, RunError> {
    let (address, credentials) = agent(workspace, context)
        .ok_or_else(|| RunError::Unreachable("the Workspace has no address".to_owned()))?;
    let (run, place) = (
        update.uid().unwrap_or_default(),
        workspace.uid().unwrap_or_default(),
    );
    if !context.occupancy.enter(&place, &run) {
        let message = "the workspace's pod is being replaced";
        return Err(RunError::Unreachable(message.to_owned()));
    }
    let connection = agent_client::connect(&address, &credentials).await;
    let connection = connection.map_err(|error| {
        RunError::Unreachable(format!("unable to connect to workspace: {error}"))
    })?;
    // As the status says that this pass was given: whether an earlier one began it.
    agent_client::start(connection, update, workspace, has_begun(update), |path| {
        context.places.local_path(workspace, path)
    })
    .await
}

async fn write_status(
    update: &impl kube::ResourceExt,
    context: &Context,
    status: &UpdateStatus,
) -> Result<(), PassError> {
    let manager = field_managers::UPDATE_STATUS;
    context
        .write_status::<Update>(update, status, manager)
        .await?;
    if is_true(&status.conditions, ConditionType::Complete) {
        let run = update.uid().unwrap_or_default();
        context.turns.leave(&run);
        context.occupancy.leave(&run);
    }
    Ok(())
}

/// Measures a run that has ended with this status, and tells of it.
fn measure_end(update: &Update, status: &UpdateStatus, metrics: &Metrics) {
    let before = update.status.as_ref();
    let is_over = |status: &UpdateStatus| is_true(&status.conditions, ConditionType::Complete);
    let (Some(start), Some(end)) = (&status.start_time, &status.end_time) else {
        return;
    };
    if is_over(status) && !before.is_some_and(is_over) {
        let operation = match update.spec.operation.as_ref() {
            None | Some(OperationType::Other(_)) => "other",
            Some(operation) => operation.as_str(),
        };
        let failed = is_true(&status.conditions, ConditionType::Failed);
        let result = if failed { "failed" } else { "succeeded" };
        let seconds = end.0.duration_since(start.0).as_secs_f64();
        metrics.run_ended(operation, result, seconds);
        telemetry::run_ended(&EndedRun {
            namespace: &update.namespace().unwrap_or_default(),
            name: &update.name_any(),
            operation,
            failed,
            start: start.0,
            end: end.0,
        });
    }
}

/// Waits in the background for the end of a run, then wakes the Update.
fn follow(update: &Update, workspace: Option<&Workspace>, context: &Context) {
    let run_id = update.uid().unwrap_or_default();
    let Some((address, credentials)) = workspace.and_then(|workspace| agent(workspace, context))
    else {
        return;
    };
    if !context.followed.begin(&run_id) {
        return;
    }
    let followed = context.followed.clone();
    let object = ObjectRef::new(&update.name_any()).within(&update.namespace().unwrap_or_default());
    tokio::spawn(async move {
        if let Err(error) = until_end(&address, &credentials, &run_id).await {
            tracing::info!(run = run_id, %error, "Run is not followed any more");
            // A run that can't be followed is looked at now and then, not at once again and again.
            tokio::time::sleep(FOLLOW_AGAIN).await;
        }
        followed.end(&run_id, object);
    });
}

/// Why a run could not be followed to its end.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("unable to connect to workspace: {0}")]
    Connect(#[from] ConnectError),
    #[error("{}", agent_client::text(.0))]
    Stream(Box<tonic::Status>),
}

async fn until_end(
    address: &str,
    credentials: &Credentials,
    run_id: &str,
) -> Result<(), FollowError> {
    let stream_error = |status| FollowError::Stream(Box::new(status));
    let mut connection = agent_client::connect(address, credentials).await?;
    let request = runs::WatchRunRequest {
        run_id: run_id.to_owned(),
        after_sequence: 0,
    };
    let mut events = connection
        .runs
        .watch_run(request)
        .await
        .map_err(stream_error)?
        .into_inner();
    while events.message().await.map_err(stream_error)?.is_some() {}
    Ok(())
}

/// What an agent is told about a run.
#[derive(Clone, Copy)]
enum Word {
    Cancel,
    Acknowledge,
}

/// Tells the agent, if it can be reached: both words can be said again, and an agent that is gone has no run.
async fn tell(update: &Update, workspace: Option<&Workspace>, context: &Context, word: Word) {
    let Some((address, credentials)) = workspace.and_then(|workspace| agent(workspace, context))
    else {
        return;
    };
    let Ok(mut connection) = agent_client::connect(&address, &credentials).await else {
        return;
    };
    let run_id = update.uid().unwrap_or_default();
    let told = match word {
        Word::Cancel => in_time(
            connection
                .runs
                .cancel_run(runs::CancelRunRequest { run_id }),
        )
        .await
        .map(drop),
        Word::Acknowledge => in_time(
            connection
                .runs
                .acknowledge_run(runs::AcknowledgeRunRequest { run_id }),
        )
        .await
        .map(drop),
    };
    if let Err(status) = told {
        tracing::info!(
            name = update.name_any(),
            error = agent_client::text(&status),
            "Agent did not take a word"
        );
    }
}
