//! Config that is nested deeper than a message to an agent can be.

use pko_api::Stack;
use serde_json::Value;

/// A parser of protobuf's messages gives up at a hundred of them within each other, and a level of
/// JSON takes three.
const MAX_CONFIG_DEPTH: usize = 30;

/// A config value that no agent can read.
pub(super) fn config(stack: &Stack) -> Option<String> {
    let mut config = stack.spec.config.iter();
    config.find_map(|(key, value)| {
        let levels = depth(value);
        (levels > MAX_CONFIG_DEPTH).then(|| {
            format!(
                "spec.config.{key} is nested {levels} levels deep and the limit is \
                 {MAX_CONFIG_DEPTH}: write it flatter, or as a string of JSON"
            )
        })
    })
}

/// Recursion ends: an object that decoded has a hundred levels at most.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
