//! The state while a run changes it from several threads, and when it is saved.
//!
//! A step begins once the save that says so is done, so that a killed run leaves no operation unrecorded. One thread
//! saves: what comes while it writes goes into its next save together. The end of a step is no reason to hurry: it
//! waits a moment for the beginning of the next one.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    plan::{
        Step,
        snapshot::{Held, Snapshot},
    },
    property::Properties,
    resource::Resource,
    schedule::locked,
    urn::Urn,
};

/// How long the end of a step waits for company.
const PAUSE: Duration = Duration::from_millis(2);
/// How often a saver without work looks whether the user has lost patience.
const GLANCE: Duration = Duration::from_millis(50);

/// Keeps the state.
pub trait Keeper: Send {
    /// Writes the state as it is now.
    fn keep(&mut self, state: &Held) -> anyhow::Result<()>;
}

/// The state and what of it is saved.
pub(super) struct Ledger {
    book: Mutex<Book>,
    changed: Condvar,
    /// Whether anybody saves: previews have nobody.
    kept: bool,
}

struct Book {
    snapshot: Snapshot,
    /// Counts changes.
    version: u64,
    /// The change that somebody waits for.
    awaited: u64,
    /// The last change that is saved.
    saved: u64,
    closing: bool,
    broken: Option<anyhow::Error>,
}

/// The state could not be saved: nothing more may begin.
#[derive(Debug)]
pub(super) struct Unsaved;

impl Ledger {
    pub(super) fn new(snapshot: Snapshot, kept: bool) -> Self {
        Self {
            book: Mutex::new(Book {
                snapshot,
                version: 0,
                awaited: 0,
                saved: 0,
                closing: false,
                broken: None,
            }),
            changed: Condvar::new(),
            kept,
        }
    }

    /// Records that a step begins, and returns once that is saved.
    pub(super) fn begin(&self, kind: &str, resource: Resource) -> Result<usize, Unsaved> {
        let mut book = locked(&self.book);
        if !self.kept {
            return Ok(0);
        }
        let ticket = book.snapshot.begin(kind, resource);
        book.version += 1;
        let version = book.version;
        book.awaited = version;
        self.changed.notify_all();
        while book.saved < version && book.broken.is_none() {
            book = self.wait(book);
        }
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
        locked(&self.book).snapshot.apply(step, part);
    }

    pub(super) fn settle(&self, resource: &Resource, part: usize) {
        locked(&self.book).snapshot.settle(resource, part);
    }

    pub(super) fn set_outputs(&self, stack: &Urn, outputs: &Properties) {
        self.change(|snapshot| snapshot.set_outputs(stack, outputs));
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        look(&locked(&self.book).snapshot)
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut book = locked(&self.book);
        change(&mut book.snapshot);
        book.version += 1;
        self.changed.notify_all();
    }

    fn wait<'a>(&self, book: MutexGuard<'a, Book>) -> MutexGuard<'a, Book> {
        self.changed
            .wait(book)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for<'a>(&self, book: MutexGuard<'a, Book>, time: Duration) -> MutexGuard<'a, Book> {
        let waited = self.changed.wait_timeout(book, time);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Saves until the ledger is closed; then once more, whatever has changed. `hurried` is asked now and then, and
    /// ends it as well.
    pub(super) fn serve(&self, keeper: &mut dyn Keeper, hurried: &dyn Fn() -> bool) {
        loop {
            let mut book = locked(&self.book);
            while book.version == book.saved && !book.closing && !hurried() {
                book = self.wait_for(book, GLANCE);
            }
            if book.awaited <= book.saved && !book.closing && !hurried() {
                book = self.wait_for(book, PAUSE);
            }
            let (last, version) = (book.closing || hurried(), book.version);
            let held = book.snapshot.held();
            drop(book);
            let kept = keeper.keep(&held);
            let mut book = locked(&self.book);
            book.saved = version;
            let broken = kept.is_err();
            book.broken = kept.err();
            self.changed.notify_all();
            if last || broken {
                return;
            }
        }
    }

    /// Lets the saver do its last save.
    pub(super) fn close(&self) {
        locked(&self.book).closing = true;
        self.changed.notify_all();
    }

    pub(super) fn is_broken(&self) -> bool {
        locked(&self.book).broken.is_some()
    }

    /// Why the state could not be saved, if so.
    pub(super) fn into_fault(self) -> Option<anyhow::Error> {
        self.book
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .broken
    }
}
