//! A stage for the engine: a state in memory, and a record of what it did.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::Value;

use crate::{
    audience::Audience,
    display::Display,
    engine::{self, Ending, Start, Task, Work, World, cancellation::Cancellation, ledger::Keeper},
    event_log::EventLog,
    plan::{
        Changes, Selection,
        snapshot::{Held, Pending, Record},
    },
    program::{evaluate::Surroundings, files::InMemory},
    property::{Properties, Property},
    provider::{builtin::Answers, registry::Registry},
    resource::Resource,
    schedule::locked,
    urn::{StackIdentity, Urn},
};
use pulumi_yaml::{parse, syntax};

pub(super) const STASH: &str = "type: 'pulumi:index:Stash', properties";

/// What a run starts from and how it goes.
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
        }
    }
}

/// What came of a run.
pub(super) struct Done {
    pub(super) ending: Ending,
    pub(super) changes: Changes,
    /// Steps as they began, and errors and warnings, in words.
    pub(super) words: Vec<String>,
    /// Every state that was saved, the last of them the final one.
    pub(super) saves: Vec<Held>,
    pub(super) state: Vec<Resource>,
    pub(super) outputs: Properties,
}

impl Done {
    pub(super) fn find(&self, name: &str) -> &Resource {
        let mut all = self.state.iter();
        all.find(|resource| resource.urn.name() == name).unwrap()
    }
}

struct Memory(Arc<Mutex<Vec<Held>>>);

impl Keeper for Memory {
    fn keep(&mut self, state: &Held, _: bool) -> anyhow::Result<()> {
        in_order(state);
        locked(&self.0).push(state.clone());
        Ok(())
    }
}

/// At each moment every resource must stand after all it refers to.
fn in_order(state: &Held) {
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
struct Little {
    ids: AtomicUsize,
}

impl Answers for Little {
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

impl World for Little {
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

    pub(super) fn up(&self, text: &str) -> Done {
        let program = parse::parse(&syntax::parse(text).unwrap(), &[]).unwrap();
        let (stack, secret) = (identity(), Property::String("c".into()).into_secret());
        let config = BTreeMap::from([
            ("open".to_owned(), Property::String("o".into())),
            ("closed".to_owned(), secret),
        ]);
        self.run(Work::Program {
            program: &program,
            surroundings: &Surroundings {
                stack: &stack,
                config: &config,
                working_directory: "/program",
                root_directory: "/project",
                files: &InMemory::default(),
            },
            refresh: self.refresh,
        })
    }

    pub(super) fn refresh(&self) -> Done {
        self.run(Work::Refresh)
    }

    pub(super) fn destroy(&self) -> Done {
        self.run(Work::Destroy { refresh: false })
    }

    fn run(&self, work: Work<'_>) -> Done {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut audience = Audience {
            events: EventLog::open(log.path().to_str(), self.preview).unwrap(),
            display: Display::silent(),
            muted: false,
        };
        let (stack, world) = (identity(), Little::default());
        world.ids.store(self.state.len(), Ordering::SeqCst);
        let task = Task {
            stack: &stack,
            selection: &self.selection,
            preview: self.preview,
            parallel: self.parallel,
            continue_on_error: self.continue_on_error,
            step_delay: Duration::ZERO,
            cancellation: &self.cancellation,
            registry: &self.registry,
            world: &world,
            package_config: &|_| self.config.clone(),
            explain: &|failure| failure.diagnostic.message.clone(),
            abandon: &|| {},
        };
        let start = Start {
            records: self.state.iter().cloned().map(Record::new).collect(),
            pending: self.pending.clone(),
        };
        let saves = Arc::new(Mutex::new(Vec::new()));
        let mut memory = Memory(Arc::clone(&saves));
        let keeper = (!self.preview).then_some(&mut memory as &mut dyn Keeper);
        let outcome = engine::run(&task, work, start, keeper, &mut audience).unwrap();
        let events = std::fs::read_to_string(log.path()).unwrap();
        let saves = locked(&saves).clone();
        let state = saves.last().map(resources).unwrap_or_default();
        Done {
            ending: outcome.ending,
            changes: outcome.changes,
            words: words(&events),
            outputs: outputs(&events, &state),
            saves,
            state,
        }
    }
}

pub(super) fn resources(state: &Held) -> Vec<Resource> {
    let all = state.records.iter();
    all.map(|record| record.resource.clone()).collect()
}

/// Steps as they begin, and what is told of them.
fn words(events: &str) -> Vec<String> {
    let of_event = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        if let Some(step) = event.get("resourcePreEvent") {
            let urn = Urn::new(step["metadata"]["urn"].as_str().unwrap());
            let operation = step["metadata"]["op"].as_str().unwrap();
            return Some(format!("{operation} {}", urn.name()));
        }
        let told = event.get("diagnosticEvent")?;
        let severity = told["severity"].as_str().unwrap();
        let message = told["message"].as_str().unwrap().trim_end();
        Some(format!("{severity}: {message}"))
    };
    events.lines().filter_map(of_event).collect()
}

/// Outputs of the stack; those of a preview are in its events alone.
fn outputs(events: &str, state: &[Resource]) -> Properties {
    if let Some(stack) = state.first() {
        return stack.outputs.clone().unwrap_or_default();
    }
    let mut found = Properties::new();
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let metadata = &event["resOutputsEvent"]["metadata"];
        if metadata["type"] == "pulumi:pulumi:Stack"
            && let Property::Object(outputs) =
                Property::from_json(metadata["new"]["outputs"].clone())
        {
            found = outputs;
        }
    }
    found
}
