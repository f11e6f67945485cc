//! Runs the engine with a state in memory, and records what it does.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use pulumi_engine_model::{
    property::{self, Properties, Property},
    resource::Resource,
    urn::{STACK_TYPE, StackIdentity, Urn},
};
use pulumi_engine_providers::{builtin::BuiltinHost, registry::Registry};
use pulumi_yaml::{parse, syntax};

use crate::{
    deployment::{
        self, DeploymentHost, Ending, InitialState, Task, Work,
        cancellation::Cancellation,
        ledger::StateSink,
        reporter::{MessageSeverity, Reporter},
    },
    plan::{
        Changes, Selection, Step,
        snapshot::{Pending, Record, StateToSave},
    },
    program::{evaluate::EvaluationContext, files::InMemory},
};

pub(super) const STASH: &str = "type: 'pulumi:index:Stash', properties";

/// The initial state and settings of a run.
#[derive(Clone)]
pub(super) struct Stage {
    pub(super) registry: Registry,
    pub(super) state: Vec<Resource>,
    pub(super) pending: Vec<Pending>,
    pub(super) selection: Selection,
    pub(super) preview: bool,
    pub(super) parallel: usize,
    pub(super) continue_on_error: bool,
    pub(super) refresh: bool,
    pub(super) cancellation: Cancellation,
    /// Config of every package.
    pub(super) config: Properties,
    /// The numbers of the attempts to save that fail.
    pub(super) failing_saves: Range<usize>,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            registry: Registry::new(&[]),
            state: Vec::new(),
            pending: Vec::new(),
            selection: Selection::default(),
            preview: false,
            parallel: 1,
            continue_on_error: false,
            refresh: false,
            cancellation: Cancellation::default(),
            config: Properties::new(),
            failing_saves: 0..0,
        }
    }
}

pub(super) struct RunResult {
    pub(super) ending: Ending,
    pub(super) changes: Changes,
    /// Steps as they began, and errors and warnings, in words.
    pub(super) words: Vec<String>,
    /// Every state that was saved, the last of them the final one.
    pub(super) saves: Vec<StateToSave>,
    pub(super) state: Vec<Resource>,
    pub(super) outputs: Properties,
    /// The error of a run whose state could not be saved, and the state that was rescued.
    pub(super) fault: Option<String>,
    pub(super) rescued: Option<StateToSave>,
}

impl RunResult {
    pub(super) fn find(&self, name: &str) -> &Resource {
        let mut all = self.state.iter();
        all.find(|resource| resource.urn.name() == name).unwrap()
    }
}

#[derive(Default)]
struct RecordingSink {
    saves: Vec<StateToSave>,
    attempts: usize,
    failing: Range<usize>,
    rescued: Option<StateToSave>,
}

impl StateSink for RecordingSink {
    fn save(&mut self, state: &StateToSave, _: bool) -> anyhow::Result<()> {
        in_order(state);
        self.attempts += 1;
        if self.failing.contains(&(self.attempts - 1)) {
            anyhow::bail!("no space left");
        }
        self.saves.push(state.clone());
        Ok(())
    }

    fn rescue(&mut self, state: &StateToSave) -> anyhow::Result<String> {
        in_order(state);
        self.rescued = Some(state.clone());
        Ok("it is rescued".to_owned())
    }
}

/// At each moment every resource must stand after all it refers to.
fn in_order(state: &StateToSave) {
    let mut seen = BTreeSet::new();
    for record in &state.records {
        for reference in record.resource.references() {
            assert!(
                seen.contains(reference),
                "{} stands before {reference}",
                record.resource.urn
            );
        }
        seen.insert(record.resource.urn.to_string());
    }
}

#[derive(Default)]
struct TestHost {
    ids: AtomicUsize,
}

impl BuiltinHost for TestHost {
    fn stack_outputs(&self, name: &str) -> Result<Properties, String> {
        match name {
            "base" => Ok(Properties::from([("x".to_owned(), Property::Bool(true))])),
            other => Err(format!("no stack named '{other}' found")),
        }
    }

