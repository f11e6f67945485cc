//! What a test tells the stand-in to do.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// In the stand-in's folder: the [`Script`].
pub const SCRIPT: &str = "script.json";

/// The version that the stand-in says it is, unless the script says another: the one that the transcripts
/// are from.
const VERSION: &str = "3.259.0";

/// What to do at which command. Without a word about a command, the stand-in does what Pulumi does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    /// What `pulumi version` says, without the leading `v`.
    pub version: String,
    /// The variables whose values are recorded with each call.
    pub variables: Vec<String>,
    /// The first that fits counts.
    pub rules: Vec<Rule>,
}

/// What to do at one command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rule {
    /// Its first words, such as `up` or `stack select`.
    pub command: String,
    /// Only at this call of the command, counted from one.
    pub nth: Option<u64>,
    /// What then.
    pub answer: Answer,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            version: VERSION.to_owned(),
            variables: Vec::new(),
            rules: Vec::new(),
        }
    }
}

impl Script {
    /// Everything as Pulumi does it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says that it is another version.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// Records the value of a variable with each call.
    #[must_use]
    pub fn records(mut self, variable: &str) -> Self {
        self.variables.push(variable.to_owned());
        self
    }

    /// Gives this answer to a command.
    #[must_use]
    pub fn on(self, command: &str, answer: Answer) -> Self {
        self.rule(command, None, answer)
    }

    /// Gives this answer to the n-th call of a command, counted from one.
    #[must_use]
    pub fn on_call(self, command: &str, nth: u64, answer: Answer) -> Self {
        self.rule(command, Some(nth), answer)
    }

    fn rule(mut self, command: &str, nth: Option<u64>, answer: Answer) -> Self {
        self.rules.push(Rule {
            command: command.to_owned(),
            nth,
            answer,
        });
        self
    }
}

/// What to do at a call: the steps in their order, then exit code 0.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Answer {
    /// In their order.
    pub steps: Vec<Step>,
    /// What an interrupt does.
    pub interrupt: Interrupt,
    /// The event stream is never opened.
    pub without_events: bool,
}

/// One thing to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Writes to standard output.
    Print(Vec<u8>),
    /// Writes to standard error.
    Complain(Vec<u8>),
    /// Writes the value of a variable and a line end to standard output.
    PrintVariable(String),
    /// Emits an engine event as it is.
    Event(Value),
    /// Emits events with the numbers from 0 on, each with a message of so many bytes.
    Flood {
        /// How many.
        count: u64,
        /// The bytes of each message.
        size: usize,
    },
    /// Does nothing for so many milliseconds.
    Pause(u64),
    /// Does nothing until a file is in the stand-in's folder.
    WaitFor(String),
    /// Creates a file in the stand-in's folder.
    Create(String),
    /// Leaves a process behind that holds standard output and error open until a file is there.
    Grandchild(String),
    /// Does what Pulumi does, and ends if that failed.
    AsUsual,
    /// Ends with a code.
    Exit(i32),
    /// Ends by a signal.
    Die(i32),
}

/// What an interrupt does to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupt {
    /// It ends as a canceled operation of Pulumi does: a `cancelEvent`, `error: update canceled`, and a code.
    Obey {
        /// So many milliseconds later.
        after: u64,
        /// 1 in the version that the transcripts are from; 8 is the documented one.
        code: i32,
    },
    /// Nothing.
    Ignore,
    /// It ends by the signal, as a process does that has not thought of it.
    Die,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::Obey { after: 0, code: 1 }
    }
}

impl Answer {
    /// Nothing, and exit code 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One more step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Writes a text to standard output.
    #[must_use]
    pub fn prints(self, text: &str) -> Self {
        self.step(Step::Print(text.as_bytes().to_vec()))
    }

    /// Writes any bytes to standard output.
    #[must_use]
    pub fn prints_bytes(self, bytes: &[u8]) -> Self {
        self.step(Step::Print(bytes.to_vec()))
    }

    /// Writes a text to standard error.
    #[must_use]
    pub fn complains(self, text: &str) -> Self {
        self.step(Step::Complain(text.as_bytes().to_vec()))
    }

    /// Writes any bytes to standard error.
    #[must_use]
    pub fn complains_bytes(self, bytes: &[u8]) -> Self {
        self.step(Step::Complain(bytes.to_vec()))
    }

    /// Writes the value of a variable and a line end to standard output.
    #[must_use]
    pub fn prints_variable(self, name: &str) -> Self {
        self.step(Step::PrintVariable(name.to_owned()))
    }

    /// Emits an engine event as it is.
    #[must_use]
    pub fn event(self, event: Value) -> Self {
        self.step(Step::Event(event))
    }

    /// Emits many events, numbered from 0 on, each with a message of so many bytes.
    #[must_use]
    pub fn floods(self, count: u64, size: usize) -> Self {
        self.step(Step::Flood { count, size })
    }

    /// Does nothing for so many milliseconds.
    #[must_use]
    pub fn pauses(self, milliseconds: u64) -> Self {
        self.step(Step::Pause(milliseconds))
    }

    /// Does nothing until a file is in the stand-in's folder; see [`StandIn::create`](super::StandIn::create).
    #[must_use]
    pub fn waits_for(self, file: &str) -> Self {
        self.step(Step::WaitFor(file.to_owned()))
    }

    /// Creates a file in the stand-in's folder; see [`StandIn::has`](super::StandIn::has).
    #[must_use]
    pub fn creates(self, file: &str) -> Self {
        self.step(Step::Create(file.to_owned()))
    }

    /// Never ends by itself.
    #[must_use]
    pub fn hangs(self) -> Self {
        self.waits_for("a file that nobody makes")
    }

    /// Leaves a process behind that holds standard output and error open until a file is there.
    #[must_use]
    pub fn leaves_grandchild_until(self, file: &str) -> Self {
        self.step(Step::Grandchild(file.to_owned()))
    }

    /// Does what Pulumi does, and ends if that failed.
    #[must_use]
    pub fn as_usual(self) -> Self {
        self.step(Step::AsUsual)
    }

    /// Ends with a code.
    #[must_use]
    pub fn exits(self, code: i32) -> Self {
        self.step(Step::Exit(code))
    }

    /// Ends by a signal.
    #[must_use]
    pub fn dies(self, signal: i32) -> Self {
        self.step(Step::Die(signal))
    }

    /// Says what an interrupt does.
    #[must_use]
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Never opens the event stream.
    #[must_use]
    pub fn without_events(mut self) -> Self {
        self.without_events = true;
        self
    }
}
