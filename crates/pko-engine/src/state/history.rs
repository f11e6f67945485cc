//! What was done to a stack: one file per run, and a copy of the state after it.

use std::{collections::BTreeMap, io, path::PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{backend::Backend, file};
use crate::urn::StackIdentity;

/// One run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields of Pulumi's history format")]
pub struct Record {
    pub kind: String,
    pub start_time: i64,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Config as in the stack's config file: secrets stay sealed.
    #[serde(default)]
    pub config: Map<String, Value>,
    #[serde(default)]
    pub version: u64,
    pub result: String,
    pub end_time: i64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_changes: BTreeMap<String, usize>,
}

/// Writes a run and the checkpoint it left.
pub fn add(
    backend: &Backend,
    stack: &StackIdentity,
    record: &Record,
    checkpoint: &[u8],
) -> io::Result<()> {
    let name = format!("{}-{}", stack.name, Timestamp::now().as_nanosecond());
    let directory = directory(backend, stack);
    let content = serde_json::to_vec(record).map_err(io::Error::from)?;
    file::write(&directory.join(format!("{name}.history.json")), &content)?;
    file::write(
        &directory.join(format!("{name}.checkpoint.json")),
        checkpoint,
    )
}

/// All runs, latest first.
pub fn read(backend: &Backend, stack: &StackIdentity) -> io::Result<Vec<Record>> {
    let mut paths = file::list(&directory(backend, stack), ".history.json")?;
    paths.reverse();
    paths
        .iter()
        .map(|path| {
            let content = std::fs::read(path)?;
            serde_json::from_slice(&content).map_err(io::Error::from)
        })
        .collect()
}

/// Forgets all runs.
pub fn remove(backend: &Backend, stack: &StackIdentity) -> io::Result<()> {
    match std::fs::remove_dir_all(directory(backend, stack)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Seconds since 1970 as history prints them.
#[must_use]
pub fn printed_time(seconds: i64) -> Value {
    Timestamp::from_second(seconds).map_or(Value::Null, |time| json!(format!("{time:.3}")))
}

fn directory(backend: &Backend, stack: &StackIdentity) -> PathBuf {
    backend
        .root()
        .join(".pulumi/history")
        .join(&stack.project)
        .join(&stack.name)
}
