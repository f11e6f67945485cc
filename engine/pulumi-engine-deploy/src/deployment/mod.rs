//! Runs an update, refresh or destroy: calls providers, decides with [`crate::plan`], carries out
//! steps and saves the state. Only this module changes resources.
//!
//! ```text
//! program ──goal──▶ registrar ──▶ check, diff (provider) ──▶ decision (pure) ──▶ step ──▶ outputs ──▶ program
//!                                                                       │
//!                              ledger: "creating a" is saved ◀──────────┤ begin
//!                              provider: create                         │
//!                              ledger: a is part of the state ◀─────────┘ end
//! ```
//!
//! Parts of a program run on several threads, each once everything it refers to is done, so a
//! resource's outputs are known when others are evaluated. Threads share the [`ledger`] (state and
//! saves), the progress (events, output), the providers and the registrations. None of these locks
//! is held while a provider works. A preview runs the same code, but providers change nothing and
//! nothing is saved.
//!
//! A failed step ends the run once the running steps are done. With `--continue-on-error`, only the
//! dependents of the failed resource are skipped. The state has everything done so far in any case.

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
mod save_failure;
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
use pulumi_engine_providers::{builtin::BuiltinHost, registry::Registry};
use pulumi_yaml::Program;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::{
    plan::{
        Changes, Failure, Selection,
        snapshot::{Pending, Record, Snapshot},
    },
    program::evaluate::EvaluationContext,
};
use cancellation::Cancellation;
use ledger::{Ledger, StateSink};
use progress::{Explain, Progress};
use providers::Providers;
use reporter::Reporter;

/// What a run needs from its caller.
pub trait DeploymentHost: BuiltinHost {
    /// The time stamp of changed resources.
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
    /// The name in event logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Outcome {
    pub ending: Ending,
    pub changes: Changes,
}

/// The settings of a run, and what it uses.
pub struct Task<'a> {
    /// Stack and project.
    pub stack: &'a StackIdentity,
    /// The resources that it is limited to.
    pub selection: &'a Selection,
    pub preview: bool,
    /// How many steps run at the same time.
    pub parallel: usize,
    /// Whether other steps continue after one has failed.
    pub continue_on_error: bool,
    /// The shortest time of a step, for tests.
    pub step_delay: Duration,
    pub cancellation: &'a Cancellation,
    pub registry: &'a Registry,
    pub host: &'a dyn DeploymentHost,
    /// Config of a package, for its default provider.
    pub package_config: &'a (dyn Fn(&str) -> Properties + Sync),
    /// Turns a failure into text.
    pub explain: Explain<'a>,
    /// Releases the lock and ends the process, after an urgent cancellation.
    pub abandon: &'a (dyn Fn() + Sync),
}

/// The work of a run.
#[derive(Clone, Copy)]
pub enum Work<'a> {
    /// Deploy a program.
    Program {
        program: &'a Program,
        context: &'a EvaluationContext<'a>,
        /// Whether to refresh first.
        refresh: bool,
    },
    Refresh,
    /// Delete.
    Destroy {
        /// Whether to refresh first.
        refresh: bool,
    },
    /// Only report these failures: the program has syntax errors.
    Nothing(&'a [Failure]),
}

/// The state that a run starts from.
#[derive(Debug, Default)]
pub struct InitialState {
    /// Its resources, in order.
    pub records: Vec<Arc<Record>>,
    /// Operations that an earlier run did not finish.
    pub pending: Vec<Pending>,
}

/// Does the work. Without a sink it does not save, as in a preview.
pub fn run(
    task: &Task<'_>,
    work: Work<'_>,
    start: InitialState,
    sink: Option<&mut dyn StateSink>,
    reporter: &mut dyn Reporter,
) -> anyhow::Result<Outcome> {
    let engine = Engine::new(task, start, sink.is_some(), reporter)?;
    thread::scope(|scope| {
        if let Some(sink) = sink {
            let engine = &engine;
            scope.spawn(move || engine.save(sink));
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
    /// Whether a failure ends the run.
    failing: AtomicBool,
    /// The seed of everything random about resources.
    seed: [u8; 32],
}

/// A resource failed, which was reported, or the run is canceled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Halted;

impl<'a> Engine<'a> {
    fn new(
        task: &'a Task<'a>,
        start: InitialState,
        kept: bool,
        reporter: &'a mut dyn Reporter,
    ) -> anyhow::Result<Self> {
        let mut seed = [0; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_| anyhow::anyhow!("failed to get random bytes"))?;
        let builtin_host: &dyn BuiltinHost = task.host;
        let providers = Providers::new(task.registry, builtin_host);
        let own = start.records.iter().map(|record| &record.resource);
        for resource in own.filter(|resource| resource.is_provider()) {
            providers.remember(resource);
        }
        let progress = Progress::new(reporter, task.stack.stack_urn(), task.explain);
        let inherited = report_pending(task, &progress, start.pending);
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
                context,
                refresh,
            } => {
                if refresh {
                    self.refresh(false);
                }
                registrar::run(self, program, context);
            }
        }
    }

    /// The saver's thread. After an urgent cancellation it ends the process once it has saved.
    fn save(&self, sink: &mut dyn StateSink) {
        let hurried = || self.task.cancellation.is_urgent();
        self.ledger.serve(sink, &hurried);
        if hurried() {
            if let Some(text) = self.ledger.failure_text() {
                self.progress.failure(&Failure::new(None, text));
            }
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

    /// Whether no further step may begin.
    fn is_stopped(&self) -> bool {
        self.failing.load(Ordering::SeqCst) || self.is_cut_off()
    }

    /// Whether the run ends for another reason than a failed step.
    fn is_cut_off(&self) -> bool {
        self.task.cancellation.is_set() || self.progress.is_broken() || self.ledger.is_broken()
    }

    /// Records a failed step, which ends the run unless the user chose otherwise.
    fn fail(&self) -> Halted {
        if !self.task.continue_on_error {
            self.failing.store(true, Ordering::SeqCst);
        }
        Halted
    }

    /// Reports targets that do not exist. Returns whether all of them do.
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

    fn prior_state(&self) -> PriorState {
        PriorState::new(
            self.ledger
                .read_snapshot(|snapshot| snapshot.records().map(Arc::clone).collect()),
        )
    }
}

/// The state before a phase of a run, with its resources by name.
pub(crate) struct PriorState {
    records: Vec<Arc<Record>>,
    live: HashMap<Urn, usize>,
}

impl PriorState {
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

/// Reports the operations that an earlier run did not finish. Returns those to keep in the state:
/// creates whose resources may exist.
fn report_pending(task: &Task<'_>, progress: &Progress<'_>, pending: Vec<Pending>) -> Vec<Pending> {
    if !pending.is_empty() && !task.preview {
        progress.warning(&Failure::new(None, interrupted_warning(&pending)));
    }
    let lasting = |pending: &Pending| {
        pending.kind == "creating" && task.registry.is_outside(&pending.record.resource.kind)
    };
    pending.into_iter().filter(lasting).collect()
}

fn interrupted_warning(pending: &[Pending]) -> String {
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
