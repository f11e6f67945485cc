//! Forwards steps and messages of all threads to the reporter, one at a time, and counts changes.

use std::io;

use parking_lot::Mutex;
use pulumi_engine_model::{resource::Resource, urn::Urn};

use super::reporter::{MessageSeverity, Reporter};
use crate::plan::{self, Changes, Failure, Operation, Step};

/// Turns a failure into text.
pub(super) type Explain<'a> = &'a (dyn Fn(&Failure) -> String + Sync);

pub(super) struct Progress<'a> {
    state: Mutex<ProgressState<'a>>,
    stack: Urn,
    explain: Explain<'a>,
}

struct ProgressState<'a> {
    reporter: &'a mut dyn Reporter,
    changes: Changes,
    failures: usize,
    /// The stack's own step. It ends when the outputs are known.
    stack: Option<Step>,
    /// The same, with the outputs.
    last: Option<Step>,
    /// The first error of the reporter.
    fault: Option<io::Error>,
}

impl ProgressState<'_> {
    fn keep(&mut self, state: io::Result<()>) {
        if let Err(error) = state {
            self.fault.get_or_insert(error);
        }
    }
}

impl<'a> Progress<'a> {
    pub(super) fn new(reporter: &'a mut dyn Reporter, stack: Urn, explain: Explain<'a>) -> Self {
        let state = ProgressState {
            reporter,
            changes: Changes::new(),
            failures: 0,
            stack: None,
            last: None,
            fault: None,
        };
        Self {
            state: Mutex::new(state),
            stack,
            explain,
        }
    }

    pub(super) fn before(&self, step: &Step) {
        let mut state = self.state.lock();
        let written = state.reporter.before_step(step);
        state.keep(written);
    }

    pub(super) fn after(&self, step: &Step) {
        let mut state = self.state.lock();
        plan::count(&mut state.changes, step);
        let waits = !matches!(step.operation, Operation::Delete | Operation::Refresh);
        if step.urn == self.stack && waits {
            state.stack = Some(step.clone());
            // as in Pulumi, a preview reports the stack twice, first without its outputs
            if !state.reporter.is_preview() {
                return;
            }
        }
        let written = state.reporter.after_step(step);
        state.keep(written);
    }

    /// Ends the stack's own step, with or without outputs. It is reported last of all.
    pub(super) fn stack_done(&self, stack: Option<Resource>) {
        let mut state = self.state.lock();
        state.last = state.stack.take().map(|step| Step { new: stack, ..step });
    }

    /// Reports a failed step. As with Pulumi's CLI, a preview reports only the message.
    pub(super) fn failed(&self, step: &Step, message: &str) {
        let preview = self.state.lock().reporter.is_preview();
        let words = if preview { "Preview failed: " } else { "" };
        let message = format!("{words}{message}");
        self.failure(&Failure::new(Some(step.urn.clone()), message));
        if preview {
            return;
        }
        let mut state = self.state.lock();
        let written = state.reporter.step_failed(step);
        state.keep(written);
    }

    pub(super) fn failure(&self, failure: &Failure) {
        self.state.lock().failures += 1;
        self.say(failure, MessageSeverity::Error);
    }

    pub(super) fn warning(&self, failure: &Failure) {
        self.say(failure, MessageSeverity::Warning);
    }

    fn say(&self, failure: &Failure, severity: MessageSeverity) {
        let message = (self.explain)(failure);
        let mut state = self.state.lock();
        let written = state
            .reporter
            .message(failure.urn.as_ref(), severity, &message);
        state.keep(written);
    }

    /// Reports what a provider waits for.
    pub(super) fn status(&self, urn: &Urn, message: &str) {
        let mut state = self.state.lock();
        let written = state
            .reporter
            .message(Some(urn), MessageSeverity::Status, message);
        state.keep(written);
    }

    pub(super) fn has_failures(&self) -> bool {
        self.state.lock().failures > 0
    }

    pub(super) fn is_broken(&self) -> bool {
        self.state.lock().fault.is_some()
    }

    /// The counted changes, or the reporter's error.
    pub(super) fn conclude(self) -> io::Result<Changes> {
        let mut state = self.state.into_inner();
        if let Some(step) = state.last.take() {
            let written = state.reporter.after_step(&step);
            state.keep(written);
        }
        match state.fault {
            Some(fault) => Err(fault),
            None => Ok(state.changes),
        }
    }
}
