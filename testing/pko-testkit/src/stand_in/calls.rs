//! The recorded calls of the stand-in.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The file with a [`CallEvent`] in each line, in the stand-in's folder.
pub const RECORD: &str = "calls.jsonl";

/// One line of the record. Each is written immediately, so that the record of a killed process is
/// complete up to its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum CallEvent {
    Began {
        call: String,
        process: u32,
        arguments: Vec<String>,
        folder: PathBuf,
        /// The recorded variables that are set.
        variables: BTreeMap<String, String>,
        at: Timestamp,
    },
    /// It has read its standard input.
    Input { call: String, text: String },
    /// It was sent a signal.
    Signal { call: String, signal: i32 },
    Ended {
        call: String,
        code: i32,
        at: Timestamp,
    },
}

/// One call of the stand-in.
#[derive(Debug, Clone)]
pub struct Call {
    pub arguments: Vec<String>,
    pub folder: PathBuf,
    pub process: u32,
    /// The recorded variables that were set.
    pub variables: BTreeMap<String, String>,
    /// Its standard input, if it read it.
    pub input: Option<String>,
    /// The signals that it was sent.
    pub signals: Vec<i32>,
    /// Its exit code, if it has ended by itself.
    pub code: Option<i32>,
    pub began: Timestamp,
    /// When it ended by itself.
    pub ended: Option<Timestamp>,
}

impl Call {
    /// True for calls of this command, such as `up` or `stack select`.
    #[must_use]
    pub fn is(&self, command: &str) -> bool {
        let mut words = self.words();
        command.split(' ').all(|word| words.next() == Some(word))
    }

    /// The first words, without global flags.
    fn words(&self) -> impl Iterator<Item = &str> {
        let words = self.arguments.iter().map(String::as_str);
        words.skip_while(|word| word.starts_with('-'))
    }

    /// All arguments in one line.
    #[must_use]
    pub fn line(&self) -> String {
        self.arguments.join(" ")
    }

    /// The first two words of the command, without global flags.
    #[must_use]
    pub fn short(&self) -> String {
        self.words().take(2).collect::<Vec<_>>().join(" ")
    }
}

/// Assembles the calls. An unfinished line is ignored.
pub(super) fn read(record: &Path) -> Vec<Call> {
    let text = fs::read_to_string(record).unwrap_or_default();
    let events = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut calls: Vec<(String, Call)> = Vec::new();
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    for event in events {
        if let Some((id, call)) = new_call(&event) {
            positions.insert(id.clone(), calls.len());
            calls.push((id, call));
        }
        let position = positions.get(id(&event)).copied();
        if let Some((_, call)) = position.and_then(|position| calls.get_mut(position)) {
            apply(call, event);
        }
    }
    calls.into_iter().map(|(_, call)| call).collect()
}

fn id(event: &CallEvent) -> &str {
    match event {
        CallEvent::Began { call, .. }
        | CallEvent::Input { call, .. }
        | CallEvent::Signal { call, .. }
        | CallEvent::Ended { call, .. } => call,
    }
}

fn new_call(event: &CallEvent) -> Option<(String, Call)> {
    let CallEvent::Began {
        call,
        process,
        arguments,
        folder,
        variables,
        at,
    } = event
    else {
        return None;
    };
    let begun = Call {
        arguments: arguments.clone(),
        folder: folder.clone(),
        process: *process,
        variables: variables.clone(),
        input: None,
        signals: Vec::new(),
        code: None,
        began: *at,
        ended: None,
    };
    Some((call.clone(), begun))
}

fn apply(call: &mut Call, event: CallEvent) {
    match event {
        CallEvent::Began { .. } => {}
        CallEvent::Input { text, .. } => call.input = Some(text),
        CallEvent::Signal { signal, .. } => call.signals.push(signal),
        CallEvent::Ended { code, at, .. } => {
            call.code = Some(code);
            call.ended = Some(at);
        }
    }
}
