//! A run's result, in the words of the decisions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pko_api::{auto::v1alpha1::ProjectInfo, names::failures::FailureClass};

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunOutcome {
    /// It did what it should.
    pub succeeded: bool,
    /// Why not, in one word; for a condition's reason.
    pub reason: Option<String>,
    /// What kind of failure it is, if that is known.
    pub class: Option<FailureClass>,
    /// What went wrong, or what the run had to say.
    pub message: String,
    /// When it began.
    pub start: Option<Timestamp>,
    /// When it ended.
    pub end: Option<Timestamp>,
    /// Where Pulumi Cloud shows it.
    pub permalink: Option<String>,
    /// The program's project.
    pub project: Option<ProjectInfo>,
    /// The stack's outputs after `up`, or what they would be after a preview.
    pub outputs: BTreeMap<String, StackOutput>,
    /// Why the outputs were dropped, if they were.
    pub omitted_outputs: Option<String>,
    /// How many resources were created, updated and so on.
    pub changes: BTreeMap<String, i32>,
    /// What the CLI printed.
    pub printed: String,
    /// What else was done, each as a part of a sentence.
    pub notes: Vec<String>,
}

/// An output of a stack.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StackOutput {
    /// Its value, as JSON.
    pub json: Vec<u8>,
    /// It is a secret.
    pub secret: bool,
}

impl std::fmt::Debug for StackOutput {
    /// Never the value: it may be a secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Output")
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}
