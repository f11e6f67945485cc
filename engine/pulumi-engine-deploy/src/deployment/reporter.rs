//! Receives what a run reports.

use std::io;

use pulumi_engine_model::urn::Urn;

use crate::plan::Step;

/// The kind of a message about a resource or the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageSeverity {
    /// What a provider waits for. It is replaced by the next one.
    Status,
    Warning,
    Error,
}

/// Receives the steps and messages of a run, one at a time.
pub trait Reporter: Send {
    fn is_preview(&self) -> bool;

    fn before_step(&mut self, step: &Step) -> io::Result<()>;

    fn after_step(&mut self, step: &Step) -> io::Result<()>;

    fn step_failed(&mut self, step: &Step) -> io::Result<()>;

    /// A message about a resource, or about the run.
    fn message(
        &mut self,
        urn: Option<&Urn>,
        severity: MessageSeverity,
        text: &str,
    ) -> io::Result<()>;
}
