//! What is known of a Stack, what can be asked, and what can be done.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pko_api::{
    Stack, Update, Workspace, auto::v1alpha1::OperationType, names::events::StackEvent,
    pulumi::v1::StackStatus,
};
use serde_json::Value;

use super::{
    shown_outputs::ShownOutputs,
    source::{ProgramSource, SourceError, SourceRef},
};
use crate::{Event, Fact};

/// What is known of a Stack.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedStack {
    /// The object. Shared, because each decision copies what is known, and users make it large.
    pub stack: Arc<Stack>,
    /// The Update that `status.currentUpdate` names; nothing if a live read did not find it.
    pub current_update: Fact<Option<Update>>,
    /// The outputs of that Update, secret ones masked.
    pub outputs: Fact<ShownOutputs>,
    /// Whether these outputs were written to where the spec wants them.
    pub published: Fact<Result<(), String>>,
    /// Where the program is.
    pub source: Fact<Result<ProgramSource, SourceError>>,
    /// The ConfigMaps that the spec refers to.
    pub config_maps: Fact<Versions>,
    /// The Secrets that the spec refers to.
    pub secrets: Fact<Versions>,
    /// The Stacks that come first.
    pub prerequisites: Fact<Prerequisites>,
    /// The Workspace that a deletion finds, before anything is applied.
    pub existing_workspace: Fact<Option<Workspace>>,
    /// The Workspace after it was applied.
    pub workspace: Fact<Result<Workspace, Refusal>>,
    /// Whether the next Update was created.
    pub created: Fact<Result<(), Refusal>>,
    /// Updates of this Stack that we hold still although they are not current, as far as the cache knows.
    pub unreleased: Vec<String>,
    /// What the operator was told.
    pub settings: StackSettings,
}

/// A stack's outputs as its status shows them.
pub type StackOutputs = BTreeMap<String, Value>;

/// The Stacks of the namespace that can be reached through prerequisites, by name; where there is none, what the API
/// server said.
pub type Prerequisites = BTreeMap<String, Result<Stack, String>>;

/// The versions of objects by their names; nothing for one that does not exist.
pub type Versions = BTreeMap<String, Option<String>>;

/// What the operator was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSettings {
    /// Secrets are watched: a change of one that a Stack refers to is noticed at once, not only at its next run.
    pub watches_secrets: bool,
}

/// Why the API server did not take an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// The object is not as it may be, or somebody else's in part: trying again alone does not help.
    Invalid(String),
    /// Anything else: it may pass.
    Failed(String),
}

/// What a Stack's rules can look up.
#[derive(Clone, Debug, PartialEq)]
pub enum StackRead {
    /// The Update of this name. Only a live read proves that it does not exist.
    CurrentUpdate(String),
    /// The outputs in the Secret of this name.
    Outputs(String),
    /// The program's location and revision.
    Source(SourceRef),
    /// The versions of ConfigMaps, which are watched.
    ConfigMaps(BTreeSet<String>),
    /// The versions of Secrets. The API server is asked for each of them unless Secrets are watched.
    Secrets(BTreeSet<String>),
    /// The Stacks that can be reached through prerequisites.
    Prerequisites,
    /// The stored Workspace of this name. Only a live read proves that it does not exist.
    ExistingWorkspace(String),
}

/// What a Stack's rules can change before they finish.
#[derive(Clone, Debug, PartialEq)]
pub enum StackWrite {
    /// Writes the outputs in the Secret of this name, if an update left some, to the targets of
    /// `spec.outputsTo`.
    PublishOutputs(Option<String>),
    /// Applies the Workspace. The status is published first unless it is stored already, so that users
    /// see what the Stack waits for. If the Workspace is already applied and ready, nothing is written.
    ApplyWorkspace(Box<Workspace>, Box<StackStatus>),
    /// Creates the Update. The status, which names it, is published first: after a crash in between,
    /// the Update is found missing and created again under the same name, so no run starts twice.
    CreateUpdate(Box<Update>, Box<StackStatus>),
}

/// What can be done for a Stack.
#[derive(Clone, Debug, PartialEq)]
pub enum StackEffect {
    /// Adds the finalizer, and nothing else.
    AddFinalizer,
    /// Removes the finalizer: the Stack goes.
    RemoveFinalizer,
    /// Writes the status.
    PatchStatus(Box<StackStatus>),
    /// Removes our finalizer from an Update whose result is recorded; one that is gone or free is left alone.
    ReleaseUpdate(String),
    /// Deletes an Update that is held by our finalizer: its controller cancels it, and its end is
    /// recorded as any other.
    DeleteUpdate(String),
    /// Deletes the Workspace, if there is one.
    DeleteWorkspace,
    /// Asks a Stack that comes first to run again, with this value of the request annotation.
    RequestPrerequisite {
        /// The Stack.
        stack: Box<Stack>,
        /// The value.
        value: String,
    },
    /// Deletes the Updates that ended and are more than the spec wants kept.
    PruneUpdates,
    /// Tells the user. Where an event can't be written, nothing else is held up.
    Emit(Event<StackEvent>),
}

