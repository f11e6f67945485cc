//! The script of a stand-in: replies to commands.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The file with the [`Script`], in the stand-in's folder.
pub const SCRIPT: &str = "script.json";

/// The default version: that of the transcripts.
const VERSION: &str = "3.259.0";

/// Replies to commands. Commands without a rule behave as in Pulumi.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    /// The output of `pulumi version`, without the leading `v`.
    pub version: String,
    /// The variables whose values are recorded with each call.
    pub variables: Vec<String>,
    /// The first matching rule applies.
    pub rules: Vec<ScriptRule>,
}

/// The reply to one command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScriptRule {
    /// Its first words, such as `up` or `stack select`.
    pub command: String,
    /// Only at this call of the command, counted from one.
    pub nth: Option<u64>,
    pub answer: Reply,
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
    /// A script without rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

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

    #[must_use]
    pub fn on(self, command: &str, answer: Reply) -> Self {
        self.rule(command, None, answer)
    }

    /// Replies to the n-th call of a command, counted from one.
    #[must_use]
    pub fn on_call(self, command: &str, nth: u64, answer: Reply) -> Self {
        self.rule(command, Some(nth), answer)
    }

    fn rule(mut self, command: &str, nth: Option<u64>, answer: Reply) -> Self {
        self.rules.push(ScriptRule {
            command: command.to_owned(),
            nth,
            answer,
        });
        self
    }
}

/// The reply to a call: steps in order, then exit code 0.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Reply {
    pub steps: Vec<ReplyStep>,
    pub interrupt: Interrupt,
    pub without_events: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyStep {
    Print(Vec<u8>),
    PrintError(Vec<u8>),
    /// Writes the value of a variable and a line end to standard output.
    PrintVariable(String),
    /// Emits an engine event.
    Event(Value),
    /// Emits events numbered from 0, each with a message of this size.
    Flood {
        count: u64,
        /// The bytes of each message.
        size: usize,
    },
    /// Sleeps for this many milliseconds.
    Pause(u64),
    /// Waits for a file in the stand-in's folder.
    WaitFor(String),
    /// Creates a file in the stand-in's folder.
    Create(String),
    /// Leaves a process behind that holds stdout and stderr open until a file exists.
    Grandchild(String),
    /// Behaves as Pulumi does, and exits if that fails.
    RunDefault,
    Exit(i32),
    Die(i32),
}

/// The effect of an interrupt on an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupt {
    /// Ends like a canceled operation of Pulumi: `cancelEvent`, `error: update canceled`, and an
    /// exit code.
    Obey {
        after: u64,
        /// 1 in the version of the transcripts; 8 is documented.
        code: i32,
    },
    Ignore,
    /// Ends by the signal, like a process without a handler.
    Die,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::Obey { after: 0, code: 1 }
    }
}

impl Reply {
    /// An empty reply with exit code 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn step(mut self, step: ReplyStep) -> Self {
        self.steps.push(step);
        self
    }

    /// Writes a text to standard output.
    #[must_use]
    pub fn prints(self, text: &str) -> Self {
        self.step(ReplyStep::Print(text.as_bytes().to_vec()))
    }

    /// Writes any bytes to standard output.
    #[must_use]
    pub fn prints_bytes(self, bytes: &[u8]) -> Self {
        self.step(ReplyStep::Print(bytes.to_vec()))
    }

    /// Writes a text to standard error.
    #[must_use]
    pub fn prints_error(self, text: &str) -> Self {
        self.step(ReplyStep::PrintError(text.as_bytes().to_vec()))
    }

    /// Writes any bytes to standard error.
    #[must_use]
    pub fn prints_error_bytes(self, bytes: &[u8]) -> Self {
        self.step(ReplyStep::PrintError(bytes.to_vec()))
    }

    /// Writes the value of a variable and a line end to standard output.
    #[must_use]
    pub fn prints_variable(self, name: &str) -> Self {
        self.step(ReplyStep::PrintVariable(name.to_owned()))
    }

    /// Emits an engine event.
    #[must_use]
    pub fn event(self, event: Value) -> Self {
        self.step(ReplyStep::Event(event))
    }

    /// Emits events numbered from 0, each with a message of this size.
    #[must_use]
    pub fn floods(self, count: u64, size: usize) -> Self {
        self.step(ReplyStep::Flood { count, size })
    }

    /// Sleeps for this many milliseconds.
    #[must_use]
    pub fn pauses(self, milliseconds: u64) -> Self {
        self.step(ReplyStep::Pause(milliseconds))
    }

    /// Waits for a file in the stand-in's folder; see [`StandIn::create`](super::StandIn::create).
    #[must_use]
    pub fn waits_for(self, file: &str) -> Self {
        self.step(ReplyStep::WaitFor(file.to_owned()))
    }

    /// Creates a file in the stand-in's folder; see [`StandIn::has`](super::StandIn::has).
    #[must_use]
    pub fn creates(self, file: &str) -> Self {
        self.step(ReplyStep::Create(file.to_owned()))
    }

    #[must_use]
    pub fn hangs(self) -> Self {
        self.waits_for("a file that is never created")
    }

    /// Leaves a process behind that holds stdout and stderr open until a file exists.
    #[must_use]
    pub fn leaves_grandchild_until(self, file: &str) -> Self {
        self.step(ReplyStep::Grandchild(file.to_owned()))
    }

    /// Behaves as Pulumi does, and exits if that fails.
    #[must_use]
    pub fn run_default(self) -> Self {
        self.step(ReplyStep::RunDefault)
    }

    #[must_use]
    pub fn exits(self, code: i32) -> Self {
        self.step(ReplyStep::Exit(code))
    }

    #[must_use]
    pub fn dies(self, signal: i32) -> Self {
        self.step(ReplyStep::Die(signal))
    }

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
