//! Who is told of a run: those that read its events, and the person at the screen.

use std::io;

use serde_json::{Map, Value};

use crate::{
    display::{Display, Severity},
    event_log::EventLog,
    plan::{Changes, Step},
    urn::Urn,
};

/// Tells both the same.
pub struct Audience {
    /// For programs.
    pub events: EventLog,
    /// For people.
    pub display: Display,
    /// Whether steps are kept from both; what goes wrong is told in any case.
    pub muted: bool,
}

impl Audience {
    /// The run begins.
    pub fn title(
        &mut self,
        title: &str,
        stack: &str,
        config: &Map<String, Value>,
    ) -> io::Result<()> {
        self.display.title(title, stack, config)?;
        self.events.prelude(config)
    }

    /// Whether it is a preview that is told of.
    #[must_use]
    pub fn is_preview(&self) -> bool {
        self.events.is_preview()
    }

    /// A step begins.
    pub fn before(&mut self, step: &Step) -> io::Result<()> {
        if self.muted {
            return Ok(());
        }
        self.events.before(step)?;
        self.display.before(step)
    }

    /// A step is done.
    pub fn after(&mut self, step: &Step) -> io::Result<()> {
        if self.muted {
            return Ok(());
        }
        self.events.after(step)?;
        self.display.after(step)
    }

    /// A step could not be done.
    pub fn failed(&mut self, step: &Step) -> io::Result<()> {
        if self.muted {
            return Ok(());
        }
        self.events.failed(step)?;
        self.display.failed(step)
    }

    /// Something is said about a resource, or about the run.
    pub fn said(&mut self, urn: Option<&Urn>, severity: Severity, text: &str) -> io::Result<()> {
        let word = match severity {
            Severity::Status => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        self.events.diagnostic(urn, word, text)?;
        self.display.said(urn, severity, text)
    }

    /// The run is over.
    pub fn summary(&mut self, seconds: u64, changes: &Changes, result: &str) -> io::Result<()> {
        self.display.summary(changes, seconds)?;
        self.events.summary(seconds, changes, result)
    }
}
