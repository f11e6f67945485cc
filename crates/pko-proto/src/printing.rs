//! What may be printed of messages that can hold a secret: never a value.

use std::fmt::{Debug, Formatter, Result};

use crate::{agent, run};

/// Replaces a value.
struct Hidden;

impl Debug for Hidden {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        formatter.write_str("[hidden]")
    }
}

impl Debug for agent::OutputValue {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        formatter
            .debug_struct("OutputValue")
            .field("value", &Hidden)
            .field("secret", &self.secret)
            .finish()
    }
}

impl Debug for agent::ConfigItem {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        formatter
            .debug_struct("ConfigItem")
            .field("key", &self.key)
            .field("path", &self.path)
            .field("v", &self.v)
            .field("secret", &self.secret)
            .finish()
    }
}

impl Debug for agent::config_item::V {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        match self {
            Self::Value(_) => formatter.debug_tuple("Value").field(&Hidden).finish(),
            Self::ValueFrom(from) => formatter.debug_tuple("ValueFrom").field(from).finish(),
        }
    }
}

impl Debug for run::RunResult {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        formatter
            .debug_struct("RunResult")
            .field("summary", &self.summary)
            .field("permalink", &self.permalink)
            .field("project_info", &self.project_info)
            .field("outputs", &self.outputs)
            .field("error", &self.error.as_ref().map(run::RunError::class))
            .field("resource_changes", &self.resource_changes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_debug_hides_values() {
        let canary = "canary-value";
        let output = agent::OutputValue {
            value: canary.into(),
            secret: true,
        };
        let item = agent::ConfigItem {
            key: "token".to_owned(),
            v: Some(agent::config_item::V::Value(canary.into())),
            ..Default::default()
        };
        let result = run::RunResult {
            stdout: canary.to_owned(),
            outputs: [("password".to_owned(), output)].into(),
            ..Default::default()
        };
        let printed = format!("{item:?} {result:?} {:?}", item.v);
        assert!(!printed.contains(canary), "{printed}");
        assert!(printed.contains("password") && printed.contains("token"));
    }
}
