//! What a run tells: events, lines for people, and how much was done. Several threads tell at once; each thing is told
//! as a whole.

use std::{io, sync::Mutex};

use crate::{
    audience::Audience,
    display::Severity,
    plan::{self, Changes, Failure, Operation, Step},
    resource::Resource,
    schedule::locked,
    urn::Urn,
};

/// Turns a failure into text.
pub type Explain<'a> = &'a (dyn Fn(&Failure) -> String + Sync);

pub(super) struct Reporter<'a> {
    told: Mutex<Told<'a>>,
    stack: Urn,
    explain: Explain<'a>,
}

struct Told<'a> {
    audience: &'a mut Audience,
    changes: Changes,
    failures: usize,
    /// The stack's own step: it is only done when the outputs are known.
    stack: Option<Step>,
    /// The same, with the outputs.
    last: Option<Step>,
    /// Why nothing can be told any more.
    fault: Option<io::Error>,
}

impl Told<'_> {
    fn keep(&mut self, told: io::Result<()>) {
        if let Err(error) = told {
            self.fault.get_or_insert(error);
        }
    }
}

impl<'a> Reporter<'a> {
    pub(super) fn new(audience: &'a mut Audience, stack: Urn, explain: Explain<'a>) -> Self {
        let told = Told {
            audience,
            changes: Changes::new(),
            failures: 0,
            stack: None,
            last: None,
            fault: None,
        };
        Self {
            told: Mutex::new(told),
            stack,
            explain,
        }
    }

    pub(super) fn before(&self, step: &Step) {
        let mut told = locked(&self.told);
        let written = told.audience.before(step);
        told.keep(written);
    }

    /// A step is done.
    pub(super) fn after(&self, step: &Step) {
        let mut told = locked(&self.told);
        plan::count(&mut told.changes, step);
        let waits = !matches!(step.operation, Operation::Delete | Operation::Refresh);
        if step.urn == self.stack && waits {
            told.stack = Some(step.clone());
            // as Pulumi has it: a preview tells of the stack twice, first without what the program gives
            if !told.audience.is_preview() {
                return;
            }
        }
        let written = told.audience.after(step);
        told.keep(written);
    }

    /// The stack's own step is done, with or without outputs. It is told of once all else is.
    pub(super) fn stack_done(&self, stack: Option<Resource>) {
        let mut told = locked(&self.told);
        told.last = told.stack.take().map(|step| Step { new: stack, ..step });
    }

    /// A step could not be done. Of a preview there is only the message, as with Pulumi's CLI.
    pub(super) fn failed(&self, step: &Step, message: &str) {
        let preview = locked(&self.told).audience.is_preview();
        let words = if preview { "Preview failed: " } else { "" };
        let message = format!("{words}{message}");
        self.failure(&Failure::new(Some(step.urn.clone()), message));
        if preview {
            return;
        }
        let mut told = locked(&self.told);
        let written = told.audience.failed(step);
        told.keep(written);
    }

    pub(super) fn failure(&self, failure: &Failure) {
        locked(&self.told).failures += 1;
        self.say(failure, Severity::Error);
    }

    pub(super) fn warning(&self, failure: &Failure) {
        self.say(failure, Severity::Warning);
    }

    fn say(&self, failure: &Failure, severity: Severity) {
        let message = (self.explain)(failure);
        let mut told = locked(&self.told);
        let written = told.audience.said(failure.urn.as_ref(), severity, &message);
        told.keep(written);
    }

    /// What a provider says while it works on a resource.
    pub(super) fn status(&self, urn: &Urn, message: &str) {
        let mut told = locked(&self.told);
        let written = told.audience.said(Some(urn), Severity::Status, message);
        told.keep(written);
    }

    pub(super) fn has_failures(&self) -> bool {
        locked(&self.told).failures > 0
    }

    pub(super) fn is_broken(&self) -> bool {
        locked(&self.told).fault.is_some()
    }

    /// How much was done, unless telling it failed.
    pub(super) fn conclude(self) -> io::Result<Changes> {
        let mut told = self
            .told
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(step) = told.last.take() {
            let written = told.audience.after(&step);
            told.keep(written);
        }
        match told.fault {
            Some(fault) => Err(fault),
            None => Ok(told.changes),
        }
    }
}
