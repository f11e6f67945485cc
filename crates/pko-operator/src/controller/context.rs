//! What all controllers share.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use kube::{
    Client,
    runtime::reflector::{ObjectRef, Store},
};
use pko_api::{Decoded, Program, Update, Workspace, names::events};
use pko_kube::{Reporter, RequestError, Written};
use tokio::sync::mpsc::UnboundedSender;

use crate::place::Processes;

/// What all controllers share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) workspaces: Store<Decoded<Workspace>>,
    pub(crate) updates: Store<Decoded<Update>>,
    pub(crate) programs: Store<Decoded<Program>>,
    pub(crate) places: Processes,
    pub(crate) advertised: String,
    pub(crate) written: Written,
    pub(crate) reporters: Reporters,
    pub(crate) followed: Followed,
}

/// Who reports events, one for each controller.
pub(crate) struct Reporters {
    pub(crate) stack: Reporter,
    pub(crate) workspace: Reporter,
    pub(crate) update: Reporter,
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
