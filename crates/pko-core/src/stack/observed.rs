//! The observed state of a Stack, its requests and its effects.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pko_api::{
    Stack, Update, Workspace,
    auto::v1alpha1::OperationType,
    names::events::StackEvent,
    pulumi::v1::{StackSpec, StackStatus},
};
use serde_json::Value;

use super::{
    shown_outputs::ShownOutputs,
    source::{ProgramSource, SourceError, SourceRef},
};
use crate::{Event, Fact};

/// The facts about a Stack.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedStack {
    /// Shared, because each decision copies the observed state, and a Stack may be large.
    pub stack: Arc<Stack>,
    /// The Update that `status.currentUpdate` names, unless a live read did not find it.
    pub current_update: Fact<Option<Update>>,
    /// The outputs of that Update, without secret values.
    pub outputs: Fact<ShownOutputs>,
    /// The result of writing these outputs to the targets of `spec.outputsTo`.
    pub published: Fact<Result<(), String>>,
    /// The program's location and revision.
    pub source: Fact<Result<ProgramSource, SourceError>>,
    pub config_maps: Fact<Versions>,
    pub secrets: Fact<Versions>,
    pub prerequisites: Fact<Prerequisites>,
    /// The Workspace that a deletion finds before it applies one.
    pub existing_workspace: Fact<Option<Workspace>>,
    /// The Workspace after it was applied.
    pub workspace: Fact<Result<Workspace, Refusal>>,
    /// Whether the next Update was created.
    pub created: Fact<Result<(), Refusal>>,
    /// Updates of this Stack that, according to the cache, still have our finalizer and are not
    /// current.
    pub unreleased: Vec<String>,
    pub settings: StackSettings,
}

/// A stack's outputs as its status shows them.
pub type StackOutputs = BTreeMap<String, Value>;

/// The Stacks that prerequisites lead to, by name, or the error of the API server.
pub type Prerequisites = BTreeMap<String, Result<Stack, String>>;

/// The versions of objects by their names; none for an object that does not exist.
pub type Versions = BTreeMap<String, Option<String>>;

/// The operator's settings for Stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSettings {
    /// Secrets are watched, so a change of a Secret starts a run at once, not only with the next
    /// one.
    pub watches_secrets: bool,
}

/// Why the API server rejected an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// The object is invalid, or another field manager owns a part of it. A retry alone does not
    /// help.
    Invalid(String),
    /// Any other error, which may be transient.
    Failed(String),
}

/// A request for a fact. It changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum StackRead {
    /// The Update of this name. Only a live read proves that it does not exist.
    CurrentUpdate(String),
    /// The outputs in the Secret of this name.
    Outputs(String),
    /// The program's location and revision.
    Source(SourceRef),
    /// The versions of ConfigMaps, from the cache.
    ConfigMaps(BTreeSet<String>),
    /// The versions of Secrets, from the API server unless Secrets are watched.
    Secrets(BTreeSet<String>),
    /// The Stacks that prerequisites lead to.
    Prerequisites,
    /// The stored Workspace of this name. Only a live read proves that it does not exist.
    ExistingWorkspace(String),
}

/// A change whose response the rules need.
#[derive(Clone, Debug, PartialEq)]
pub enum StackWrite {
    /// Writes the outputs in the Secret of this name, if the update has one, to the targets of
    /// `spec.outputsTo`.
    PublishOutputs(Option<String>),
    /// Applies the Workspace. Publishes the status first unless it is stored already, so that users
    /// see what the Stack waits for. Writes nothing if the Workspace is already applied and ready.
    ApplyWorkspace(Box<Workspace>, Box<StackStatus>),
    /// Creates the Update. Publishes the status, which names it, first. After a crash in between
    /// the Update is created again under the same name, so no run starts twice.
    CreateUpdate(Box<Update>, Box<StackStatus>),
}

