//! The run queue of the manager, which triggers the Updates that may start.
//!
//! # Guarantees
//! All changes go through one lock, and admitted Updates are triggered before it is released. Every
//! waiting Update also has a requeue deadline, so a lost trigger only delays it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{
    ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use parking_lot::{Mutex, MutexGuard};
use pko_api::{Decoded, Update, Workspace, names::conditions::ConditionType};
use pko_core::{
    condition_set::is_true,
    run_queue::{Admission, Limits, RunQueue},
    update::{AdmissionRequest, has_begun, run_request},
};
use tokio::sync::watch;

use crate::{
    metrics::Metrics,
    watch::{UpdateRef, UpdateTrigger},
};

pub(crate) struct SharedRunQueue {
    state: Mutex<QueueState>,
    trigger: UpdateTrigger,
    /// Whether the runs of earlier managers are in the queue.
    primed: watch::Sender<bool>,
    metrics: Arc<Metrics>,
}

struct QueueState {
    queue: RunQueue,
    /// By run.
    updates: HashMap<String, UpdateRef>,
    /// When a run began to wait.
    since: HashMap<String, Instant>,
    /// Runs in progress whose Update is deleted.
    orphans: HashSet<String>,
}

impl SharedRunQueue {
    pub(crate) fn new(limits: Limits, trigger: UpdateTrigger, metrics: Arc<Metrics>) -> Self {
        Self {
            state: Mutex::new(QueueState {
                queue: RunQueue::new(limits),
                updates: HashMap::new(),
                since: HashMap::new(),
                orphans: HashSet::new(),
            }),
            trigger,
            primed: watch::Sender::new(false),
            metrics,
        }
    }

    /// Adds the runs that are in progress, by the caches, which must be filled. Nothing is admitted
    /// before: otherwise a stack could have two runs after a start.
    pub(crate) fn prime(
        &self,
        updates: &Store<Decoded<Update>>,
        workspaces: &Store<Decoded<Workspace>>,
    ) {
        for object in updates.state() {
            if let Ok(update) = object.as_result()
                && is_in_progress(update)
            {
                let name = update.spec.workspace_name.as_deref().unwrap_or_default();
                let namespace = update.namespace().unwrap_or_default();
                let workspace = workspaces.get(&ObjectRef::new(name).within(&namespace));
                let workspace = workspace
                    .as_ref()
                    .and_then(|object| object.as_result().ok());
                self.resume(update, workspace);
            }
        }
        self.primed.send_replace(true);
    }

    /// Waits for [`Self::prime`]. Reconciles wait here instead of for the caches, which wake only
    /// one waiter.
    pub(crate) async fn wait_until_primed(&self) {
        // The sender is this one.
        let _ = self.primed.subscribe().wait_for(|primed| *primed).await;
    }

    fn resume(&self, update: &Update, workspace: Option<&Workspace>) {
        let mut state = self.state();
        state.remember(update);
        let admitted = state.queue.resume(run_request(update, workspace));
        self.trigger_all(&state, &admitted);
    }

    /// Admits the run of an Update, or lets it wait.
    pub(crate) fn admit(&self, update: &Update, question: AdmissionRequest) -> Admission {
        let mut state = self.state();
        state.remember(update);
        if question.has_begun {
            let admitted = state.queue.resume(question.request);
            self.trigger_all(&state, &admitted);
            return Admission::Admitted;
        }
        let run = question.request.run.clone();
        let (_, before) = state.queue.counts();
        let turn = state.queue.ask(question.request);
        if let Admission::Queued(_) = turn {
            state.since.entry(run).or_insert_with(Instant::now);
            return turn;
        }
        // An admission that is repeated is not counted again.
        let waited = state.since.remove(&run).map(|since| since.elapsed());
        let at_once = (state.queue.counts().1 > before).then_some(Duration::ZERO);
        if let Some(waited) = waited.or(at_once) {
            self.metrics.queue_wait(waited);
        }
        turn
    }

    /// How many runs wait, and how many are in progress.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.state().queue.counts()
    }

    /// Removes a run that has ended or is not wanted any more.
    pub(crate) fn release(&self, run: &str) {
        let mut state = self.state();
        state.since.remove(run);
        state.orphans.remove(run);
        if state.updates.remove(run).is_some() {
            let admitted = state.queue.leave(run);
            self.trigger_all(&state, &admitted);
        }
    }

    /// Keeps the slot of a run whose Update is deleted until it has ended.
    pub(crate) fn retain_orphan(&self, run: &str) {
        self.state().orphans.insert(run.to_owned());
    }

    /// Releases the runs whose Updates are gone.
    pub(crate) fn release_missing(&self, exists: impl Fn(&UpdateRef, &str) -> bool) {
        let gone: Vec<String> = {
            let state = self.state();
            let gone = state
                .updates
                .iter()
                .filter(|(run, update)| !state.orphans.contains(*run) && !exists(update, run));
            gone.map(|(run, _)| run.clone()).collect()
        };
        for run in gone {
            self.release(&run);
        }
    }

    fn trigger_all(&self, state: &QueueState, runs: &[String]) {
        for update in runs.iter().filter_map(|run| state.updates.get(run)) {
            // The receiver lives as long as the manager.
            let _ = self.trigger.send(update.clone());
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }
}

impl QueueState {
    fn remember(&mut self, update: &Update) {
        let reference =
            ObjectRef::new(&update.name_any()).within(&update.namespace().unwrap_or_default());
        self.updates
            .insert(update.uid().unwrap_or_default(), reference);
    }
}

fn is_in_progress(update: &Update) -> bool {
    let status = update.status.as_ref();
    let is_over = status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete));
    has_begun(update) && !is_over
}
