//! The state while a run changes it from several threads, and when it is saved.
//!
//! A step begins once the save that says so is done, so that a killed run leaves no operation unrecorded. One thread
//! saves: what comes while it writes goes into its next save together. The end of a step is no reason to hurry: it
//! waits a moment for the beginning of the next one. A save costs more the larger the state is, so before one begins
//! other steps get as long as the last one took to join it: many small steps then cost few saves.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use pulumi_engine_model::{property::Properties, resource::Resource, urn::Urn};

use crate::plan::{
    Step,
    snapshot::{Held, Snapshot},
};

/// How long the end of a step waits for company.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a save waits for more steps to begin, at most.
const COMPANY: Duration = Duration::from_millis(20);
/// How often a saver without work looks whether the user has lost patience.
const GLANCE: Duration = Duration::from_millis(50);

/// Keeps the state.
pub trait Keeper: Send {
    /// Writes the state as it is now; more of it follows unless this is the last time.
    fn keep(&mut self, state: &Held, last: bool) -> anyhow::Result<()>;
}

/// The state and what of it is saved.
pub(super) struct Ledger {
    book: Mutex<Book>,
    changed: Condvar,
    /// Whether anybody saves: previews have nobody.
    kept: bool,
    /// How many steps can be under way at the same time.
    width: usize,
}

struct Book {
    snapshot: Snapshot,
    /// Counts changes.
    version: u64,
    /// The change that somebody waits for.
    awaited: u64,
    /// How many steps wait for a save to begin.
    waiting: usize,
    /// The last change that is saved.
    saved: u64,
    closing: bool,
    broken: Option<anyhow::Error>,
}

/// The state could not be saved: nothing more may begin.
#[derive(Debug)]
pub(super) struct Unsaved;

impl Ledger {
    pub(super) fn new(snapshot: Snapshot, kept: bool, width: usize) -> Self {
        Self {
            book: Mutex::new(Book {
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

    /// Records that a step begins, and returns once that is saved.
    pub(super) fn begin(&self, kind: &str, resource: Resource) -> Result<usize, Unsaved> {
        let mut book = self.book.lock();
        if !self.kept {
            return Ok(0);
        }
        let ticket = book.snapshot.begin(kind, resource);
        book.version += 1;
        let version = book.version;
        book.awaited = version;
        book.waiting += 1;
        self.changed.notify_all();
        while book.saved < version && book.broken.is_none() {
            self.changed.wait(&mut book);
        }
        book.waiting -= 1;
        if book.broken.is_some() {
            return Err(Unsaved);
        }
        Ok(ticket)
    }

    /// Takes over what a step did, and forgets that it was under way.
    pub(super) fn finish(&self, ticket: Option<usize>, step: &Step, part: usize) {
        self.change(|snapshot| {
            if let Some(ticket) = ticket {
                snapshot.end(ticket);
            }
            snapshot.apply(step, part);
        });
    }

    /// Forgets a step that did nothing.
    pub(super) fn abandon(&self, ticket: Option<usize>) {
        if let Some(ticket) = ticket {
            self.change(|snapshot| snapshot.end(ticket));
        }
    }

    /// Takes over what needs no save of its own.
    pub(super) fn note(&self, step: &Step, part: usize) {
        self.book.lock().snapshot.apply(step, part);
    }

    pub(super) fn settle(&self, resource: &Resource, part: usize) {
        self.book.lock().snapshot.settle(resource, part);
    }

    pub(super) fn set_outputs(&self, stack: &Urn, outputs: &Properties) {
        self.change(|snapshot| snapshot.set_outputs(stack, outputs));
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        look(&self.book.lock().snapshot)
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut book = self.book.lock();
        change(&mut book.snapshot);
        book.version += 1;
        self.changed.notify_all();
    }

    /// Saves until the ledger is closed; then once more, whatever has changed. `hurried` is asked now and then, and
    /// ends it as well.
    pub(super) fn serve(&self, keeper: &mut dyn Keeper, hurried: &dyn Fn() -> bool) {
        let mut took = Duration::ZERO;
        loop {
            let mut book = self.book.lock();
            while book.version == book.saved && !book.closing && !hurried() {
                _ = self.changed.wait_for(&mut book, GLANCE);
            }
            if book.awaited <= book.saved && !book.closing && !hurried() {
                _ = self.changed.wait_for(&mut book, PAUSE);
            }
            self.wait_for_company(&mut book, took, hurried);
            let (last, version) = (book.closing || hurried(), book.version);
            let held = book.snapshot.held();
            drop(book);
            let begun = Instant::now();
            let kept = keeper.keep(&held, last);
            took = begun.elapsed().min(COMPANY);
            let mut book = self.book.lock();
            book.saved = version;
            let broken = kept.is_err();
            book.broken = kept.err();
            self.changed.notify_all();
            if last || broken {
                return;
            }
        }
    }

    /// Lets more steps join a save, unless all that can be are there.
    fn wait_for_company(
        &self,
        book: &mut MutexGuard<'_, Book>,
        time: Duration,
        hurried: &dyn Fn() -> bool,
    ) {
        let until = Instant::now() + time;
        while book.waiting > 0 && book.waiting < self.width && !book.closing && !hurried() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            _ = self.changed.wait_for(book, left);
        }
    }

    /// Lets the saver do its last save.
    pub(super) fn close(&self) {
        self.book.lock().closing = true;
        self.changed.notify_all();
    }

    pub(super) fn is_broken(&self) -> bool {
        self.book.lock().broken.is_some()
    }

    /// Why the state could not be saved, if so.
    pub(super) fn into_fault(self) -> Option<anyhow::Error> {
        self.book.into_inner().broken
    }
}