/// A change that ends a pass.
#[derive(Clone, Debug, PartialEq)]
pub enum StackEffect {
    AddFinalizer,
    RemoveFinalizer,
    PatchStatus(Box<StackStatus>),
    /// Removes our finalizer, if it is present, from an Update whose result is recorded.
    ReleaseUpdate(String),
    /// Deletes an Update that has our finalizer: its controller cancels it, and its result is
    /// recorded like any other.
    DeleteUpdate(String),
    /// Deletes the Workspace, if there is one.
    DeleteWorkspace,
    /// Requests a run of a prerequisite, with this value of the request annotation.
    RequestPrerequisite {
        stack: Box<Stack>,
        value: String,
    },
    /// Deletes the finished Updates beyond the limits of the spec.
    PruneUpdates,
    /// Emits an event. A failure to do so blocks nothing else.
    Emit(Event<StackEvent>),
}

/// A response to a [`StackRead`] or a [`StackWrite`].
#[derive(Clone, Debug, PartialEq)]
pub enum StackResponse {
    /// To [`StackRead::CurrentUpdate`].
    CurrentUpdate(Option<Box<Update>>),
    /// To [`StackRead::Outputs`].
    Outputs(ShownOutputs),
    /// To [`StackRead::Outputs`]: a live read did not find the Secret. The outputs stay as they
    /// were, because nothing creates that Secret again.
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
    /// The observed state before any read.
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

    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.stack.metadata.deletion_timestamp.is_some()
    }

    #[must_use]
    pub fn generation(&self) -> i64 {
        self.stack.metadata.generation.unwrap_or_default()
    }

    /// The value of the request annotations; empty without one.
    #[must_use]
    pub fn request(&self) -> Cow<'_, str> {
        request(&self.stack)
    }

    /// Whether a deletion needs a destroy, according to the stored status.
    #[must_use]
    pub fn needs_destroy(&self) -> bool {
        let stored = self.stack.status.as_ref();
        stored.map_or_else(
            || needs_destroy(&self.stack.spec, &StackStatus::default()),
            |status| needs_destroy(&self.stack.spec, status),
        )
    }

    /// Whether the Stack is deleted in the foreground: the garbage collector deletes everything
    /// that it owns first. Objects that are created from then on must not have it as owner.
    #[must_use]
    pub fn is_deleted_in_foreground(&self) -> bool {
        let finalizers = self.stack.metadata.finalizers.as_ref();
        let has_it = finalizers.is_some_and(|names| names.iter().any(|name| name == FOREGROUND));
        has_it && self.is_deleting()
    }

    /// The Workspace in which the next Update runs: the applied one, or the one that a deletion has
    /// found.
    pub(super) fn workspace_of_run(&self) -> Option<&Workspace> {
        match (&self.workspace, &self.existing_workspace) {
            (Fact::Known(applied), _) => applied.as_ref().ok(),
            (Fact::Unknown, Fact::Known(existing)) => existing.as_ref(),
            (Fact::Unknown, Fact::Unknown) => None,
        }
    }

    /// Whether the spec limits the number of finished Updates.
    pub(super) fn limits_history(&self) -> bool {
        let spec = &self.stack.spec;
        spec.successful_updates_history_limit.is_some()
            || spec.failed_updates_history_limit.is_some()
    }
}

/// Whether a deletion needs a destroy. A Stack that only previews needs one if it certainly applied
/// an update before: the same stack may belong to another Stack.
pub(super) fn needs_destroy(spec: &StackSpec, status: &StackStatus) -> bool {
    let is_enabled = spec.destroy_on_finalize.unwrap_or(false);
    is_enabled && (!spec.preview.unwrap_or(false) || was_certainly_applied(status))
}

/// Whether an update ran, as far as the status proves it.
pub(super) fn was_certainly_applied(status: &StackStatus) -> bool {
    let last = status.last_update.as_ref();
    let by_upstream = || {
        status.outputs.is_some()
            || last.is_some_and(|last| last.operation == Some(OperationType::Up))
    };
    status.applied.unwrap_or_else(by_upstream)
}

/// The garbage collector's own finalizer.
const FOREGROUND: &str = "foregroundDeletion";

/// The request in a Stack's annotations, ours, Flux's or both. A change of either is a new request.
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