    fn new_id(&self) -> String {
        format!("id-{}", self.ids.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

impl DeploymentHost for TestHost {
    fn now(&self) -> String {
        "now".to_owned()
    }
}

pub(super) fn identity() -> StackIdentity {
    StackIdentity {
        organization: "organization".into(),
        project: "demo".into(),
        name: "dev".into(),
    }
}

impl Stage {
    pub(super) fn from(state: &[Resource]) -> Self {
        Self {
            state: state.to_vec(),
            ..Self::default()
        }
    }

    pub(super) fn up(&self, text: &str) -> RunResult {
        let program = parse::parse(&syntax::parse(text).unwrap(), &[]).unwrap();
        let (stack, secret) = (identity(), Property::String("c".into()).into_secret());
        let config = BTreeMap::from([
            ("open".to_owned(), Property::String("o".into())),
            ("closed".to_owned(), secret),
        ]);
        self.run(Work::Program {
            program: &program,
            context: &EvaluationContext {
                stack: &stack,
                config: &config,
                working_directory: "/program",
                root_directory: "/project",
                files: &InMemory::default(),
            },
            refresh: self.refresh,
        })
    }

    pub(super) fn refresh(&self) -> RunResult {
        self.run(Work::Refresh)
    }

    pub(super) fn destroy(&self) -> RunResult {
        self.run(Work::Destroy { refresh: false })
    }

    fn run(&self, work: Work<'_>) -> RunResult {
        let mut recorder = Recorder {
            preview: self.preview,
            words: Vec::new(),
            outputs: Properties::new(),
        };
        let (stack, host) = (identity(), TestHost::default());
        host.ids.store(self.state.len(), Ordering::SeqCst);
        let task = Task {
            stack: &stack,
            selection: &self.selection,
            preview: self.preview,
            parallel: self.parallel,
            continue_on_error: self.continue_on_error,
            step_delay: Duration::ZERO,
            cancellation: &self.cancellation,
            registry: &self.registry,
            host: &host,
            package_config: &|_| self.config.clone(),
            explain: &|failure| failure.diagnostic.message.clone(),
            abandon: &|| {},
        };
        let start = InitialState {
            records: self.state.iter().cloned().map(Record::new).collect(),
            pending: self.pending.clone(),
        };
        let mut memory = RecordingSink {
            failing: self.failing_saves.clone(),
            ..RecordingSink::default()
        };
        let sink = (!self.preview).then_some(&mut memory as &mut dyn StateSink);
        let outcome = deployment::run(&task, work, start, sink, &mut recorder);
        let (ending, changes, fault) = match outcome {
            Ok(outcome) => (outcome.ending, outcome.changes, None),
            Err(error) => (Ending::Failed, Changes::new(), Some(format!("{error:#}"))),
        };
        assert!(
            fault.is_none() || !self.failing_saves.is_empty(),
            "{fault:?}"
        );
        let state = memory.saves.last().map(resources).unwrap_or_default();
        RunResult {
            ending,
            changes,
            words: recorder.words,
            outputs: match state.first() {
                Some(stack) => stack.outputs.clone().unwrap_or_default(),
                None => recorder.outputs,
            },
            saves: memory.saves,
            state,
            fault,
            rescued: memory.rescued,
        }
    }
}

pub(super) fn resources(state: &StateToSave) -> Vec<Resource> {
    let all = state.records.iter();
    all.map(|record| record.resource.clone()).collect()
}

/// Records steps as they begin, messages, and the outputs of the stack as events show them.
struct Recorder {
    preview: bool,
    words: Vec<String>,
    outputs: Properties,
}

impl Reporter for Recorder {
    fn is_preview(&self) -> bool {
        self.preview
    }

    fn before_step(&mut self, step: &Step) -> io::Result<()> {
        let words = format!("{} {}", step.operation.name(), step.urn.name());
        self.words.push(words);
        Ok(())
    }

    fn after_step(&mut self, step: &Step) -> io::Result<()> {
        if let Some(stack) = step
            .resource()
            .filter(|resource| resource.kind == STACK_TYPE)
            && let Some(outputs) = &stack.outputs
            && let Property::Object(outputs) = Property::from_json(property::blinded(outputs))
        {
            self.outputs = outputs;
        }
        Ok(())
    }

    fn step_failed(&mut self, _: &Step) -> io::Result<()> {
        Ok(())
    }

    fn message(
        &mut self,
        _: Option<&Urn>,
        severity: MessageSeverity,
        text: &str,
    ) -> io::Result<()> {
        let severity = match severity {
            MessageSeverity::Status => "info",
            MessageSeverity::Warning => "warning",
            MessageSeverity::Error => "error",
        };
        self.words.push(format!("{severity}: {}", text.trim_end()));
        Ok(())
    }
}
