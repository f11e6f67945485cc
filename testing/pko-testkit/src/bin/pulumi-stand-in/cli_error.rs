//! Errors of the CLI that the stand-in imitates, and of the stand-in itself.

use std::io::{self, Write};

/// An error of the stand-in itself, not of the imitated CLI.
pub(crate) type InternalError = Box<dyn std::error::Error + Send + Sync>;

pub(crate) type CliResult<T> = Result<T, InternalError>;

/// An error of the imitated CLI: text on standard error and an exit code.
#[derive(Debug)]
pub(crate) struct CliError {
    code: i32,
    text: String,
}

impl std::fmt::Display for CliError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for CliError {}

impl CliError {
    /// As the CLI prints its errors.
    pub(crate) fn new(code: i32, text: impl std::fmt::Display) -> Self {
        Self {
            code,
            text: format!("error: {text}\n"),
        }
    }

    pub(crate) fn print(&self) -> i32 {
        print_error(self.text.as_bytes());
        self.code
    }

    pub(crate) fn result<T>(code: i32, text: impl std::fmt::Display) -> CliResult<T> {
        Err(Box::new(Self::new(code, text)))
    }
}

/// Writes to standard output, ignoring a closed pipe.
pub(crate) fn print(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

pub(crate) fn print_error(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}
