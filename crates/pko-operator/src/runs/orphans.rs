//! Runs whose Update is gone: they are told to end.
//!
//! There is no finalizer of ours on Updates, so that nothing hangs in a cluster without this operator. An Update that is
//! deleted while it runs is seen by its deletion; one that was deleted while no manager looked is missed when a
//! workspace's agent is met for the first time and knows a run of it.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Decoded, Update, Workspace, names::conditions::ConditionType};
use pko_core::{
    condition_set::is_true,
    update::{RunProgress, has_begun},
};
use tonic::Status;

use crate::{
    agents::{self, Begun},
    controllers::Context,
};

/// How soon an agent is told again that did not hear it.
const TELL_AGAIN: Duration = Duration::from_secs(5);
/// How many agents are met at a time after a start.
const AT_A_TIME: usize = 10;

/// A run whose Update is gone.
struct Abandoned {
    run: String,
    namespace: String,
    workspace: String,
    /// Where it was begun.
    instance: Option<String>,
}

/// Ends the runs whose Update is gone, until the manager ends.
pub(crate) async fn attend_to_abandoned(
    updates: impl Stream<Item = Arc<Decoded<Update>>>,
    workspaces: impl Stream<Item = Arc<Decoded<Workspace>>>,
    context: Arc<Context>,
) {
    tokio::join!(
        attend_to_updates(updates, context.clone()),
        attend_to_workspaces(workspaces, context),
    );
}

/// Sees to Updates that are deleted.
async fn attend_to_updates(
    updates: impl Stream<Item = Arc<Decoded<Update>>>,
    context: Arc<Context>,
) {
    let mut updates = std::pin::pin!(updates);
    while let Some(object) = updates.next().await {
        let Ok(update) = object.as_result() else {
            continue;
        };
        let known = context.updates.get(&ObjectRef::from_obj(object.as_ref()));
        if known.is_some_and(|known| known.uid() == update.uid()) {
            continue;
        }
        let run = update.uid().unwrap_or_default();
        if !has_begun(update) || is_over(update) {
            context.leave(&run);
            continue;
        }
        // It keeps its turn and its place until it has ended.
        context.turns.keep(&run);
        let status = update.status.as_ref();
        let abandoned = Abandoned {
            run,
            namespace: update.namespace().unwrap_or_default(),
            workspace: update.spec.workspace_name.clone().unwrap_or_default(),
            instance: status.and_then(|status| status.workspace_instance.clone()),
        };
        tokio::spawn(end(abandoned, context.clone()));
    }
}

fn is_over(update: &Update) -> bool {
    let status = update.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete))
}

/// Ends a run, and gives back its turn after that.
async fn end(abandoned: Abandoned, context: Arc<Context>) {
    let Abandoned {
        run,
        namespace,
        workspace,
        ..
    } = &abandoned;
    tracing::info!(
        namespace,
        workspace,
        run,
        "Update was deleted: its run is told to end"
    );
    while let Err(error) = tell(&abandoned, &context).await {
        tracing::info!(
            run,
            error,
            "Run could not be told to end; it is tried again"
        );
        tokio::time::sleep(TELL_AGAIN).await;
    }
    context.leave(run);
}

/// Comes when the run has ended, or is gone with what it ran in.
async fn tell(abandoned: &Abandoned, context: &Context) -> Result<(), String> {
    let run = &abandoned.run;
    if context.streams.find(run).is_some() {
        context.streams.cancel(run);
        context.streams.forget(run);
        return Ok(());
    }
    let found =
        pko_kube::find::<Workspace>(&context.client, &abandoned.namespace, &abandoned.workspace);
    let Some(workspace) = found.await.map_err(|error| error.full_text())? else {
        return Ok(());
    };
    let Some(agent) = context.places.agent(&workspace) else {
        return Err("the workspace has no agent now".to_owned());
    };
    if abandoned.instance.as_ref() != Some(&agent.instance) {
        return Ok(());
    }
    let uid = workspace.uid().unwrap_or_default();
    let connection = context.agents.connect(&uid, &agent).await;
    let connection = connection.map_err(|error| error.to_string())?;
    let text = |status: Status| agents::text(&status);
    match agents::cancel(&connection, run).await {
        Ok(Begun::Run(RunProgress::NotStarted) | Begun::NotOwned) => return Ok(()),
        Ok(Begun::Run(_)) => agents::until_end(&connection, run).await.map_err(text)?,
        Err(error) => return Err(format!("{error:?}")),
    }
    agents::acknowledge(&connection, run).await.map_err(text)
}

/// Meets the agent of each Workspace once, and lets go of those whose Workspace is gone.
async fn attend_to_workspaces(
    workspaces: impl Stream<Item = Arc<Decoded<Workspace>>>,
    context: Arc<Context>,
) {
    context.turns.are_primed().await;
    workspaces
        .for_each_concurrent(AT_A_TIME, |object| attend_to(object, &context))
        .await;
}

async fn attend_to(object: Arc<Decoded<Workspace>>, context: &Context) {
    let uid = object.uid().unwrap_or_default();
    let known = context
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
    let Some(agent) = context.places.agent(workspace).filter(|_| is_ready) else {
        return;
    };
    if !context.agents.is_new(&uid, &agent.instance) {
        return;
    }
    let Ok(connection) = context.agents.connect(&uid, &agent).await else {
        return context.agents.is_unmet(&uid);
    };
    if let Err(error) = end_unknown(workspace, &connection, context).await {
        let name = workspace.name_any();
        tracing::info!(
            name,
            error,
            "Runs of a workspace are not known; they are asked for again"
        );
        context.agents.is_unmet(&uid);
    }
}

/// Ends the runs that no Update stands for, as a live read says.
async fn end_unknown(
    workspace: &Workspace,
    connection: &agents::Connection,
    context: &Context,
) -> Result<(), String> {
    let mut runs = agents::under_way(connection).await?;
    let cached = context.updates.state();
    runs.retain(|run| {
        !cached
            .iter()
            .any(|update| update.uid().as_ref() == Some(run))
    });
    if runs.is_empty() {
        return Ok(());
    }
    let namespace = workspace.namespace().unwrap_or_default();
    let live = pko_kube::list_metadata::<Decoded<Update>>(&context.client, &namespace).await;
    let live = live.map_err(|error| error.full_text())?;
    runs.retain(|run| !live.iter().any(|update| update.uid.as_ref() == Some(run)));
    for run in runs {
        tracing::info!(
            namespace,
            run,
            "A run has no Update any more: it is told to end"
        );
        let told = agents::cancel(connection, &run).await;
        told.map_err(|error| format!("{error:?}"))?;
    }
    Ok(())
}
