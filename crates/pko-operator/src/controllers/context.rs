//! What all controllers share.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kube::{
    Client, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use pko_api::{Decoded, Program, Stack, StoredKind, Update, Workspace, names::events};
use pko_kube::{EventRecorder, Namespaced, OwnWrites, RequestError};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::mpsc::UnboundedSender,
    time::{Instant, sleep},
};

use super::{PassError, last_rules::LastRules, workspace::setup::Preparations};
use crate::{
    agents::{Agents, Streams},
    metrics::Metrics,
    runs::{pod_usage::Occupancy, queue::Turns},
    server::programs::Seals,
    sources::Sources,
    watch::versions::KnownVersions,
    workspace_runtime::Places,
};

/// How long a pass waits for a cache to see what we wrote. It takes milliseconds, unless the watch is broken.
const SEEN_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What all controllers share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) stacks: Store<Decoded<Stack>>,
    pub(crate) workspaces: Store<Decoded<Workspace>>,
    pub(crate) updates: Store<Decoded<Update>>,
    pub(crate) programs: Store<Decoded<Program>>,
    /// Of what Stacks refer to.
    pub(crate) versions: KnownVersions,
    pub(crate) places: Places,
    pub(crate) sources: Sources,
    pub(crate) preparations: Preparations,
    pub(crate) advertised: String,
    pub(crate) seals: Option<Arc<Seals>>,
    pub(crate) own_writes: OwnWrites,
    pub(crate) recorders: EventRecorders,
    pub(crate) followed: Followed,
    pub(crate) turns: Turns,
    pub(crate) occupancy: Arc<Occupancy>,
    pub(crate) agents: Agents,
    /// The runs of upstream's agents.
    pub(crate) streams: Streams,
    /// When the first Update was reconciled. Updates are reconciled only while this manager leads.
    pub(crate) leading_since: OnceLock<Timestamp>,
    /// How long a run may take that does not say it itself.
    pub(crate) run_timeout: Option<Duration>,
    pub(crate) applied: Applied,
    pub(crate) last_rules: LastRules,
    pub(crate) metrics: Arc<Metrics>,
}

impl Context {
    /// A run is over, or does not begin now: its turn and its place are another's.
    pub(crate) fn leave(&self, run: &str) {
        self.turns.leave(run);
        self.occupancy.leave(run);
    }

    /// Forgets the last rules of objects that are gone, once there are more than objects.
    pub(crate) fn forget_gone_objects(&self) {
        let count = self.stacks.len() + self.workspaces.len() + self.updates.len();
        if self.last_rules.len() > count + self.programs.len() {
            let live = uids(&self.stacks)
                .chain(uids(&self.workspaces))
                .chain(uids(&self.updates))
                .chain(uids(&self.programs));
            self.last_rules.keep_only(&live.collect());
        }
    }

    /// Writes a status, and remembers that: a copy from before it is stale.
    pub(super) async fn write_status<K>(
        &self,
        object: &impl kube::ResourceExt,
        status: &impl Serialize,
        manager: &str,
    ) -> Result<(), PassError>
    where
        K: StoredKind,
        Decoded<K>: Namespaced,
    {
        self.write_status_of::<K>(object, status, manager, None)
            .await
    }

    /// The same, if nobody has changed the object since the newest version that is known here. A cache may begin with an
    /// old list; what must not be decided on such a one is written like this.
    pub(super) async fn write_status_unless_changed<K>(
        &self,
        object: &impl kube::ResourceExt,
        status: &impl Serialize,
        manager: &str,
    ) -> Result<(), PassError>
    where
        K: StoredKind,
        Decoded<K>: Namespaced,
    {
        let version = self.own_writes.newest(object);
        self.write_status_of::<K>(object, status, manager, version)
            .await
    }

    async fn write_status_of<K>(
        &self,
        object: &impl kube::ResourceExt,
        status: &impl Serialize,
        manager: &str,
        version: Option<String>,
    ) -> Result<(), PassError>
    where
        K: StoredKind,
        Decoded<K>: Namespaced,
    {
        let written: Decoded<K> =
            pko_kube::apply_status(&self.client, object, status, manager, version).await?;
        self.own_writes.record(&written);
        Ok(())
    }
}

