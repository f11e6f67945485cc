//! Reports a run to the event log and on the screen.

use std::io;

use pulumi_engine_deploy::{
    deployment::reporter::{MessageSeverity, Reporter},
    plan::{Changes, Step},
};
use pulumi_engine_model::urn::Urn;
use serde_json::{Map, Value};

use crate::{display::Display, event_log::EventLog};

/// Reports to both.
pub(crate) struct OutputReporter {
    pub events: EventLog,
    pub display: Display,
    /// Suppresses steps, but not messages.
    pub muted: bool,
}

impl OutputReporter {
    /// The run begins.
    pub(crate) fn title(
        &mut self,
        title: &str,
        stack: &str,
        config: &Map<String, Value>,
    ) -> io::Result<()> {
        self.display.title(title, stack, config)?;
        self.events.prelude(config)
    }

    /// The run is over.
    pub(crate) fn summary(
        &mut self,
        seconds: u64,
        changes: &Changes,
        result: &str,
    ) -> io::Result<()> {
        self.display.summary(changes, seconds)?;
        self.events.summary(seconds, changes, result)
    }
}

impl Reporter for OutputReporter {
    fn is_preview(&self) -> bool {
        self.events.is_preview()
    }

    fn before_step(&mut self, step: &Step) -> io::Result<()> {
        if self.muted {
            return Ok(());
        }
        self.events.before(step)?;
        self.display.before(step)
    }

    fn after_step(&mut self, step: &Step) -> io::Result<()> {
        if self.muted {
            return Ok(());
        }
        self.events.after(step)?;
        self.display.after(step)
    }

    fn step_failed(&mut self, step: &Step) -> io::Result<()> {
        if self.muted {
            return Ok(());
        }
        self.events.failed(step)?;
        self.display.failed(step)
    }

    fn message(
        &mut self,
        urn: Option<&Urn>,
        severity: MessageSeverity,
        text: &str,
    ) -> io::Result<()> {
        let word = match severity {
            MessageSeverity::Status => "info",
            MessageSeverity::Warning => "warning",
            MessageSeverity::Error => "error",
        };
        self.events.diagnostic(urn, word, text)?;
        self.display.message(urn, severity, text)
    }
}
