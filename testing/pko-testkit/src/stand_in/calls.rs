//! What the stand-in was told, and what became of it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// In the stand-in's folder: a [`Note`] in each line.
pub const RECORD: &str = "calls.jsonl";

/// One line of the record. Each is written as it happens, so that a process that is killed has said what it
/// could.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum Note {
    /// A call began.
    Began {
        /// Tells it from all others.
        call: String,
        /// Its process.
        process: u32,
        /// Without the program itself.
        arguments: Vec<String>,
        /// Where it runs.
        folder: PathBuf,
        /// Of the variables that the script asks for, those that are set.
        variables: BTreeMap<String, String>,
        /// When.
        at: Timestamp,
    },
    /// It read its standard input.
    Input {
        /// Which one.
        call: String,
        /// To the end.
        text: String,
    },
    /// It was sent a signal.
    Signal {
        /// Which one.
        call: String,
        /// Its number.
        signal: i32,
    },
    /// It ended by itself.
    Ended {
        /// Which one.
        call: String,
        /// Its exit code.
        code: i32,
        /// When.
        at: Timestamp,
    },
}

/// One call of the stand-in.
#[derive(Debug, Clone)]
pub struct Call {
    /// Without the program itself.
    pub arguments: Vec<String>,
    /// Where it ran.
    pub folder: PathBuf,
    /// Its process.
    pub process: u32,
    /// Of the variables that the script asks for, those that were set.
    pub variables: BTreeMap<String, String>,
    /// Its standard input, if it read it.
    pub input: Option<String>,
    /// The signals that it was sent.
    pub signals: Vec<i32>,
    /// Its exit code, if it has ended by itself.
    pub code: Option<i32>,
    /// When it began.
    pub began: Timestamp,
    /// When it ended by itself.
    pub ended: Option<Timestamp>,
}

impl Call {
    /// Whether it is a call of this command, such as `up` or `stack select`.
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

    /// All of it in one line.
    #[must_use]
    pub fn line(&self) -> String {
        self.arguments.join(" ")
    }

    /// The command as people say it: its first two words without global flags.
    #[must_use]
    pub fn short(&self) -> String {
        self.words().take(2).collect::<Vec<_>>().join(" ")
    }
}

/// Puts the notes together; a line that is being written does not count yet.
pub(super) fn read(record: &Path) -> Vec<Call> {
    let text = fs::read_to_string(record).unwrap_or_default();
    let notes = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut calls: Vec<(String, Call)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for note in notes {
        if let Some((id, call)) = began(&note) {
            places.insert(id.clone(), calls.len());
            calls.push((id, call));
        }
        let place = places.get(id(&note)).copied();
        if let Some((_, call)) = place.and_then(|place| calls.get_mut(place)) {
            add(call, note);
        }
    }
    calls.into_iter().map(|(_, call)| call).collect()
}

fn id(note: &Note) -> &str {
    match note {
        Note::Began { call, .. }
        | Note::Input { call, .. }
        | Note::Signal { call, .. }
        | Note::Ended { call, .. } => call,
    }
}

fn began(note: &Note) -> Option<(String, Call)> {
    let Note::Began {
        call,
        process,
        arguments,
        folder,
        variables,
        at,
    } = note
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

fn add(call: &mut Call, note: Note) {
    match note {
        Note::Began { .. } => {}
        Note::Input { text, .. } => call.input = Some(text),
        Note::Signal { signal, .. } => call.signals.push(signal),
        Note::Ended { code, at, .. } => {
            call.code = Some(code);
            call.ended = Some(at);
        }
    }
}
