//! The fields of an event or a span as JSON, in the order in which they are recorded.

use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};

/// Names are unique.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    /// Sets a field. An existing one keeps its position.
    fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, current)) => *current = value,
            None => self.0.push((name, value)),
        }
    }

    /// Adds other fields, which replace those of the same name.
    pub(crate) fn extend(&mut self, others: Self) {
        for (name, value) in others.0 {
            self.set(name, value);
        }
    }

    /// Removes the field that holds the event's message.
    pub(crate) fn take_message(&mut self) -> String {
        let index = self.0.iter().position(|(name, _)| *name == "message");
        match index.map(|index| self.0.remove(index).1) {
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.0.iter()
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field.name(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), value.into());
    }
}
