//! The history of a stack: one file per run, and a copy of the state after it.

use std::{collections::BTreeMap, io};

use jiff::Timestamp;
use pulumi_engine_model::urn::StackIdentity;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{backend::Backend, bucket::BucketError};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
) -> Result<(), BucketError> {
    let now = Timestamp::now().as_nanosecond();
    let name = format!("{}/{}-{now}", folder(stack), stack.name);
    let content = serde_json::to_vec(record).map_err(io::Error::from)?;
    let bucket = backend.bucket();
    bucket.write(&format!("{name}.history.json"), &content)?;
    bucket.write(&format!("{name}.checkpoint.json"), checkpoint)
}

/// Some of the runs, latest first.
pub fn read(
    backend: &Backend,
    stack: &StackIdentity,
    skip: usize,
    count: usize,
) -> Result<Vec<Record>, BucketError> {
    let keys = backend.bucket().list(&folder(stack), ".history.json")?;
    let mut records = Vec::new();
    for key in keys.iter().rev().skip(skip).take(count) {
        // skips files that are removed meanwhile
        if let Some(content) = backend.bucket().read(key)? {
            records.push(serde_json::from_slice(&content).map_err(io::Error::from)?);
        }
    }
    Ok(records)
}

/// Removes all runs.
pub fn remove(backend: &Backend, stack: &StackIdentity) -> Result<(), BucketError> {
    backend.bucket().remove_folder(&folder(stack))
}

/// Formats a Unix time.
#[must_use]
pub fn printed_time(seconds: i64) -> Value {
    Timestamp::from_second(seconds).map_or(Value::Null, |time| json!(format!("{time:.3}")))
}

fn folder(stack: &StackIdentity) -> String {
    format!(".pulumi/history/{}/{}", stack.project, stack.name)
}
