//! Cleans up in the background what deleted objects leave behind.

use std::{sync::Arc, time::Duration};

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::Workspace;

use crate::{
    controllers::Context, leader_election::LeaderStatus, server::health::Readiness,
    workspace_runtime::WorkspaceId,
};

const INTERVAL: Duration = Duration::from_secs(5);

/// Reports readiness once the caches are filled. As leader, primes the run queue and cleans up
/// until the manager ends.
pub(super) async fn run(context: Arc<Context>, readiness: Readiness, mut leader: LeaderStatus) {
    if !context.caches.wait_until_synced().await || !context.runtime.wait_until_synced().await {
        return;
    }
    readiness.mark_reached();
    leader.wait().await;
    let caches = &context.caches;
    context
        .runs
        .queue
        .prime(&caches.updates, &caches.workspaces);
    loop {
        remove_unowned_workspaces(&context).await;
        context.runs.queue.release_missing(|update, run| {
            let found = caches.updates.get(update);
            found.is_some_and(|found| found.uid().as_deref() == Some(run))
        });
        context.forget_deleted_objects();
        context.sources.drop_unused();
        context.agents.close_idle();
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn remove_unowned_workspaces(context: &Context) {
    for workspace in context.runtime.unmanaged() {
        if is_deleted(context, &workspace).await {
            let WorkspaceId {
                namespace, name, ..
            } = &workspace;
            tracing::info!(
                namespace,
                name,
                "Workspace is deleted: stopping its process"
            );
            context.runtime.remove(&workspace);
            context.memory.applied_workspaces.forget(namespace, name);
        }
    }
}

/// Whether a Workspace is deleted, or was replaced by one of the same name. Only a live read proves
/// it: a cache may show an old list, and a run may be in progress in a workspace that it lacks.
async fn is_deleted(context: &Context, workspace: &WorkspaceId) -> bool {
    let WorkspaceId {
        namespace,
        name,
        uid,
    } = workspace;
    let cached = context
        .caches
        .workspaces
        .get(&ObjectRef::new(name).within(namespace));
    if cached.is_some_and(|cached| cached.uid().as_ref() == Some(uid)) {
        return false;
    }
    let live = pko_kube::find_metadata::<Workspace>(&context.client, namespace, name).await;
    match live {
        Ok(live) => live.and_then(|live| live.uid).as_ref() != Some(uid),
        Err(error) => {
            tracing::info!(namespace, name, error = %error.full_text(), "Failed to look up a Workspace; retrying");
            false
        }
    }
}
