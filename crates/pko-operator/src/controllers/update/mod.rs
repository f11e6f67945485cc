//! The controller of Updates. Each Update is one run of the workspace's agent.

mod agent_run;
mod outputs;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::{Resource as _, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    ResourceExt as _,
    runtime::{Controller, controller::Action, reflector::ObjectRef},
};
use pko_api::{
    Decoded, Stack, Update, Workspace,
    auto::v1alpha1::{OperationType, UpdateStatus},
    names::{conditions::ConditionType, events, field_managers, finalizers},
};
use pko_core::{
    Fact, Machine as _,
    condition_set::is_true,
    update::{
        AgentState, ObservedUpdate, RunError, RunProgress, UpdateEffect, UpdateRead,
        UpdateResponse, UpdateWrite, preceding_runs, stack_awaits,
    },
};
use pko_kube::EventNote;
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

use super::{
    Context, ReconcileError, Reconciler, after_error,
    context::{latest, log_event_error},
    instrument, reconcile_object,
};
use crate::{
    agents::RetryPermit,
    metrics::Metrics,
    telemetry::{self, EndedRun},
    watch::shared::receiver_stream,
};

/// Runs until the manager ends. `triggers` are Updates whose run has ended.
pub(crate) async fn run(
    controller: Controller<Decoded<Update>>,
    workspaces: impl Stream<Item = Arc<Decoded<Workspace>>> + Send + 'static,
    triggers: UnboundedReceiver<ObjectRef<Decoded<Update>>>,
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
        .reconcile_on(receiver_stream(triggers))
        .run(
            instrument(events::UPDATE_CONTROLLER, reconcile),
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
) -> Result<Action, ReconcileError> {
    let Some(object) = latest(object, &context.caches.updates, &context).await? else {
        return Ok(Action::await_change());
    };
    let update = match object.as_result() {
        Ok(update) => update,
        Err(undecodable) => {
            for effect in ObservedUpdate::decide_undecodable(undecodable, Timestamp::now()).effects
            {
                if let UpdateEffect::PatchStatus(status) = effect {
                    write_status(object.as_ref(), &context, &status).await?;
                }
            }
            return Ok(Action::await_change());
        }
    };
    if is_over(update.status.as_ref()) {
        // The response to the write of the status may have been lost, and with it the release.
        context.runs.release(&update.uid().unwrap_or_default());
    }
    let reconciler = UpdateReconciler {
        update,
        context: &context,
        agent_calls: AgentCalls::default(),
    };
    let leading_since = *context.runs.leading_since.get_or_init(Timestamp::now);
    let observed = ObservedUpdate::new(update.clone(), leading_since);
    let observed = observed.with_run_timeout(context.runs.timeout);
    Box::pin(reconcile_object(&reconciler, observed)).await
}

struct UpdateReconciler<'a> {
    update: &'a Update,
    context: &'a Context,
    agent_calls: AgentCalls,
}

impl Reconciler for UpdateReconciler<'_> {
    type Observed = ObservedUpdate;

    async fn read(&self, read: UpdateRead) -> Result<UpdateResponse, ReconcileError> {
        let Self {
            update, context, ..
        } = *self;
        Ok(match read {
            UpdateRead::Awaited(stack) => {
                UpdateResponse::Awaited(is_awaited(update, context, &stack).await?)
            }
            UpdateRead::Workspace(name) => {
                UpdateResponse::Workspace(workspace(update, context, &name).await?)
            }
            UpdateRead::PrecedingRuns => {
                let known = context.caches.updates.state();
                let known = known.iter().filter_map(|object| object.as_result().ok());
                UpdateResponse::PrecedingRuns(preceding_runs(update, known))
            }
        })
    }

    async fn write(&self, write: UpdateWrite) -> Result<UpdateResponse, ReconcileError> {
        let Self {
            update,
            context,
            ref agent_calls,
        } = *self;
        Ok(match write {
            UpdateWrite::Admit(question) => {
                context.runs.queue.wait_until_primed().await;
                UpdateResponse::Admission(context.runs.queue.admit(update, *question))
            }
            UpdateWrite::AcquireAgent(workspace) => {
                let reach = agent_run::reach(update, &workspace, context, agent_calls);
                let late = || AgentState::Unreachable {
                    instance: None,
                    message: AgentCalls::MESSAGE.to_owned(),
                };
                let agent = agent_calls.limit(Box::pin(reach)).await;
                UpdateResponse::Agent(agent.unwrap_or_else(late))
            }
            UpdateWrite::StartRun(workspace, publish) => {
                if let Some(status) = publish {
                    write_status(update, context, &status).await?;
                }
                let run = agent_run::start(update, &workspace, context);
                UpdateResponse::Run(agent_calls.limit_run(Box::pin(run)).await)
            }
            UpdateWrite::CancelRun(workspace) => {
                let run = agent_run::cancel(update, &workspace, context);
                UpdateResponse::Run(agent_calls.limit_run(Box::pin(run)).await)
            }
            UpdateWrite::StoreOutputs(secret) => {
                UpdateResponse::Outputs(outputs::keep(update, *secret, context).await?)
            }
        })
    }

    async fn perform(
        &self,
        observed: &ObservedUpdate,
        effect: UpdateEffect,
    ) -> Result<(), ReconcileError> {
        let Self {
            update, context, ..
        } = *self;
        let workspace = match &observed.workspace {
            Fact::Known(workspace) => workspace.as_ref(),
            Fact::Unknown => None,
        };
        match effect {
            UpdateEffect::PatchStatus(status) => {
                write_status(update, context, &status).await?;
                measure_end(update, &status, &context.metrics);
            }
            UpdateEffect::Adopt(owner) => {
                let adopted = pko_kube::add_owner(&context.client, update, &owner).await?;
                context.memory.own_writes.record(&adopted);
            }
            UpdateEffect::ReleaseAdmission => {
                context.runs.release(&update.uid().unwrap_or_default());
            }
            UpdateEffect::WatchRun => agent_run::watch(update, workspace, context),
            UpdateEffect::AcknowledgeRun => {
                agent_run::acknowledge(update, workspace, context).await;
            }
            UpdateEffect::Delete => {
                let namespace = update.namespace().unwrap_or_default();
                pko_kube::delete::<Update>(
                    &context.client,
                    &namespace,
                    &update.name_any(),
                    update.uid(),
                )
                .await?;
            }
            UpdateEffect::RemoveFinalizer => {
                pko_kube::remove_finalizer(&context.client, update, finalizers::STACK).await?;
            }
            UpdateEffect::Emit(event) => {
                let note = EventNote {
                    reason: event.reason.as_str(),
                    message: &event.message,
                    warning: event.warning,
                };
                log_event_error(context.recorders.update.record(update, &note).await);
            }
            UpdateEffect::EmitWorkspaceWarning(message) => {
                if let Some(workspace) = workspace {
                    warn_of(workspace, context, &message).await;
                }
            }
        }
        Ok(())
    }

    fn object(&self) -> (&'static str, &ObjectMeta) {
        (Update::KIND, &self.update.metadata)
    }

    fn context(&self) -> &Context {
        self.context
    }

    fn is_change(effect: &UpdateEffect) -> bool {
        !matches!(
            effect,
            UpdateEffect::WatchRun | UpdateEffect::ReleaseAdmission
        )
    }
}

