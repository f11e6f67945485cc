//! What all reconciles share.

use std::{sync::Arc, time::Duration};

use kube::{
    Client, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use pko_api::{Decoded, Program, Stack, StoredKind, Update, Workspace, names::events};
use pko_core::reduced_status;
use pko_kube::{EventRecorder, Namespaced, OwnWrites, RequestError};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    ReconcileError, applied_workspaces::AppliedWorkspaces, last_rules::LastRules,
    workspace::setup::WorkspaceSetup,
};
use crate::{
    agents::AgentPool,
    metrics::Metrics,
    runs::Runs,
    server::programs::{ArchiveStore, ProgramUrls},
    sources::Sources,
    watch::versions::ReferenceVersions,
    workspace_runtime::WorkspaceRuntime,
};

/// How long a reconcile waits for a cache to show our own write. It takes milliseconds unless the
/// watch is broken.
const CACHE_TIMEOUT: Duration = Duration::from_secs(1);
const CACHE_POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) memory: ReconcileMemory,
    pub(crate) recorders: EventRecorders,
    pub(crate) runtime: Box<dyn WorkspaceRuntime>,
    pub(crate) workspace_setup: WorkspaceSetup,
    pub(crate) agents: AgentPool,
    pub(crate) runs: Runs,
    pub(crate) sources: Sources,
    pub(crate) program_urls: Arc<ProgramUrls>,
    pub(crate) program_archives: Arc<ArchiveStore>,
    pub(crate) metrics: Arc<Metrics>,
}

/// The caches of the shared watches.
pub(crate) struct Caches {
    pub(crate) stacks: Store<Decoded<Stack>>,
    pub(crate) workspaces: Store<Decoded<Workspace>>,
    pub(crate) updates: Store<Decoded<Update>>,
    pub(crate) programs: Store<Decoded<Program>>,
    /// Of the ConfigMaps and Secrets that Stacks refer to.
    pub(crate) versions: ReferenceVersions,
}

/// What this process remembers of its own reconciles.
#[derive(Default)]
pub(crate) struct ReconcileMemory {
    pub(crate) own_writes: OwnWrites,
    pub(crate) applied_workspaces: AppliedWorkspaces,
    pub(crate) last_rules: LastRules,
}

impl Caches {
    /// Waits until all caches have been filled. Returns false if that never happens.
    pub(crate) async fn wait_until_synced(&self) -> bool {
        self.stacks.wait_until_ready().await.is_ok()
            && self.workspaces.wait_until_ready().await.is_ok()
            && self.updates.wait_until_ready().await.is_ok()
            && self.programs.wait_until_ready().await.is_ok()
    }
}

impl Context {
    /// Drops the memory of deleted objects, once it has more entries than there are objects.
    pub(crate) fn forget_deleted_objects(&self) {
        let Caches {
            stacks,
            workspaces,
            updates,
            programs,
            ..
        } = &self.caches;
        let count = stacks.len() + workspaces.len() + updates.len() + programs.len();
        if self.memory.last_rules.len() > count {
            let live = uids(stacks)
                .chain(uids(workspaces))
                .chain(uids(updates))
                .chain(uids(programs));
            self.memory.last_rules.keep_only(&live.collect());
        }
    }

    /// Writes a status and records the write, so that older copies count as stale.
    pub(super) async fn write_status<K>(
        &self,
        object: &impl kube::ResourceExt,
        status: &impl Serialize,
        manager: &str,
    ) -> Result<(), ReconcileError>
    where
        K: StoredKind,
        Decoded<K>: Namespaced,
    {
        self.write_status_at::<K>(object, status, manager, None)
            .await
    }

    /// Writes a status unless the object has changed since the newest version that is known here. A
    /// cache may start with an old list; decisions that must not be based on one use this.
    pub(super) async fn write_status_unless_changed<K>(
        &self,
        object: &impl kube::ResourceExt,
        status: &impl Serialize,
        manager: &str,
    ) -> Result<(), ReconcileError>
    where
        K: StoredKind,
        Decoded<K>: Namespaced,
    {
        let version = self.memory.own_writes.newest(object);
        self.write_status_at::<K>(object, status, manager, version)
            .await
    }

    async fn write_status_at<K>(
        &self,
        object: &impl kube::ResourceExt,
        status: &impl Serialize,
        manager: &str,
        version: Option<String>,
    ) -> Result<(), ReconcileError>
    where
        K: StoredKind,
        Decoded<K>: Namespaced,
    {
        let written: Result<Decoded<K>, RequestError> =
            pko_kube::apply_status(&self.client, object, status, manager, version.clone()).await;
        let written = match written {
            Err(error) if is_about_the_status(&error) => {
                let reduced = reduced(object, status, &error);
                pko_kube::apply_status(&self.client, object, &reduced, manager, version).await?
            }
            other => other?,
        };
        self.memory.own_writes.record(&written);
        Ok(())
    }
}

