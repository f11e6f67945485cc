//! How a call can end other than well.

use std::io::{self, Write};

/// Something is wrong with the stand-in itself, not with what it was told.
pub(crate) type Problem = Box<dyn std::error::Error + Send + Sync>;

pub(crate) type Outcome<T> = Result<T, Problem>;

/// Pulumi refuses: a text on standard error and a code. It is an error so that `?` passes it on.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: i32,
    text: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// As the CLI prints its errors.
    pub(crate) fn new(code: i32, text: impl std::fmt::Display) -> Self {
        Self {
            code,
            text: format!("error: {text}\n"),
        }
    }

    /// Says it; its code.
    pub(crate) fn tell(&self) -> i32 {
        complain(self.text.as_bytes());
        self.code
    }

    /// A refusal as such, for a caller that has other errors too.
    pub(crate) fn problem<T>(code: i32, text: impl std::fmt::Display) -> Outcome<T> {
        Err(Box::new(Self::new(code, text)))
    }
}

/// To standard output. Nobody may be there to read it, which is no reason to end.
pub(crate) fn print(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// To standard error.
pub(crate) fn complain(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}
