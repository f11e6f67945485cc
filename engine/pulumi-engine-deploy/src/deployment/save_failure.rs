//! A save of the state that failed, and what became of the state.

use std::{collections::BTreeSet, fmt};

use crate::plan::snapshot::StateToSave;

/// How many resources an error lists.
const MOST_LISTED: usize = 50;

/// The first failed save of a run.
#[derive(Debug)]
pub(super) struct SaveFailure {
    pub(super) error: anyhow::Error,
    pub(super) end: FailureEnd,
}

/// What became of the state.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FailureEnd {
    /// It is still to be saved.
    Unsaved,
    /// A later save succeeded.
    Saved,
    /// It is in a local file, which the sentence names.
    Rescued(String),
    /// It is nowhere. `resources` exist and are not in the backend's state.
    Lost {
        error: String,
        resources: Vec<String>,
    },
}

impl SaveFailure {
    pub(super) fn new(error: anyhow::Error) -> Self {
        let end = FailureEnd::Unsaved;
        Self { error, end }
    }

    pub(super) fn text(&self) -> String {
        format!("{}: {:#}", self.end, self.error)
    }
}

impl fmt::Display for FailureEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsaved => formatter.write_str("the run was stopped because its state could not be saved"),
            Self::Saved => formatter.write_str(
                "the run was stopped because its state could not be saved; a later attempt succeeded, so the state is complete",
            ),
            Self::Rescued(place) => write!(
                formatter,
                "the run was stopped because its state could not be saved; {place}"
            ),
            Self::Lost { error, resources } => {
                write!(
                    formatter,
                    "the run was stopped because its state could not be saved, neither in the backend nor in a local file ({error})"
                )?;
                list(formatter, resources)
            }
        }
    }
}

fn list(formatter: &mut fmt::Formatter<'_>, resources: &[String]) -> fmt::Result {
    if resources.is_empty() {
        return Ok(());
    }
    let more = match resources.len().saturating_sub(MOST_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed: Vec<_> = resources.iter().take(MOST_LISTED).cloned().collect();
    write!(
        formatter,
        "; these resources exist and are not in the stack's state, `pulumi import` adds them: {}{more}",
        listed.join(", ")
    )
}

/// The resources that exist outside and are only in the newer state, as `URN (ID)`.
pub(super) fn missing_resources(stored: &StateToSave, unsaved: &StateToSave) -> Vec<String> {
    let key = |resource: &pulumi_engine_model::resource::Resource| {
        (resource.urn.to_string(), resource.id.clone())
    };
    let known: BTreeSet<_> = stored
        .records
        .iter()
        .map(|record| key(&record.resource))
        .collect();
    let new = unsaved
        .records
        .iter()
        .map(|record| &record.resource)
        .filter(|resource| resource.custom && !resource.is_provider() && !resource.id.is_empty());
    new.map(key)
        .filter(|key| !known.contains(key))
        .map(|(urn, id)| format!("{urn} ({id})"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn save_failure_lists_some_lost_resources() {
        let lost = |count: usize| {
            let resources = (0..count).map(|number| format!("r{number} (id)")).collect();
            let error = "disk full".to_owned();
            FailureEnd::Lost { error, resources }.to_string()
        };
        assert!(lost(0).ends_with("(disk full)"));
        assert!(lost(2).ends_with("adds them: r0 (id), r1 (id)"));
        assert!(lost(MOST_LISTED + 3).ends_with("r49 (id) and 3 more"));
    }
}
