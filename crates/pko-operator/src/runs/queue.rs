//! The run queue as the controllers use it: one for the manager, which wakes the Updates whose turn it is.
//!
//! # Guarantees
//! Every change of the queue goes through here, under one lock, and whoever it lets go is woken by `wake` before the
//! lock is given back. An Update that waits looks again by itself, too, so that it would go on without being woken.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kube::{
    ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use pko_api::{Decoded, Update, Workspace, names::conditions::ConditionType};
use pko_core::{
    condition_set::is_true,
    run_queue::{Admission, Limits, RunQueue},
    update::{AdmissionRequest, has_begun, run_request},
};
use tokio::sync::{mpsc::UnboundedSender, watch};

use crate::metrics::Metrics;

type UpdateRef = ObjectRef<Decoded<Update>>;

/// The run queue.
pub(crate) struct Turns {
    known: Mutex<Known>,
    wake: UnboundedSender<UpdateRef>,
    /// Whether the runs from before the start are in it.
    primed: watch::Sender<bool>,
    metrics: Arc<Metrics>,
}

struct Known {
    queue: RunQueue,
    /// Who is behind a run.
    updates: HashMap<String, UpdateRef>,
    /// Since when a run waits.
    since: HashMap<String, Instant>,
    /// The runs that go on although their Update is gone.
    kept: HashSet<String>,
}

impl Turns {
    pub(crate) fn new(
        limits: Limits,
        wake: UnboundedSender<UpdateRef>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            known: Mutex::new(Known {
                queue: RunQueue::new(limits),
                updates: HashMap::new(),
                since: HashMap::new(),
                kept: HashSet::new(),
            }),
            wake,
            primed: watch::Sender::new(false),
            metrics,
        }
    }

    /// Counts the runs that are under way already, as the caches have them, which must be filled. Nobody is let go
    /// before: two on one stack would otherwise be possible after a start.
    pub(crate) fn prime(
        &self,
        updates: &Store<Decoded<Update>>,
        workspaces: &Store<Decoded<Workspace>>,
    ) {
        for object in updates.state() {
            if let Ok(update) = object.as_result()
                && is_under_way(update)
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

    /// Comes when that is done. Passes wait here and not for the caches themselves, which wake only one of those
    /// who wait for them.
    pub(crate) async fn are_primed(&self) {
        // The other end is there as long as this is.
        let _ = self.primed.subscribe().wait_for(|primed| *primed).await;
    }

    fn resume(&self, update: &Update, workspace: Option<&Workspace>) {
        let mut known = self.known();
        known.remember(update);
        let woken = known.queue.resume(run_request(update, workspace));
        self.wake(&known, &woken);
    }

    /// Whether it is the turn of this Update's run.
    pub(crate) fn ask(&self, update: &Update, question: AdmissionRequest) -> Admission {
        let mut known = self.known();
        known.remember(update);
        if question.has_begun {
            let woken = known.queue.resume(question.request);
            self.wake(&known, &woken);
            return Admission::Admitted;
        }
        let run = question.request.run.clone();
        let (_, before) = known.queue.counts();
        let turn = known.queue.ask(question.request);
        if let Admission::Queued(_) = turn {
            known.since.entry(run).or_insert_with(Instant::now);
            return turn;
        }
        // Who is told a second time has not waited again.
        let waited = known.since.remove(&run).map(|since| since.elapsed());
        let at_once = (known.queue.counts().1 > before).then_some(Duration::ZERO);
        if let Some(waited) = waited.or(at_once) {
            self.metrics.queue_wait(waited);
        }
        turn
    }

    /// How many runs wait, and how many are under way.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.known().queue.counts()
    }

    /// The run is over, or not wanted any more.
    pub(crate) fn leave(&self, run: &str) {
        let mut known = self.known();
        known.since.remove(run);
        known.kept.remove(run);
        if known.updates.remove(run).is_some() {
            let woken = known.queue.leave(run);
            self.wake(&known, &woken);
        }
    }

    /// The run goes on although its Update is gone: its turn is its own until it has ended.
    pub(crate) fn keep(&self, run: &str) {
        self.known().kept.insert(run.to_owned());
    }

    /// Whoever is gone without a word gives its turn back.
    pub(crate) fn keep_only(&self, is_there: impl Fn(&UpdateRef, &str) -> bool) {
        let gone: Vec<String> = {
            let known = self.known();
            let gone = known
                .updates
                .iter()
                .filter(|(run, update)| !known.kept.contains(*run) && !is_there(update, run));
            gone.map(|(run, _)| run.clone()).collect()
        };
        for run in gone {
            self.leave(&run);
        }
    }

    fn wake(&self, known: &Known, runs: &[String]) {
        for update in runs.iter().filter_map(|run| known.updates.get(run)) {
            // The other end is there as long as the manager is.
            let _ = self.wake.send(update.clone());
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn remember(&mut self, update: &Update) {
        let reference =
            ObjectRef::new(&update.name_any()).within(&update.namespace().unwrap_or_default());
        self.updates
            .insert(update.uid().unwrap_or_default(), reference);
    }
}

fn is_under_way(update: &Update) -> bool {
    let status = update.status.as_ref();
    let is_over = status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete));
    has_begun(update) && !is_over
}