/// Whether another status might be accepted.
fn is_about_the_status(error: &RequestError) -> bool {
    let fields = error.invalid_fields();
    error.is_too_large() || fields.iter().any(|field| field.starts_with("status."))
}

/// What the API server may accept of a status that it has rejected.
fn reduced(
    object: &impl kube::ResourceExt,
    status: &impl Serialize,
    error: &RequestError,
) -> Value {
    let (namespace, name) = (object.namespace(), object.name_any());
    let fields = error.invalid_fields();
    let code = error.status_code();
    tracing::warn!(
        namespace,
        name,
        code,
        ?fields,
        "Status was rejected; writing a part of it"
    );
    let status = serde_json::to_value(status);
    status.map_or(Value::Null, |status| reduced_status(&status, &fields))
}

fn uids<K: StoredKind>(store: &Store<Decoded<K>>) -> impl Iterator<Item = String>
where
    Decoded<K>: Namespaced,
{
    let objects = store.state().into_iter();
    objects.filter_map(|object| object.uid())
}

/// The object as the cache has it once that contains our own last write. If that takes too long,
/// the object is read from the API server.
pub(super) async fn latest<K>(
    object: Arc<Decoded<K>>,
    store: &Store<Decoded<K>>,
    context: &Context,
) -> Result<Option<Arc<Decoded<K>>>, RequestError>
where
    K: StoredKind,
    Decoded<K>: Namespaced,
{
    let own_writes = &context.memory.own_writes;
    if !own_writes.is_stale(object.as_ref()) {
        own_writes.forget_if_reached(object.as_ref());
        return Ok(Some(object));
    }
    let reference = ObjectRef::from_obj(object.as_ref());
    let is_current = |object: &Arc<Decoded<K>>| !own_writes.is_stale(object.as_ref());
    let cached = wait_for_cache(|| store.get(&reference).filter(is_current)).await;
    if cached.is_some() {
        return Ok(cached);
    }
    let namespace = object.namespace().unwrap_or_default();
    let live: Option<Decoded<K>> =
        pko_kube::find(&context.client, &namespace, &object.name_any()).await?;
    Ok(live.map(Arc::new))
}

/// Looks into a cache until it has something, for a short time.
pub(super) async fn wait_for_cache<T>(look: impl Fn() -> Option<T>) -> Option<T> {
    let end = Instant::now() + CACHE_TIMEOUT;
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= end {
            return found;
        }
        sleep(CACHE_POLL_INTERVAL).await;
    }
}

/// The object as its type. One that does not decode is logged and ignored.
pub(super) fn decoded<K: StoredKind>(object: &Decoded<K>) -> Option<&K> {
    let decoded = object.as_result();
    if let Err(bad) = &decoded {
        let (namespace, name) = (
            bad.metadata.namespace.as_deref(),
            bad.metadata.name.as_deref(),
        );
        // The error may quote a value, which belongs into no log.
        let field = &bad.error.field;
        tracing::warn!(
            kind = K::KIND,
            namespace,
            name,
            field,
            "Ignoring an object that does not decode"
        );
    }
    decoded.ok()
}

/// One for each controller, whose name is the events' component.
pub(crate) struct EventRecorders {
    pub(crate) stack: EventRecorder,
    pub(crate) workspace: EventRecorder,
    pub(crate) update: EventRecorder,
    pub(crate) program: EventRecorder,
}

impl EventRecorders {
    pub(crate) fn new(client: &Client) -> Self {
        Self {
            stack: EventRecorder::new(client.clone(), events::STACK_CONTROLLER),
            workspace: EventRecorder::new(client.clone(), events::WORKSPACE_CONTROLLER),
            update: EventRecorder::new(client.clone(), events::UPDATE_CONTROLLER),
            program: EventRecorder::new(client.clone(), events::PROGRAM_CONTROLLER),
        }
    }
}

/// Logs an event that could not be written. A reconcile goes on without it.
pub(crate) fn log_event_error(result: Result<(), RequestError>) {
    if let Err(error) = result {
        tracing::warn!(error = error.full_text(), "Failed to write an event");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn wait_for_cache_ends_with_a_value_or_a_timeout() {
        let looks = Cell::new(0);
        let third = wait_for_cache(|| {
            looks.set(looks.get() + 1);
            (looks.get() == 3).then_some(())
        });
        assert_eq!((third.await, looks.get()), (Some(()), 3));
        assert_eq!(wait_for_cache(|| None::<()>).await, None);
    }
}
