//! What all controllers share.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::{
    Client, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use pko_api::{Decoded, Program, Stack, StoredKind, Update, Workspace, names::events};
use pko_kube::{Namespaced, Reporter, RequestError, Written};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::PassError;
use crate::{
    agent_client::{Agents, Streams},
    metrics::Metrics,
    occupancy::Occupancy,
    place::Places,
    preparation::Preparations,
    seals::Seals,
    turns::Turns,
};

/// What all controllers share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) stacks: Store<Decoded<Stack>>,
    pub(crate) workspaces: Store<Decoded<Workspace>>,
    pub(crate) updates: Store<Decoded<Update>>,
    pub(crate) programs: Store<Decoded<Program>>,
    pub(crate) places: Places,
    pub(crate) preparations: Preparations,
    pub(crate) advertised: String,
    pub(crate) seals: Option<Arc<Seals>>,
    pub(crate) written: Written,
    pub(crate) reporters: Reporters,
    pub(crate) followed: Followed,
    pub(crate) turns: Turns,
    pub(crate) occupancy: Arc<Occupancy>,
    pub(crate) agents: Agents,
    /// The runs of upstream's agents.
    pub(crate) streams: Streams,
    /// How long a run may take that does not say it itself.
    pub(crate) run_timeout: Option<Duration>,
    pub(crate) applied: Applied,
    pub(crate) metrics: Arc<Metrics>,
}

impl Context {
    /// A run is over, or does not begin now: its turn and its place are another's.
    pub(super) fn leave(&self, run: &str) {
        self.turns.leave(run);
        self.occupancy.leave(run);
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
        let written: Decoded<K> =
            pko_kube::apply_status(&self.client, object, status, manager).await?;
        self.written.remember(&written);
        Ok(())
    }
}

/// The object, read anew where the cache has not seen our own last write.
pub(super) async fn fresh<K>(
    object: Arc<Decoded<K>>,
    context: &Context,
) -> Result<Option<Arc<Decoded<K>>>, RequestError>
where
    K: StoredKind,
    Decoded<K>: Namespaced,
{
    if !context.written.is_stale(object.as_ref()) {
        return Ok(Some(object));
    }
    let namespace = object.namespace().unwrap_or_default();
    let live: Option<Decoded<K>> =
        pko_kube::find(&context.client, &namespace, &object.name_any()).await?;
    Ok(live.map(Arc::new))
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
pub(crate) struct Reporters {
    pub(crate) stack: Reporter,
    pub(crate) workspace: Reporter,
    pub(crate) update: Reporter,
    pub(crate) program: Reporter,
}

/// An event that can't be written is no reason not to do the rest.
pub(crate) fn told(result: Result<(), RequestError>) {
    if let Err(error) = result {
        tracing::warn!(error = error.full_text(), "Event could not be written");
    }
}

impl Reporters {
    pub(crate) fn new(client: &Client) -> Self {
        Self {
            stack: Reporter::new(client.clone(), events::STACK_CONTROLLER),
            workspace: Reporter::new(client.clone(), events::WORKSPACE_CONTROLLER),
            update: Reporter::new(client.clone(), events::UPDATE_CONTROLLER),
            program: Reporter::new(client.clone(), events::PROGRAM_CONTROLLER),
        }
    }
}

/// The Workspaces that were applied last, so that the same one is not applied at each look.
#[derive(Debug, Default)]
pub(crate) struct Applied(Mutex<HashMap<String, (Value, Option<i64>)>>);

impl Applied {
    /// Remembers what was asked for and the generation that it came to.
    pub(crate) fn remember(&self, wanted: &Workspace, applied: &Workspace) {
        if let (Some(uid), Ok(wanted), Ok(mut all)) = (
            applied.metadata.uid.clone(),
            serde_json::to_value(wanted),
            self.0.lock(),
        ) {
            all.insert(uid, (wanted, applied.metadata.generation));
        }
    }

    /// Whether this Workspace is what the last apply of the same made of it.
    pub(crate) fn is_in_place(&self, wanted: &Workspace, found: &Workspace) -> bool {
        let (Some(uid), Ok(wanted), Ok(all)) = (
            found.metadata.uid.as_ref(),
            serde_json::to_value(wanted),
            self.0.lock(),
        ) else {
            return false;
        };
        let deleting = found.metadata.deletion_timestamp.is_some();
        !deleting
            && all.get(uid).is_some_and(|(last, generation)| {
                *last == wanted && *generation == found.metadata.generation
            })
    }

    /// Forgets a Workspace that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        if let Ok(mut all) = self.0.lock() {
            all.remove(uid);
        }
    }
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
