//! Records the calls of the stand-in.

use std::{
    collections::BTreeMap,
    env,
    fs::{File, OpenOptions},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    process,
};

use jiff::Timestamp;
use pko_testkit::stand_in::{CallEvent, RECORD};

use crate::cli_error::CliResult;

/// Writes notes of one call.
#[derive(Debug, Clone)]
pub(crate) struct CallRecorder {
    folder: PathBuf,
    call: String,
}

impl CallRecorder {
    pub(crate) fn begin(
        folder: &Path,
        arguments: &[String],
        variables: &[String],
    ) -> CliResult<Self> {
        let at = Timestamp::now();
        let recorder = Self {
            folder: folder.to_owned(),
            call: format!("{}-{}", process::id(), at.as_nanosecond()),
        };
        let value = |name: &String| Some((name.clone(), env::var(name).ok()?));
        let variables: BTreeMap<_, _> = variables.iter().filter_map(value).collect();
        recorder.write(&CallEvent::Began {
            call: recorder.call.clone(),
            process: process::id(),
            arguments: arguments.to_vec(),
            folder: env::current_dir()?,
            variables,
            at,
        })?;
        Ok(recorder)
    }

    pub(crate) fn input(&self, text: &str) -> CliResult<()> {
        let (call, text) = (self.call.clone(), text.to_owned());
        self.write(&CallEvent::Input { call, text })
    }

    pub(crate) fn signal(&self, signal: i32) -> CliResult<()> {
        let call = self.call.clone();
        self.write(&CallEvent::Signal { call, signal })
    }

    pub(crate) fn end(&self, code: i32) -> CliResult<()> {
        let (call, at) = (self.call.clone(), Timestamp::now());
        self.write(&CallEvent::Ended { call, code, at })
    }

    /// Which call of its command this is for a rule, counted from one.
    pub(crate) fn count(&self, rule: usize) -> CliResult<u64> {
        let path = self.folder.join(format!("count-{rule}"));
        let mut file = open(&path)?;
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let count = text.parse().unwrap_or(0) + 1;
        file.rewind()?;
        write!(file, "{count}")?;
        Ok(count)
    }

    /// One write for each line, so that lines of several processes do not mix.
    fn write(&self, note: &CallEvent) -> CliResult<()> {
        let mut line = serde_json::to_vec(note)?;
        line.push(b'\n');
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .append(true)
            .open(self.folder.join(RECORD))?;
        file.write_all(&line)?;
        Ok(())
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
}
