//! [`FieldPath`]: the path of a field, which allocates nothing until it is printed.

use std::fmt;

use serde_json::Value;

#[derive(Clone, Copy)]
pub(super) struct FieldPath<'path> {
    parent: Option<&'path FieldPath<'path>>,
    step: FieldStep<'path>,
}

#[derive(Clone, Copy)]
enum FieldStep<'path> {
    Root,
    Field(&'path str),
    /// The item of a list with this value of its key.
    Item(&'static str, &'path Value),
}

impl<'path> FieldPath<'path> {
    pub(super) const ROOT: Self = Self {
        parent: None,
        step: FieldStep::Root,
    };

    pub(super) fn field(&'path self, name: &'path str) -> Self {
        Self {
            parent: Some(self),
            step: FieldStep::Field(name),
        }
    }

    pub(super) fn item(&'path self, key: &'static str, value: &'path Value) -> Self {
        Self {
            parent: Some(self),
            step: FieldStep::Item(key, value),
        }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        let is_first = self
            .parent
            .is_none_or(|parent| matches!(parent.step, FieldStep::Root));
        match self.step {
            FieldStep::Root => Ok(()),
            FieldStep::Field(name) if is_first => formatter.write_str(name),
            FieldStep::Field(name) => write!(formatter, ".{name}"),
            FieldStep::Item(key, Value::String(value)) => write!(formatter, "[{key}={value}]"),
            FieldStep::Item(key, value) => write!(formatter, "[{key}={value}]"),
        }
    }
}
