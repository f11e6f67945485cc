//! Cancels runs whose Update no longer exists.
//!
//! The finalizer of a Stack holds its Updates, but other Updates have none, and a finalizer can be
//! removed by hand. The deletion of an Update during its run is observed by the watch. A deletion
//! that no manager observed is found when the agent of a workspace, contacted for the first time,
//! lists a run without an Update.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Decoded, Update, Workspace, names::conditions::ConditionType};
use pko_core::{
    condition_set::is_true,
    update::{RunProgress, has_begun},
};
use pko_proto::agent_codec::MAX_ACTIVE_RUNS;
use tonic::Status;

use crate::{
    agents::{self, AgentReply},
    controllers::Context,
};

const RETRY_AFTER: Duration = Duration::from_secs(5);
/// An agent ends a canceled run within ten minutes. One that does not must not keep the run's place
/// in the queue.
const CANCEL_DEADLINE: Duration = Duration::from_mins(15);
/// How many agents are contacted at a time after a start.
const CONCURRENCY: usize = 10;

struct OrphanedRun {
    run: String,
    namespace: String,
    workspace: String,
    /// The agent that started it.
    instance: Option<String>,
}

/// Runs until the manager ends.
pub(crate) async fn cancel_orphaned_runs(
    updates: impl Stream<Item = Arc<Decoded<Update>>>,
    workspaces: impl Stream<Item = Arc<Decoded<Workspace>>>,
    context: Arc<Context>,
) {
    tokio::join!(
        watch_updates(updates, context.clone()),
        watch_workspaces(workspaces, context),
    );
}

async fn watch_updates(updates: impl Stream<Item = Arc<Decoded<Update>>>, context: Arc<Context>) {
    let mut updates = std::pin::pin!(updates);
    while let Some(object) = updates.next().await {
        let Ok(update) = object.as_result() else {
            continue;
        };
        let known = context
            .caches
            .updates
            .get(&ObjectRef::from_obj(object.as_ref()));
        if known.is_some_and(|known| known.uid() == update.uid()) {
            continue;
        }
        let run = update.uid().unwrap_or_default();
        if !has_begun(update) || is_complete(update) {
            context.runs.release(&run);
            continue;
        }
        // The run keeps its slot and its pod until it has ended.
        context.runs.queue.retain_orphan(&run);
        let status = update.status.as_ref();
        let orphan = OrphanedRun {
            run,
            namespace: update.namespace().unwrap_or_default(),
            workspace: update.spec.workspace_name.clone().unwrap_or_default(),
            instance: status.and_then(|status| status.workspace_instance.clone()),
        };
        tokio::spawn(cancel_until_ended(orphan, context.clone()));
    }
}

fn is_complete(update: &Update) -> bool {
    let status = update.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete))
}

/// Cancels a run, with retries, and releases its slot when it has ended.
async fn cancel_until_ended(orphan: OrphanedRun, context: Arc<Context>) {
    let OrphanedRun {
        run,
        namespace,
        workspace,
        ..
    } = &orphan;
    tracing::info!(
        namespace,
        workspace,
        run,
        "Update was deleted: canceling its run"
    );
    let cancel = async {
        while let Err(error) = try_cancel(&orphan, &context).await {
            tracing::info!(run, error, "Failed to cancel a run; retrying");
            tokio::time::sleep(RETRY_AFTER).await;
        }
    };
    if tokio::time::timeout(CANCEL_DEADLINE, cancel).await.is_err() {
        tracing::warn!(
            namespace,
            workspace,
            run,
            "The agent did not end a canceled run in time: its place in the queue is free"
        );
    }
    context.runs.release(run);
}

