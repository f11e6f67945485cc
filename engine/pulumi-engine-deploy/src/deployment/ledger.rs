//! The state while several threads change it, and when it is saved.
//!
//! A step begins only after its pending operation is saved, so a killed run leaves no operation
//! unrecorded. One thread saves. Changes that arrive while it writes go into its next save
//! together. The end of a step is not urgent: it waits briefly for the beginning of the next one. A
//! save costs more the larger the state is, so a save first waits as long as the last one took for
//! other steps to join it. Many small steps then cost few saves.
//!
//! After a failed save no step begins. The save is retried until the running steps have ended,
//! because their results belong into the state, and a few times more. Then the state goes to a
//! local file.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use pulumi_engine_model::{property::Properties, resource::Resource, urn::Urn};

use super::save_failure::{self, SaveFailure};
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

/// The pause after the first failed save, which doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 100 });
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause when only the last save is missing.
const LONGEST_LAST_PAUSE: Duration = Duration::from_secs(1);
/// How often the last save is tried.
const LAST_ATTEMPTS: usize = 4;

/// Stores the state of a run.
pub trait StateSink: Send {
    /// Writes the current state. More writes follow unless this is the last one.
    fn save(&mut self, state: &StateToSave, last: bool) -> anyhow::Result<()>;

    /// Writes a state that could not be saved to a local file. Returns a sentence that names the
    /// file and how to import it.
    fn rescue(&mut self, state: &StateToSave) -> anyhow::Result<String>;
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
    broken: Option<SaveFailure>,
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
            // the step never begins
            state.snapshot.end(ticket);
            state.version += 1;
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

    /// Saves until the ledger is closed, and then once more. An urgent cancellation (`hurried`)
    /// ends it as well.
    pub(super) fn serve(&self, sink: &mut dyn StateSink, hurried: &dyn Fn() -> bool) {
        let mut took = Duration::ZERO;
        let mut stored = self.state.lock().snapshot.to_save();
        let (mut failures, mut last_failures) = (0, 0);
        loop {
            let mut state = self.state.lock();
            self.wait_after_failures(&mut state, failures, hurried);
            self.wait_for_change(&mut state, hurried);
            self.wait_for_company(&mut state, took, hurried);
            let (last, version) = (state.closing || hurried(), state.version);
            let held = state.snapshot.to_save();
            drop(state);
            let begun = Instant::now();
            let saved = sink.save(&held, last);
            took = begun.elapsed().min(COMPANY);
            let is_saved = saved.is_ok();
            self.record(saved, version);
            if is_saved {
                if last {
                    return;
                }
                (stored, failures) = (held, 0);
                continue;
            }
            failures += 1;
            last_failures += usize::from(last);
            if last && (last_failures == LAST_ATTEMPTS || hurried()) {
                return self.rescue(sink, &held, &stored);
            }
        }
    }

    /// Records the end of a save. The first failure stays, and no step begins after it.
    fn record(&self, saved: anyhow::Result<()>, version: u64) {
        let mut state = self.state.lock();
        match saved {
            Ok(()) => {
                state.saved = version;
                if let Some(failure) = &mut state.broken {
                    failure.end = save_failure::FailureEnd::Saved;
                }
            }
            Err(error) => {
                let failure = state.broken.get_or_insert_with(|| SaveFailure::new(error));
                failure.end = save_failure::FailureEnd::Unsaved;
            }
        }
        self.changed.notify_all();
    }

    /// Lets the sink write the state elsewhere. `stored` is the state in the backend.
    fn rescue(&self, sink: &mut dyn StateSink, unsaved: &StateToSave, stored: &StateToSave) {
        let end = match sink.rescue(unsaved) {
            Ok(place) => save_failure::FailureEnd::Rescued(place),
            Err(error) => save_failure::FailureEnd::Lost {
                error: format!("{error:#}"),
                resources: save_failure::missing_resources(stored, unsaved),
            },
        };
        if let Some(failure) = &mut self.state.lock().broken {
            failure.end = end;
        }
    }

    /// Gives the backend time after failed saves, unless the ledger is closed meanwhile.
    fn wait_after_failures(
        &self,
        state: &mut MutexGuard<'_, LedgerState>,
        failures: u32,
        hurried: &dyn Fn() -> bool,
    ) {
        let was_closing = state.closing;
        let until = Instant::now() + pause(failures, was_closing);
        while state.closing == was_closing && !hurried() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            _ = self.changed.wait_for(state, left.min(GLANCE));
        }
    }

    fn wait_for_change(&self, state: &mut MutexGuard<'_, LedgerState>, hurried: &dyn Fn() -> bool) {
        while state.version == state.saved && !state.closing && !hurried() {
            _ = self.changed.wait_for(state, GLANCE);
        }
        if state.awaited <= state.saved && !state.closing && !hurried() {
            _ = self.changed.wait_for(state, PAUSE);
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

    /// What to report if a save failed and the process ends now.
    pub(super) fn failure_text(&self) -> Option<String> {
        let state = self.state.lock();
        state.broken.as_ref().map(SaveFailure::text)
    }

    /// The error if a save failed.
    pub(super) fn into_fault(self) -> Option<anyhow::Error> {
        let failure = self.state.into_inner().broken;
        failure.map(|failure| {
            let context = failure.end.to_string();
            failure.error.context(context)
        })
    }
}

fn pause(failures: u32, closing: bool) -> Duration {
    let longest = if closing {
        LONGEST_LAST_PAUSE
    } else {
        LONGEST_PAUSE
    };
    match failures {
        0 => Duration::ZERO,
        _ => FIRST_PAUSE
            .saturating_mul(2_u32.saturating_pow(failures - 1))
            .min(longest),
    }
}