fn uids<K: StoredKind>(store: &Store<Decoded<K>>) -> impl Iterator<Item = String>
where
    Decoded<K>: Namespaced,
{
    let objects = store.state().into_iter();
    objects.filter_map(|object| object.uid())
}

/// The object as the cache has it once it has seen our own last write. Where that takes too long, the API server is
/// asked.
pub(super) async fn fresh<K>(
    object: Arc<Decoded<K>>,
    store: &Store<Decoded<K>>,
    context: &Context,
) -> Result<Option<Arc<Decoded<K>>>, RequestError>
where
    K: StoredKind,
    Decoded<K>: Namespaced,
{
    if !context.own_writes.is_stale(object.as_ref()) {
        context.own_writes.forget_if_reached(object.as_ref());
        return Ok(Some(object));
    }
    let reference = ObjectRef::from_obj(object.as_ref());
    let is_fresh = |object: &Arc<Decoded<K>>| !context.own_writes.is_stale(object.as_ref());
    let seen = soon(|| store.get(&reference).filter(is_fresh)).await;
    if seen.is_some() {
        return Ok(seen);
    }
    let namespace = object.namespace().unwrap_or_default();
    let live: Option<Decoded<K>> =
        pko_kube::find(&context.client, &namespace, &object.name_any()).await?;
    Ok(live.map(Arc::new))
}

