//! The state while several threads change it, and when it is saved.
//!
//! A step begins only after its pending operation is saved, so a killed run leaves no operation
//! unrecorded. One thread saves. Changes that arrive while it writes go into its next save together.
//! The end of a step is not urgent: it waits briefly for the beginning of the next one. A save costs
//! more the larger the state is, so a save first waits as long as the last one took for other steps
//! to join it. Many small steps then cost few saves.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use pulumi_engine_model::{property::Properties, resource::Resource, urn::Urn};

use crate::plan::{
    Step,
    snapshot::{Snapshot, StateToSave},
};

/// How long the end of a step waits to share a save.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest time that a save waits for more steps to begin.
const COMPANY: Duration = Duration::from_millis(20);
/// How often an idle saver checks for an urgent cancellation.
const GLANCE: Duration = Duration::from_millis(50);

/// Stores the state of a run.
pub trait StateSink: Send {
    /// Writes the current state. More writes follow unless this is the last one.
    fn save(&mut self, state: &StateToSave, last: bool) -> anyhow::Result<()>;
}

/// The state, and how much of it is saved.
pub(super) struct Ledger {
    state: Mutex<LedgerState>,
    changed: Condvar,
    /// Whether the state is saved: previews do not save.
    kept: bool,
    /// How many steps can run at the same time.
    width: usize,
}

struct LedgerState {
    snapshot: Snapshot,
    /// Number of changes.
    version: u64,
    /// The newest change that a step waits for.
    awaited: u64,
    /// How many steps wait for a save to begin.
    waiting: usize,
    /// The newest saved change.
    saved: u64,
    closing: bool,
    broken: Option<anyhow::Error>,
}

/// The state could not be saved: no further step may begin.
#[derive(Debug)]
pub(super) struct Unsaved;

impl Ledger {
    pub(super) fn new(snapshot: Snapshot, kept: bool, width: usize) -> Self {
        Self {
            state: Mutex::new(LedgerState {
                snapshot,
                version: 0,
                awaited: 0,
                waiting: 0,
                saved: 0,
                closing: false,
                broken: None,
            }),
            changed: Condvar::new(),
            kept,
            width,
        }
    }

    /// Records a pending operation, and returns once it is saved.
    pub(super) fn begin(&self, kind: &str, resource: Resource) -> Result<usize, Unsaved> {
        let mut state = self.state.lock();
        if !self.kept {
            return Ok(0);
        }
        let ticket = state.snapshot.begin(kind, resource);
        state.version += 1;
        let version = state.version;
        state.awaited = version;
        state.waiting += 1;
        self.changed.notify_all();
        while state.saved < version && state.broken.is_none() {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
        if state.broken.is_some() {
            return Err(Unsaved);
        }
        Ok(ticket)
    }

    /// Applies a finished step, and removes its pending operation.
    pub(super) fn finish(&self, ticket: Option<usize>, step: &Step, part: usize) {
        self.change(|snapshot| {
            if let Some(ticket) = ticket {
                snapshot.end(ticket);
            }
            snapshot.apply(step, part);
        });
    }

    /// Removes the pending operation of a step that changed nothing.
    pub(super) fn abandon(&self, ticket: Option<usize>) {
        if let Some(ticket) = ticket {
            self.change(|snapshot| snapshot.end(ticket));
        }
    }

    /// Applies a step that needs no save of its own.
    pub(super) fn note(&self, step: &Step, part: usize) {
        self.state.lock().snapshot.apply(step, part);
    }

    pub(super) fn settle(&self, resource: &Resource, part: usize) {
        self.state.lock().snapshot.settle(resource, part);
    }

    pub(super) fn set_outputs(&self, stack: &Urn, outputs: &Properties) {
        self.change(|snapshot| snapshot.set_outputs(stack, outputs));
    }

    pub(super) fn read_snapshot<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        look(&self.state.lock().snapshot)
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut state = self.state.lock();
        change(&mut state.snapshot);
        state.version += 1;
        self.changed.notify_all();
    }

    /// Saves until the ledger is closed, and then once more. An urgent cancellation (`hurried`) ends it
    /// as well.
    pub(super) fn serve(&self, sink: &mut dyn StateSink, hurried: &dyn Fn() -> bool) {
        let mut took = Duration::ZERO;
        loop {
            let mut state = self.state.lock();
            while state.version == state.saved && !state.closing && !hurried() {
                _ = self.changed.wait_for(&mut state, GLANCE);
            }
            if state.awaited <= state.saved && !state.closing && !hurried() {
                _ = self.changed.wait_for(&mut state, PAUSE);
            }
            self.wait_for_company(&mut state, took, hurried);
            let (last, version) = (state.closing || hurried(), state.version);
            let held = state.snapshot.to_save();
            drop(state);
            let begun = Instant::now();
            let saved = sink.save(&held, last);
            took = begun.elapsed().min(COMPANY);
            let mut state = self.state.lock();
            state.saved = version;
            let broken = saved.is_err();
            state.broken = saved.err();
            self.changed.notify_all();
            if last || broken {
                return;
            }
        }
    }

    /// Waits for more steps to join a save, unless all that can run have joined.
    fn wait_for_company(
        &self,
        state: &mut MutexGuard<'_, LedgerState>,
        time: Duration,
        hurried: &dyn Fn() -> bool,
    ) {
        let until = Instant::now() + time;
        while state.waiting > 0 && state.waiting < self.width && !state.closing && !hurried() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            _ = self.changed.wait_for(state, left);
        }
    }

    /// Requests the last save.
    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.changed.notify_all();
    }

    pub(super) fn is_broken(&self) -> bool {
        self.state.lock().broken.is_some()
    }

    /// The error if the state could not be saved.
    pub(super) fn into_fault(self) -> Option<anyhow::Error> {
        self.state.into_inner().broken
    }
}