/// Cancels a run and waits for its end. Succeeds if the run is gone with its workspace.
async fn try_cancel(orphan: &OrphanedRun, context: &Context) -> Result<(), String> {
    let run = &orphan.run;
    if context.runs.upstream.find(run).is_some() {
        context.runs.upstream.cancel(run);
        context.runs.upstream.forget(run);
        return Ok(());
    }
    let (namespace, name) = (&orphan.namespace, &orphan.workspace);
    let found = pko_kube::find::<Decoded<Workspace>>(&context.client, namespace, name).await;
    let workspace = match found.map_err(|error| error.full_text())? {
        None => return Ok(()),
        Some(Decoded::Object(workspace)) => workspace,
        Some(Decoded::Undecodable(bad)) => {
            return Err(format!(
                "the Workspace does not decode: see its field `{}`",
                bad.error.field
            ));
        }
    };
    let Some(agent) = context.runtime.agent(&workspace) else {
        return Err("the workspace has no agent".to_owned());
    };
    if orphan.instance.as_ref() != Some(&agent.instance) {
        return Ok(());
    }
    let uid = workspace.uid().unwrap_or_default();
    let connection = context.agents.connect(&uid, &agent).await;
    let connection = connection.map_err(|error| error.to_string())?;
    let text = |status: Status| agents::status_text(&status);
    match agents::cancel(&connection, run).await {
        Ok(AgentReply::Run(RunProgress::NotStarted) | AgentReply::NotOwned) => {
            return Ok(());
        }
        Ok(AgentReply::Run(_)) => {
            agents::wait_for_end(&connection, run).await.map_err(text)?;
        }
        Err(error) => return Err(format!("{error:?}")),
    }
    agents::acknowledge(&connection, run).await.map_err(text)
}

/// Contacts the agent of each Workspace once, and forgets those of deleted Workspaces.
async fn watch_workspaces(
    workspaces: impl Stream<Item = Arc<Decoded<Workspace>>>,
    context: Arc<Context>,
) {
    context.runs.queue.wait_until_primed().await;
    workspaces
        .for_each_concurrent(CONCURRENCY, |object| check_workspace(object, &context))
        .await;
}

async fn check_workspace(object: Arc<Decoded<Workspace>>, context: &Context) {
    let uid = object.uid().unwrap_or_default();
    let known = context
        .caches
        .workspaces
        .get(&ObjectRef::from_obj(object.as_ref()));
    if known.and_then(|known| known.uid()).as_deref() != Some(uid.as_str()) {
        return context.agents.forget(&uid);
    }
    let Ok(workspace) = object.as_result() else {
        return;
    };
    let conditions = workspace
        .status
        .iter()
        .flat_map(|status| &status.conditions);
    let ready = ConditionType::Ready.as_str();
    let mut ready = conditions.filter(|condition| condition.type_ == ready);
    let is_ready = ready.any(|condition| condition.status == "True");
    let Some(agent) = context.runtime.agent(workspace).filter(|_| is_ready) else {
        return;
    };
    if !context.agents.remember_instance(&uid, &agent.instance) {
        return;
    }
    let Ok(connection) = context.agents.connect(&uid, &agent).await else {
        return context.agents.forget_instance(&uid);
    };
    if let Err(error) = cancel_unknown_runs(workspace, &connection, context).await {
        let name = workspace.name_any();
        tracing::info!(
            name,
            error,
            "Failed to list the runs of a workspace; retrying"
        );
        context.agents.forget_instance(&uid);
    }
}

/// Cancels the runs that have no Update, by a live read.
async fn cancel_unknown_runs(
    workspace: &Workspace,
    connection: &agents::Connection,
    context: &Context,
) -> Result<(), String> {
    let active = agents::list_active_runs(connection).await?;
    let mut runs = active.ids;
    let cached = context.caches.updates.state();
    runs.retain(|run| {
        !cached
            .iter()
            .any(|update| update.uid().as_ref() == Some(run))
    });
    if runs.is_empty() {
        return if_complete(active.is_cut);
    }
    let namespace = workspace.namespace().unwrap_or_default();
    let live = pko_kube::list_metadata::<Decoded<Update>>(&context.client, &namespace).await;
    let live = live.map_err(|error| error.full_text())?;
    runs.retain(|run| !live.iter().any(|update| update.uid.as_ref() == Some(run)));
    for run in runs {
        tracing::info!(namespace, run, "Run has no Update: canceling it");
        let canceled = agents::cancel(connection, &run).await;
        canceled.map_err(|error| format!("{error:?}"))?;
    }
    if_complete(active.is_cut)
}

/// A list that was cut is read again with the next change of the Workspace.
fn if_complete(is_cut: bool) -> Result<(), String> {
    if is_cut {
        return Err(format!(
            "the agent lists more than {MAX_ACTIVE_RUNS} active runs; the others are ignored for now"
        ));
    }
    Ok(())
}