/// What a cache has now or in a moment.
pub(super) async fn soon<T>(look: impl Fn() -> Option<T>) -> Option<T> {
    let end = Instant::now() + SEEN_WITHIN;
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= end {
            return found;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The object as its type; one that does not decode is left alone, and said.
pub(super) fn readable<K: StoredKind>(object: &Decoded<K>) -> Option<&K> {
    let readable = object.as_result();
    if let Err(bad) = &readable {
        let (namespace, name) = (
            bad.metadata.namespace.as_deref(),
            bad.metadata.name.as_deref(),
        );
        tracing::warn!(kind = K::KIND, namespace, name, error = %bad.error, "Object does not decode and is left alone");
    }
    readable.ok()
}

/// Who reports events, one for each controller.
pub(crate) struct EventRecorders {
    pub(crate) stack: EventRecorder,
    pub(crate) workspace: EventRecorder,
    pub(crate) update: EventRecorder,
    pub(crate) program: EventRecorder,
}

/// An event that can't be written is no reason not to do the rest.
pub(crate) fn told(result: Result<(), RequestError>) {
    if let Err(error) = result {
        tracing::warn!(error = error.full_text(), "Event could not be written");
    }
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

/// The Workspaces that were applied last, so that the same one is not applied at each look.
#[derive(Debug, Default)]
pub(crate) struct Applied(Mutex<HashMap<ObjectRef<Workspace>, Application>>);

/// One of them: what it was made of, and what that came to.
#[derive(Debug)]
struct Application {
    wanted: Fingerprint,
    uid: Option<String>,
    generation: Option<i64>,
}

type Fingerprint = [u8; 32];

/// What a copy of a Workspace has to do with the last apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is what the apply made of it.
    InPlace,
    /// It is from before the apply.
    NotSeen,
    /// Something else was applied, or it was changed since.
    Other,
}

impl Applied {
    /// Remembers what was asked for and the generation that it came to.
    pub(crate) fn remember(&self, wanted: &Workspace, applied: &Workspace) {
        let Some(fingerprint) = fingerprint(wanted) else {
            return;
        };
        let application = Application {
            wanted: fingerprint,
            uid: applied.metadata.uid.clone(),
            generation: applied.metadata.generation,
        };
        self.known()
            .insert(ObjectRef::from_obj(wanted), application);
    }

    /// What this copy of a Workspace, or none, has to do with the last apply of the same.
    pub(crate) fn standing(&self, wanted: &Workspace, found: Option<&Workspace>) -> Standing {
        let known = self.known();
        let last = known.get(&ObjectRef::from_obj(wanted));
        let Some(last) = last.filter(|last| Some(last.wanted) == fingerprint(wanted)) else {
            return Standing::Other;
        };
        match found {
            None => Standing::NotSeen,
            Some(found) if found.metadata.deletion_timestamp.is_some() => Standing::Other,
            Some(found) if found.metadata.uid != last.uid => Standing::NotSeen,
            Some(found) if found.metadata.generation < last.generation => Standing::NotSeen,
            Some(found) if found.metadata.generation == last.generation => Standing::InPlace,
            Some(_) => Standing::Other,
        }
    }

    /// Forgets a Workspace that is gone.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        self.known().remove(&ObjectRef::new(name).within(namespace));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ObjectRef<Workspace>, Application>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fingerprint(wanted: &Workspace) -> Option<Fingerprint> {
    let text = serde_json::to_vec(wanted).ok()?;
    Some(Sha256::digest(text).into())
}

/// The runs whose ends are waited for, so that each is followed once.
#[derive(Clone)]
pub(crate) struct Followed {
    runs: Arc<Mutex<HashSet<String>>>,
    wake: UnboundedSender<ObjectRef<Decoded<Update>>>,
}

impl Followed {
    pub(crate) fn new(wake: UnboundedSender<ObjectRef<Decoded<Update>>>) -> Self {
        Self {
            runs: Arc::default(),
            wake,
        }
    }

    /// Whether this run was not followed before.
    pub(crate) fn begin(&self, run: &str) -> bool {
        self.runs
            .lock()
            .is_ok_and(|mut runs| runs.insert(run.to_owned()))
    }

    /// The run has ended, or can't be followed any more: somebody has to look.
    pub(crate) fn end(&self, run: &str, update: ObjectRef<Decoded<Update>>) {
        if let Ok(mut runs) = self.runs.lock() {
            runs.remove(run);
        }
        let _ = self.wake.send(update);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    fn workspace(image: &str) -> Workspace {
        let metadata = json!({ "name": "demo", "namespace": "shop" });
        let object = json!({ "metadata": metadata, "spec": { "image": image } });
        serde_json::from_value(object).unwrap()
    }

    fn found(uid: &str, generation: i64) -> Workspace {
        let mut workspace = workspace("any");
        workspace.metadata.uid = Some(uid.to_owned());
        workspace.metadata.generation = Some(generation);
        workspace
    }

    #[test]
    fn a_workspace_is_applied_again_only_where_it_has_to_be() {
        let applied = Applied::default();
        let wanted = workspace("one");
        let told = |found: Option<&Workspace>| applied.standing(&wanted, found);
        assert_eq!(told(None), Standing::Other, "nothing was applied");
        applied.remember(&wanted, &found("b", 2));
        let mut leaving = found("b", 2);
        leaving.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        for (sentence, found, expected) in [
            ("the cache has nothing yet", None, Standing::NotSeen),
            (
                "it has the one of before",
                Some(found("a", 7)),
                Standing::NotSeen,
            ),
            (
                "it has the spec of before",
                Some(found("b", 1)),
                Standing::NotSeen,
            ),
            ("it is what we made", Some(found("b", 2)), Standing::InPlace),
            ("somebody changed it", Some(found("b", 3)), Standing::Other),
            ("it is being deleted", Some(leaving), Standing::Other),
        ] {
            assert_eq!(told(found.as_ref()), expected, "{sentence}");
        }
        let other = applied.standing(&workspace("two"), Some(&found("b", 2)));
        assert_eq!(other, Standing::Other, "another is wanted");
        applied.forget("shop", "demo");
        assert_eq!(told(Some(&found("b", 2))), Standing::Other, "forgotten");
    }

    #[tokio::test]
    async fn what_comes_in_a_moment_is_waited_for_and_no_longer() {
        let looks = Cell::new(0);
        let third = soon(|| {
            looks.set(looks.get() + 1);
            (looks.get() == 3).then_some(())
        });
        assert_eq!((third.await, looks.get()), (Some(()), 3));
        assert_eq!(soon(|| None::<()>).await, None);
    }
}
