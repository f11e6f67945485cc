//! Errors and warnings about a program.

use crate::syntax::Position;

/// An error or a warning about a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// The message.
    pub message: String,
    /// Where it is in the program.
    pub line: Option<Position>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The run goes on.
    Warning,
    /// The run fails.
    Error,
}

impl Diagnostic {
    /// An error at a line.
    #[must_use]
    pub fn error(line: impl Into<Position>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            line: Some(line.into()),
        }
    }

    /// A warning at a line.
    #[must_use]
    pub fn warning(line: impl Into<Position>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            message: message.into(),
            line: Some(line.into()),
        }
    }

    /// Whether the run fails.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
