//! Stack outputs, some of them secret.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(super) type Outputs = BTreeMap<String, Output>;

/// A value, secret or not as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Output {
    pub(super) value: Value,
    pub(super) secret: bool,
}

impl Output {
    pub(super) fn plain(value: Value) -> Self {
        let secret = false;
        Self { value, secret }
    }

    /// As an event has it.
    fn in_event(&self) -> Value {
        if self.secret {
            return json!({
                "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
                "ciphertext": "[secret]"
            });
        }
        self.value.clone()
    }

    fn printable(&self, show_secrets: bool) -> Value {
        if self.secret && !show_secrets {
            return Value::from("[secret]");
        }
        self.value.clone()
    }
}

pub(super) fn in_event(values: &Outputs) -> Map<String, Value> {
    let entries = values.iter();
    entries
        .map(|(name, output)| (name.clone(), output.in_event()))
        .collect()
}

pub(super) fn printable(values: &Outputs, show_secrets: bool) -> Map<String, Value> {
    let entries = values.iter();
    entries
        .map(|(name, output)| (name.clone(), output.printable(show_secrets)))
        .collect()
}