/// The calls of an agent in one reconcile. They have a total time, from the first one on, because
/// each reconcile occupies a worker.
#[derive(Default)]
struct AgentCalls {
    deadline: OnceLock<Instant>,
    /// Of an agent that was unresponsive.
    permit: OnceLock<RetryPermit>,
}

impl AgentCalls {
    const TOTAL: Duration = Duration::from_secs(20);
    const MESSAGE: &str = "the workspace's agent did not respond within 20 seconds";

    async fn limit<T>(&self, calls: impl Future<Output = T>) -> Option<T> {
        let end = *self.deadline.get_or_init(|| Instant::now() + Self::TOTAL);
        tokio::time::timeout_at(end, calls).await.ok()
    }

    async fn limit_run(
        &self,
        call: impl Future<Output = Result<RunProgress, RunError>>,
    ) -> Result<RunProgress, RunError> {
        let late = || Err(RunError::Unreachable(Self::MESSAGE.to_owned()));
        self.limit(call).await.unwrap_or_else(late)
    }
}

/// Whether the Stack of this name waits for the result of the Update. Reads the Stack live: a cache
/// may lack what it waits for. A Stack that does not decode may wait.
async fn is_awaited(
    update: &Update,
    context: &Context,
    stack: &str,
) -> Result<bool, ReconcileError> {
    let namespace = update.namespace().unwrap_or_default();
    let live: Option<Decoded<Stack>> = pko_kube::find(&context.client, &namespace, stack).await?;
    let stack_awaits = |stack: Decoded<Stack>| {
        let readable = stack.as_result();
        readable.map_or(true, |stack| stack_awaits(stack, update))
    };
    Ok(live.is_some_and(stack_awaits))
}

/// The Workspace from the cache once that has the Stack's last change, because a run with older
/// config is useless. Only a live read proves its absence.
async fn workspace(
    update: &Update,
    context: &Context,
    name: &str,
) -> Result<Option<Box<Workspace>>, ReconcileError> {
    let namespace = update.namespace().unwrap_or_default();
    let reference = ObjectRef::new(name).within(&namespace);
    if let Some(cached) = context.caches.workspaces.get(&reference)
        && let Some(seen) = latest(cached, &context.caches.workspaces, context).await?
        && let Ok(workspace) = seen.as_result()
    {
        return Ok(Some(Box::new(workspace.clone())));
    }
    let live = pko_kube::find::<Decoded<Workspace>>(&context.client, &namespace, name).await?;
    match live {
        None => Ok(None),
        Some(Decoded::Object(workspace)) => Ok(Some(workspace)),
        // It is not gone, and its run may go on.
        Some(Decoded::Undecodable(bad)) => Err(ReconcileError::Undecodable {
            kind: Workspace::KIND,
            name: name.to_owned(),
            field: bad.error.field,
        }),
    }
}

/// Writes a status unless the Update has changed since. In an old copy, with which a cache may
/// start, a run that ended long ago looks as if it had never started.
async fn write_status(
    update: &impl kube::ResourceExt,
    context: &Context,
    status: &UpdateStatus,
) -> Result<(), ReconcileError> {
    let manager = field_managers::UPDATE_STATUS;
    context
        .write_status_unless_changed::<Update>(update, status, manager)
        .await?;
    if is_over(Some(status)) {
        context.runs.release(&update.uid().unwrap_or_default());
    }
    Ok(())
}

fn is_over(status: Option<&UpdateStatus>) -> bool {
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete))
}

/// Records metrics and a trace of a run that ends with this status.
fn measure_end(update: &Update, status: &UpdateStatus, metrics: &Metrics) {
    let before = update.status.as_ref();
    let (Some(start), Some(end)) = (&status.start_time, &status.end_time) else {
        return;
    };
    if is_over(Some(status)) && !is_over(before) {
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

async fn warn_of(workspace: &Workspace, context: &Context, message: &str) {
    let note = EventNote {
        reason: events::WorkspaceEvent::ConnectionFailure.as_str(),
        message,
        warning: true,
    };
    log_event_error(context.recorders.workspace.record(workspace, &note).await);
}
