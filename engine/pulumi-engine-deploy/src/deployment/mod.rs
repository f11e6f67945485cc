//! Runs a program, a destroy or a refresh: asks providers, decides with [`crate::plan`], carries steps out and keeps the
//! state. The one place that changes resources.
//!
//! ```text
//! program ──goal──▶ registrar ──▶ check, diff (provider) ──▶ decision (pure) ──▶ step ──▶ outputs ──▶ program
//!                                                                       │
//!                              ledger: "creating a" is saved ◀──────────┤ begin
//!                              provider: create                         │
//!                              ledger: a is part of the state ◀─────────┘ end
//! ```
//!
//! Parts of a program run on several threads ([`crate::schedule`]), each once all it refers to is done; so a resource's
//! outputs are known when others are evaluated. What threads share: the [`ledger`] (state and saves), the progress
//! (events, output), the providers, and the registrar's book of what was registered. None of these locks is held while a
//! provider works. In a preview the same happens, but providers are told to change nothing, and nothing is saved.
//!
//! A step that fails ends the run once the steps that run are done, unless the run goes on after errors; then only
//! what needs the failed resource is left out. What was done so far is in the state in any case.

pub mod cancellation;
pub mod ledger;
mod perform;
mod progress;
mod provider_resources;
mod providers;
mod read;
mod refreshing;
mod registrar;
mod removal;
mod replacement;
pub mod reporter;
mod resources;
mod targeting;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use pulumi_engine_model::{
    property::Properties,
    urn::{StackIdentity, Urn},
};
use pulumi_engine_providers::{builtin::Answers, registry::Registry};
use pulumi_yaml::Program;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::{
    plan::{
        Changes, Failure, Selection,
        snapshot::{Pending, Record, Snapshot},
    },
    program::evaluate::Surroundings,
};
use cancellation::Cancellation;
use ledger::{Keeper, Ledger};
use progress::{Explain, Progress};
use providers::Providers;
use reporter::Reporter;

/// What a run may read of the outside.
pub trait World: Answers {
    /// The time to write into resources.
    fn now(&self) -> String {
        jiff::Timestamp::now().to_string()
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// What a run did.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// What was done to how many.
    pub changes: Changes,
}

/// What a run is about, and what it may use.
pub struct Task<'a> {
    /// Stack and project.
    pub stack: &'a StackIdentity,
    /// What it is limited to.
    pub selection: &'a Selection,
    /// Whether nothing may be changed.
    pub preview: bool,
    /// How many things are done at the same time.
    pub parallel: usize,
    /// Whether a failed step leaves the others alone.
    pub continue_on_error: bool,
    /// How long each step takes at least.
    pub step_delay: Duration,
    /// When to stop.
    pub cancellation: &'a Cancellation,
    /// The packages there are.
    pub registry: &'a Registry,
    /// Other stacks.
    pub world: &'a dyn World,
    /// Config of a package, for its default provider.
    pub package_config: &'a (dyn Fn(&str) -> Properties + Sync),
    /// Turns a failure into text.
    pub explain: Explain<'a>,
    /// Lets go of what must not outlive a run that the user does not wait for; the process ends then.
    pub abandon: &'a (dyn Fn() + Sync),
}

/// What is to be done.
#[derive(Clone, Copy)]
pub enum Work<'a> {
    /// What a program says.
    Program {
        program: &'a Program,
        /// What it sees.
        surroundings: &'a Surroundings<'a>,
        /// Whether the state is brought up to date first.
        refresh: bool,
    },
    /// Bring the state up to date.
    Refresh,
    /// Delete.
    Destroy {
        /// Whether the state is brought up to date first.
        refresh: bool,
    },
    /// Nothing: what should be done cannot be understood.
    Nothing(&'a [Failure]),
}

/// The state that a run starts from.
#[derive(Debug, Default)]
pub struct Start {
    /// Its resources, in order.
    pub records: Vec<Arc<Record>>,
    /// What an earlier run has left under way.
    pub pending: Vec<Pending>,
}

/// Does the work. Without a keeper it is a preview.
pub fn run(
    task: &Task<'_>,
    work: Work<'_>,
    start: Start,
    keeper: Option<&mut dyn Keeper>,
    reporter: &mut dyn Reporter,
) -> anyhow::Result<Outcome> {
    let engine = Engine::new(task, start, keeper.is_some(), reporter)?;
    thread::scope(|scope| {
        if let Some(keeper) = keeper {
            let engine = &engine;
            scope.spawn(move || engine.save(keeper));
        }
        engine.work(work);
        engine.ledger.close();
    });
    engine.conclude()
}

pub(crate) struct Engine<'a> {
    task: &'a Task<'a>,
    ledger: Ledger,
    progress: Progress<'a>,
    providers: Providers<'a>,
    /// Whether something failed that ends the run.
    failing: AtomicBool,
    /// Decides everything that is random about resources.
    seed: [u8; 32],
}

/// A resource could not be dealt with; the user was told, or wants to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Halted;

