//! Does what a plan says: step by step, the state written after each.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    display,
    event_log::EventLog,
    plan::{self, Action, Changes, Failure, Operation, Plan, Step, snapshot::Snapshot},
    property::Properties,
    resource::Resource,
    urn::Urn,
};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Ending {
    Succeeded,
    Failed,
    Canceled,
}

impl Ending {
    /// The word in event logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

/// Tells a run to stop after its current step.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// One that SIGINT and SIGTERM set; a second signal ends the process at once.
    pub fn on_signals() -> std::io::Result<Self> {
        let cancellation = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let flag = || Arc::clone(&cancellation.0);
            // order matters: the first signal must not find the flag already set
            signal_hook::flag::register_conditional_shutdown(signal, 1, flag())?;
            signal_hook::flag::register(signal, flag())?;
        }
        Ok(cancellation)
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits; a signal ends the wait.
    fn wait(&self, duration: Duration) {
        const SLICE: Duration = Duration::from_millis(20);
        let end = Instant::now() + duration;
        while !self.is_set() && Instant::now() < end {
            std::thread::sleep(SLICE.min(end.saturating_duration_since(Instant::now())));
        }
    }
}

/// Keeps the state.
pub trait Keeper {
    /// Writes the state as it is now.
    fn keep(&mut self, resources: Vec<Resource>) -> anyhow::Result<()>;
}

/// What a run needs besides its plan.
pub struct Execution<'a, K> {
    /// The stack's own resource.
    pub stack: Urn,
    /// Where the state goes; previews have none.
    pub keeper: Option<&'a mut K>,
    /// Where events go.
    pub events: &'a mut EventLog,
    /// When to stop.
    pub cancellation: &'a Cancellation,
    /// How long each step takes at least.
    pub step_delay: Duration,
    /// Whether a failed step leaves the others alone.
    pub continue_on_error: bool,
    /// Turns a failure into text.
    pub explain: &'a dyn Fn(&Failure) -> String,
}

/// What a run did.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// What was done to how many.
    pub changes: Changes,
}

impl<K: Keeper> Execution<'_, K> {
    /// Does all of a plan.
    pub fn run(mut self, plan: &Plan, old: Vec<Resource>) -> anyhow::Result<Outcome> {
        let mut snapshot = Snapshot::new(old);
        let mut outcome = Outcome {
            ending: Ending::Succeeded,
            changes: Changes::new(),
        };
        for action in &plan.actions {
            if self.cancellation.is_set() {
                outcome.ending = Ending::Canceled;
                break;
            }
            match action {
                Action::Step(step) => {
                    if self.step(step, &mut snapshot)? {
                        plan::count(&mut outcome.changes, step);
                    } else {
                        outcome.ending = Ending::Failed;
                    }
                }
                Action::StackOutputs(outputs) => {
                    self.outputs(plan, outputs.as_ref(), &mut snapshot)?;
                }
                Action::Failure(failure) => {
                    self.report(failure)?;
                    outcome.ending = Ending::Failed;
                }
            }
            let stops = matches!(action, Action::Step(step) if step.refusal.is_some());
            if stops && !self.continue_on_error {
                break;
            }
        }
        self.keep(&snapshot)?;
        Ok(outcome)
    }

    fn keep(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        match &mut self.keeper {
            Some(keeper) => keeper.keep(snapshot.resources()),
            None => Ok(()),
        }
    }

    fn preview(&self) -> bool {
        self.keeper.is_none()
    }

    fn report(&mut self, failure: &Failure) -> anyhow::Result<()> {
        let message = (self.explain)(failure);
        display::note(&format!("error: {message}"));
        Ok(self
            .events
            .diagnostic(failure.urn.as_ref(), "error", &message)?)
    }

    /// Does one step; false if it must not be done.
    fn step(&mut self, step: &Step, snapshot: &mut Snapshot) -> anyhow::Result<bool> {
        self.events.before(step)?;
        if let Some(refusal) = &step.refusal {
            self.report(&Failure::new(Some(step.urn.clone()), refusal.as_str()))?;
            return Ok(false);
        }
        let provider = step.resource().is_some_and(Resource::is_provider);
        if !self.preview() && !provider && step.operation != Operation::Replace {
            self.cancellation.wait(self.step_delay);
        }
        snapshot.apply(step);
        if !matches!(step.operation, Operation::Same | Operation::Replace) {
            self.keep(snapshot)?;
        }
        display::step(step, self.preview())?;
        // the stack is only done when its outputs are known
        if step.urn != self.stack
            || matches!(step.operation, Operation::Delete | Operation::Refresh)
        {
            self.events.after(step)?;
        }
        Ok(true)
    }

    fn outputs(
        &mut self,
        plan: &Plan,
        outputs: Option<&Properties>,
        snapshot: &mut Snapshot,
    ) -> anyhow::Result<()> {
        if let Some(outputs) = outputs {
            snapshot.set_outputs(&self.stack, outputs);
            display::outputs(outputs)?;
        }
        let registered = plan.actions.iter().find_map(|action| match action {
            Action::Step(step) if step.urn == self.stack => Some(step),
            _ => None,
        });
        if let Some(step) = registered {
            let new = snapshot.find(&self.stack).cloned();
            self.events.after(&Step {
                new,
                ..(**step).clone()
            })?;
        }
        Ok(())
    }
}
