//! Runs the controllers on the shared watches.

use std::{fmt::Debug, sync::Arc};

use k8s_openapi::NamespaceResourceScope;
use kube::runtime::{Controller, controller};
use pko_api::{Decoded, StoredKind};

use super::{Context, program, stack, update, workspace};
use crate::{
    runs::orphans::cancel_orphaned_runs,
    watch::{
        StackTrigger,
        shared::SharedWatch,
        streams::{SharedWatches, TriggerStreams},
    },
};

/// Factor for Stacks, Workspaces and Updates. Their reconciles may wait for a git server or an
/// agent that does not respond, which costs nothing; others must not wait with them.
const WAITING_FACTOR: u16 = 20;

/// Runs all watches and controllers until the manager ends.
pub(crate) async fn run(
    mut watches: SharedWatches,
    triggers: TriggerStreams,
    stack_trigger: StackTrigger,
    workers: u16,
    context: Arc<Context>,
) {
    let waiting_workers = workers.saturating_mul(WAITING_FACTOR);
    let stack_controller = controller(&mut watches.stacks, waiting_workers);
    let versions = watches.versions.run(watches.stacks.store(), stack_trigger);
    let streams = stack::StackStreams {
        stacks: watches.stacks.listen(),
        workspaces: watches.workspaces.listen(),
        updates: watches.updates.listen(),
        programs: watches.programs.listen(),
        triggers: triggers.stacks,
    };
    let stacks = stack::run(stack_controller, streams, context.clone());
    let streams = watches
        .pods
        .streams(watches.updates.listen(), triggers.workspaces);
    let workspaces = controller(&mut watches.workspaces, waiting_workers);
    let workspaces = workspace::run(workspaces, streams, context.clone());
    let updates = update::run(
        controller(&mut watches.updates, waiting_workers),
        watches.workspaces.listen(),
        triggers.updates,
        context.clone(),
    );
    let programs = program::run(controller(&mut watches.programs, workers), context.clone());
    let orphans = cancel_orphaned_runs(
        watches.updates.listen(),
        watches.workspaces.listen(),
        context,
    );
    tokio::join!(
        stacks,
        workspaces,
        updates,
        programs,
        orphans,
        watches.stacks.run(),
        watches.workspaces.run(),
        watches.updates.run(),
        watches.programs.run(),
        watches.pods.run(),
        versions,
    );
}

/// The controller of a kind, on its shared watch.
fn controller<K>(watch: &mut SharedWatch<Decoded<K>>, concurrency: u16) -> Controller<Decoded<K>>
where
    K: StoredKind
        + kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Send
        + Sync
        + 'static,
{
    let config = controller::Config::default().concurrency(concurrency);
    Controller::for_shared_stream(watch.listen(), watch.store()).with_config(config)
}