impl<'a> Engine<'a> {
    fn new(
        task: &'a Task<'a>,
        start: Start,
        kept: bool,
        reporter: &'a mut dyn Reporter,
    ) -> anyhow::Result<Self> {
        let mut seed = [0; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_| anyhow::anyhow!("failed to get random bytes"))?;
        let answers: &dyn Answers = task.world;
        let providers = Providers::new(task.registry, answers);
        let own = start.records.iter().map(|record| &record.resource);
        for resource in own.filter(|resource| resource.is_provider()) {
            providers.remember(resource);
        }
        let progress = Progress::new(reporter, task.stack.stack_urn(), task.explain);
        let inherited = tell_pending(task, &progress, start.pending);
        Ok(Self {
            task,
            ledger: Ledger::new(Snapshot::new(start.records, inherited), kept, task.parallel),
            progress,
            providers,
            failing: AtomicBool::new(false),
            seed,
        })
    }

    fn work(&self, work: Work<'_>) {
        match work {
            Work::Nothing(failures) => {
                for failure in failures {
                    self.progress.failure(failure);
                }
            }
            Work::Refresh => self.refresh(true),
            Work::Destroy { refresh } => {
                if refresh {
                    self.refresh(false);
                }
                self.destroy();
            }
            Work::Program {
                program,
                surroundings,
                refresh,
            } => {
                if refresh {
                    self.refresh(false);
                }
                registrar::run(self, program, surroundings);
            }
        }
    }

    /// The saver's thread. When the user has no patience left it ends the process after its last save.
    fn save(&self, keeper: &mut dyn Keeper) {
        let hurried = || self.task.cancellation.is_urgent();
        self.ledger.serve(keeper, &hurried);
        if hurried() {
            (self.task.abandon)();
        }
    }

    fn conclude(self) -> anyhow::Result<Outcome> {
        let canceled = self.task.cancellation.is_set();
        let failed = self.progress.has_failures();
        if let Some(fault) = self.ledger.into_fault() {
            return Err(fault);
        }
        let ending = match (failed, canceled) {
            (_, true) => Ending::Canceled,
            (true, false) => Ending::Failed,
            (false, false) => Ending::Succeeded,
        };
        Ok(Outcome {
            ending,
            changes: self.progress.conclude()?,
        })
    }

    /// Whether nothing more may begin.
    fn is_stopped(&self) -> bool {
        self.failing.load(Ordering::SeqCst) || self.is_cut_off()
    }

    /// Whether the run ends for another reason than a step that failed.
    fn is_cut_off(&self) -> bool {
        self.task.cancellation.is_set() || self.progress.is_broken() || self.ledger.is_broken()
    }

    /// A step has failed: others may go on only if the user said so.
    fn fail(&self) -> Halted {
        if !self.task.continue_on_error {
            self.failing.store(true, Ordering::SeqCst);
        }
        Halted
    }

    /// Whether all targets are known; the user is told those that are not.
    fn check_targets(&self, targets: &[Urn], known: impl Fn(&Urn) -> bool) -> bool {
        let mut all = true;
        for target in Selection::unknown(targets, known) {
            all = false;
            let hint = if target.as_str().contains('$') {
                ""
            } else {
                " Did you forget to escape $ in your shell?"
            };
            let message = format!("Target '{target}' could not be found in the stack.{hint}");
            self.progress.failure(&Failure::new(None, message));
        }
        all
    }

    fn olds(&self) -> Olds {
        Olds::new(
            self.ledger
                .look(|snapshot| snapshot.records().map(Arc::clone).collect()),
        )
    }
}

/// The state that a phase of a run starts from, with its resources by name.
pub(crate) struct Olds {
    records: Vec<Arc<Record>>,
    live: HashMap<Urn, usize>,
}

impl Olds {
    fn new(records: Vec<Arc<Record>>) -> Self {
        let own = records.iter().enumerate();
        let live = own
            .filter(|(_, record)| !record.resource.delete)
            .map(|(position, record)| (record.resource.urn.clone(), position));
        Self {
            live: live.collect(),
            records,
        }
    }

    fn get(&self, urn: &Urn) -> Option<&Arc<Record>> {
        self.records.get(*self.live.get(urn)?)
    }
}

/// Tells what an earlier run has left under way, and returns what must be kept: creates whose resources may be there.
fn tell_pending(task: &Task<'_>, progress: &Progress<'_>, pending: Vec<Pending>) -> Vec<Pending> {
    if !pending.is_empty() && !task.preview {
        progress.warning(&Failure::new(None, interrupted(&pending)));
    }
    let lasting = |pending: &Pending| {
        pending.kind == "creating" && task.registry.is_outside(&pending.record.resource.kind)
    };
    pending.into_iter().filter(lasting).collect()
}

fn interrupted(pending: &[Pending]) -> String {
    let line = |pending: &Pending| {
        let urn = &pending.record.resource.urn;
        format!("  * {urn}, interrupted while {}\n", pending.kind)
    };
    let list = pending.iter().map(line).collect::<Vec<_>>().concat();
    format!(
        "Attempting to deploy or update resources with {} pending operations from previous deployment.\n{list}\
         These resources are in an unknown state because an earlier run was killed while it waited for changes to \
         them. Look at them where they are: a resource that was being created may be there without being part of \
         the stack. `refresh` brings the others up to date.",
        pending.len()
    )
}