/// A response to a [`StackRead`] or a [`StackWrite`].
#[derive(Clone, Debug, PartialEq)]
pub enum StackResponse {
    /// To [`StackRead::CurrentUpdate`].
    CurrentUpdate(Option<Box<Update>>),
    /// To [`StackRead::Outputs`].
    Outputs(ShownOutputs),
    /// To [`StackRead::Outputs`]: a live read did not find the Secret. The outputs stay as they were; a Stack
    /// does not wait for what nobody will make again.
    NoOutputs,
    /// To [`StackWrite::PublishOutputs`].
    Published(Result<(), String>),
    /// To [`StackRead::Source`].
    Source(Result<ProgramSource, SourceError>),
    /// To [`StackRead::ConfigMaps`].
    ConfigMaps(Versions),
    /// To [`StackRead::Secrets`].
    Secrets(Versions),
    /// To [`StackRead::Prerequisites`].
    Prerequisites(Prerequisites),
    /// To [`StackRead::ExistingWorkspace`].
    ExistingWorkspace(Option<Box<Workspace>>),
    /// To [`StackWrite::ApplyWorkspace`].
    Workspace(Result<Box<Workspace>, Refusal>),
    /// To [`StackWrite::CreateUpdate`].
    Created(Result<(), Refusal>),
}

impl ObservedStack {
    /// A world in which only the Stack is known.
    #[must_use]
    pub fn new(stack: Stack) -> Self {
        Self {
            stack: Arc::new(stack),
            current_update: Fact::Unknown,
            outputs: Fact::Unknown,
            published: Fact::Unknown,
            source: Fact::Unknown,
            config_maps: Fact::Unknown,
            secrets: Fact::Unknown,
            prerequisites: Fact::Unknown,
            existing_workspace: Fact::Unknown,
            workspace: Fact::Unknown,
            created: Fact::Unknown,
            unreleased: Vec::new(),
            settings: StackSettings::default(),
        }
    }

    /// Whether the Stack is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.stack.metadata.deletion_timestamp.is_some()
    }

    /// The generation that is being worked on.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.stack.metadata.generation.unwrap_or_default()
    }

    /// The request to run; empty where there is none.
    #[must_use]
    pub fn request(&self) -> Cow<'_, str> {
        request(&self.stack)
    }

    /// Whether a destroy is owed before the Stack may go. One that only shows what would change owes it for what an
    /// update made before, and only if that is certain: the same stack may be another Stack's to manage.
    #[must_use]
    pub fn needs_destroy(&self) -> bool {
        let spec = &self.stack.spec;
        let wanted = spec.destroy_on_finalize.unwrap_or(false);
        wanted && (!spec.preview.unwrap_or(false) || self.was_surely_applied())
    }

    /// Whether an update ran, as far as the stored status proves it.
    pub(super) fn was_surely_applied(&self) -> bool {
        let Some(status) = &self.stack.status else {
            return false;
        };
        let last = status.last_update.as_ref();
        let by_upstream = || {
            status.outputs.is_some()
                || last.is_some_and(|last| last.operation == Some(OperationType::Up))
        };
        status.applied.unwrap_or_else(by_upstream)
    }

    /// Whether whoever deleted the Stack wants everything that belongs to it gone before it goes. What is made for it from
    /// then on must not belong to it, or the garbage collector takes it away at once.
    #[must_use]
    pub fn is_deleted_in_foreground(&self) -> bool {
        let finalizers = self.stack.metadata.finalizers.as_ref();
        let held = finalizers.is_some_and(|names| names.iter().any(|name| name == FOREGROUND));
        held && self.is_deleting()
    }

    /// The Workspace in which the next Update runs: as it was applied, or as a deletion has found it.
    pub(super) fn workspace_of_run(&self) -> Option<&Workspace> {
        match (&self.workspace, &self.existing_workspace) {
            (Fact::Known(applied), _) => applied.as_ref().ok(),
            (Fact::Unknown, Fact::Known(existing)) => existing.as_ref(),
            (Fact::Unknown, Fact::Unknown) => None,
        }
    }

    /// Whether the spec says how many Updates are kept.
    pub(super) fn limits_history(&self) -> bool {
        let spec = &self.stack.spec;
        spec.successful_updates_history_limit.is_some()
            || spec.failed_updates_history_limit.is_some()
    }
}

/// The garbage collector's own finalizer.
const FOREGROUND: &str = "foregroundDeletion";

/// The request to run that a Stack's annotations make, ours or Flux's, or both: a change of either is a new request.
pub(super) fn request(stack: &Stack) -> Cow<'_, str> {
    use pko_api::names::annotations::{FLUX_REQUESTED_AT, RECONCILIATION_REQUEST};

    let annotations = stack.metadata.annotations.as_ref();
    let value = |key| {
        let value = annotations.and_then(|annotations| annotations.get(key));
        value.map(String::as_str).filter(|value| !value.is_empty())
    };
    match (value(RECONCILIATION_REQUEST), value(FLUX_REQUESTED_AT)) {
        (Some(ours), Some(flux)) => Cow::Owned(format!("{ours} {flux}")),
        (Some(only), None) | (None, Some(only)) => Cow::Borrowed(only),
        (None, None) => Cow::Borrowed(""),
    }
}
