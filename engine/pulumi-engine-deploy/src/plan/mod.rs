//! Decisions, steps and snapshots of a run, without I/O.
//!
//! [`crate::deployment`] calls providers, decides here, and performs the steps.

pub(crate) mod decision;
pub(crate) mod deletion;
pub mod path;
pub mod snapshot;

use std::collections::BTreeMap;

use pulumi_engine_model::{resource::Resource, urn::Urn};
use pulumi_yaml::Diagnostic;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Create,
    CreateReplacement,
    Delete,
    DeleteReplaced,
    Discard,
    DiscardReplaced,
    Import,
    ImportReplacement,
    Read,
    ReadReplacement,
    Refresh,
    RemovePendingReplace,
    Replace,
    Same,
    Update,
}

impl Operation {
    /// The word in event logs and histories.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::CreateReplacement => "create-replacement",
            Self::Delete => "delete",
            Self::DeleteReplaced => "delete-replaced",
            Self::Discard => "discard",
            Self::DiscardReplaced => "discard-replaced",
            Self::Import => "import",
            Self::ImportReplacement => "import-replacement",
            Self::Read => "read",
            Self::ReadReplacement => "read-replacement",
            Self::Refresh => "refresh",
            Self::RemovePendingReplace => "remove-pending-replace",
            Self::Replace => "replace",
            Self::Same => "same",
            Self::Update => "update",
        }
    }

    /// How it is counted, if at all: parts of a replacement count once, reads not.
    #[must_use]
    pub fn counted(self) -> Option<Self> {
        match self {
            Self::Read | Self::Refresh => None,
            other => Some(other).filter(|other| other.is_logical()),
        }
    }

    /// The name of its pending operation, if it has one.
    #[must_use]
    pub fn pending(self) -> Option<&'static str> {
        match self {
            Self::Create | Self::CreateReplacement => Some("creating"),
            Self::Update => Some("updating"),
            Self::Delete | Self::DeleteReplaced => Some("deleting"),
            Self::Read | Self::ReadReplacement => Some("reading"),
            Self::Import | Self::ImportReplacement => Some("importing"),
            _ => None,
        }
    }

    /// Whether it is not just a part of a replacement.
    #[must_use]
    pub fn is_logical(self) -> bool {
        !matches!(
            self,
            Self::CreateReplacement
                | Self::DeleteReplaced
                | Self::DiscardReplaced
                | Self::ImportReplacement
                | Self::ReadReplacement
                | Self::Refresh
                | Self::RemovePendingReplace
        )
    }
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub operation: Operation,
    /// To which resource.
    pub urn: Urn,
    /// The resource before.
    pub old: Option<Resource>,
    /// The resource after.
    pub new: Option<Resource>,
    /// Inputs that differ.
    pub differences: Vec<String>,
    /// Inputs that make it a replacement.
    pub replace_keys: Vec<String>,
    /// Whether it deletes a resource before its replacement is created.
    pub makes_room: bool,
    /// The result of a refresh: same, update or delete.
    pub found: Operation,
}

impl Step {
    /// A step without differences.
    #[must_use]
    pub fn new(operation: Operation, old: Option<Resource>, new: Option<Resource>) -> Self {
        let urn = new
            .as_ref()
            .or(old.as_ref())
            .map(|resource| resource.urn.clone())
            .unwrap_or_default();
        Self {
            operation,
            urn,
            old,
            new,
            differences: Vec::new(),
            replace_keys: Vec::new(),
            makes_room: false,
            found: Operation::Same,
        }
    }

    /// The new resource, or the old one of a deletion.
    #[must_use]
    pub fn resource(&self) -> Option<&Resource> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// An error about a resource or the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The resource.
    pub urn: Option<Urn>,
    pub diagnostic: Diagnostic,
}

impl Failure {
    /// A failure of the run as a whole, or of one resource, without a place in the program.
    #[must_use]
    pub fn new(urn: Option<Urn>, message: impl Into<String>) -> Self {
        let diagnostic = Diagnostic {
            line: None,
            ..Diagnostic::error(0, message)
        };
        Self { urn, diagnostic }
    }
}

/// How many resources saw which operation.
pub type Changes = BTreeMap<&'static str, usize>;

/// Counts a step that was done.
pub fn count(changes: &mut Changes, step: &Step) {
    let provider = step.resource().is_some_and(Resource::is_default_provider);
    let operation = match step.operation {
        Operation::Refresh => Some(step.found).filter(|found| *found != Operation::Refresh),
        other => other.counted(),
    };
    if let Some(operation) = operation.filter(|_| !provider) {
        *changes.entry(operation.name()).or_default() += 1;
    }
}

/// Which resources a run is limited to.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// URNs given with `--target`; none means all.
    pub targets: Vec<Urn>,
    /// Whether dependents of targets are included.
    pub dependents: bool,
    /// URNs given with `--replace`.
    pub replace: Vec<Urn>,
    /// URNs that are left alone.
    pub exclude: Vec<Urn>,
    /// Whether resources stay that the program no longer has.
    pub keeps_gone: bool,
}

impl Selection {
    /// Whether it includes a resource.
    #[must_use]
    pub fn includes(&self, urn: &Urn) -> bool {
        if listed(&self.exclude, urn) {
            return false;
        }
        self.targets.is_empty() || listed(&self.targets, urn) || listed(&self.replace, urn)
    }

    /// Those of a list that name one resource, and none that is known.
    pub fn unknown(list: &[Urn], known: impl Fn(&Urn) -> bool) -> impl Iterator<Item = &Urn> {
        let literal = |urn: &&Urn| !urn.as_str().contains('*');
        list.iter().filter(literal).filter(move |urn| !known(urn))
    }

    /// Whether a resource must be replaced.
    #[must_use]
    pub fn replaces(&self, urn: &Urn) -> bool {
        listed(&self.replace, urn)
    }
}

/// Whether a URN is in a list of URNs and patterns.
#[must_use]
pub fn listed(list: &[Urn], urn: &Urn) -> bool {
    list.iter()
        .any(|pattern| pattern == urn || matches(pattern.as_str(), urn.as_str()))
}

/// Patterns as Pulumi has them: `*` is anything within a part of a URN, `**` anything at all.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(before) else {
        return false;
    };
    let (after, beyond_parts) = match after.strip_prefix('*') {
        Some(after) => (after, true),
        None => (after, false),
    };
    let end = if beyond_parts {
        rest.len()
    } else {
        rest.find(':').unwrap_or(rest.len())
    };
    let ends = rest.char_indices().map(|(end, _)| end).chain([rest.len()]);
    ends.take_while(|position| *position <= end)
        .any(|position| matches(after, rest.get(position..).unwrap_or_default()))
}
