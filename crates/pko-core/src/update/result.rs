//! [`RunOutcome`]: the result of a run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pko_api::{auto::v1alpha1::ProjectInfo, names::failures::FailureClass};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunOutcome {
    pub succeeded: bool,
    /// The reason of the failure, for a condition.
    pub reason: Option<String>,
    /// The kind of the failure, if it is known.
    pub class: Option<FailureClass>,
    /// The error or the summary.
    pub message: String,
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    /// The run's page in Pulumi Cloud.
    pub permalink: Option<String>,
    pub project: Option<ProjectInfo>,
    /// The outputs after `up`, or the planned outputs of a preview.
    pub outputs: BTreeMap<String, StackOutput>,
    /// Why the outputs were dropped, if they were.
    pub omitted_outputs: Option<String>,
    /// The number of resources by operation (`create`, `update`, …).
    pub changes: BTreeMap<String, i32>,
    /// The output of the CLI.
    pub printed: String,
    /// Further actions, each as a part of a sentence.
    pub notes: Vec<String>,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct StackOutput {
    /// The value as JSON.
    pub json: Vec<u8>,
    pub secret: bool,
}

impl std::fmt::Debug for StackOutput {
    /// Hides the value, which may be a secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Output")
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}
