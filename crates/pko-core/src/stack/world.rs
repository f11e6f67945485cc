//! What is known of a Stack, what can be asked, and what can be done.

use std::collections::BTreeMap;

use pko_api::{
    Stack, Update, Workspace,
    auto::v1alpha1::{FluxArtifact, ProjectInfo},
    names::events::StackEvent,
    pulumi::v1::StackStatus,
};
use serde_json::Value;

use crate::{Class, Known};

/// What is known of a Stack.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The object.
    pub stack: Stack,
    /// The Update that `status.currentUpdate` names; nothing if a live read did not find it.
    pub current_update: Known<Option<Update>>,
    /// The outputs of that Update, secret ones masked.
    pub outputs: Known<Outputs>,
    /// Where the program is.
    pub source: Known<Result<Source, Class>>,
    /// The Workspace after it was applied.
    pub workspace: Known<Result<Workspace, Class>>,
}

/// A stack's outputs as its status shows them.
pub type Outputs = BTreeMap<String, Value>;

/// A program, at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A commit, an artifact's revision, a Program's generation; empty where there is none.
    pub revision: String,
    /// How a workspace gets it.
    pub location: Location,
}

/// How a workspace gets a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// It fetches an archive.
    Artifact(FluxArtifact),
    /// It needs none: a destroy works on the state alone.
    Project(ProjectInfo),
    /// It has one already.
    Given,
}

/// What can be asked about a Stack.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// The Update of this name; absence is believed from a live read only.
    CurrentUpdate(String),
    /// The outputs in the Secret of this name.
    Outputs(String),
    /// The archive of the Program of this name.
    Program(String),
    /// The Workspace, applied as it is here. The status is published first unless it is stored already, so
    /// that a user sees what is waited for.
    ApplyWorkspace(Box<Workspace>, Box<StackStatus>),
}

/// What can be done for a Stack.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Adds the finalizer, and nothing else.
    AddFinalizer,
    /// Removes the finalizer: the Stack goes.
    RemoveFinalizer,
    /// Writes the status.
    PatchStatus(Box<StackStatus>),
    /// Creates an Update. If that fails, the status goes back to `undo`.
    CreateUpdate {
        /// The Update.
        update: Box<Update>,
        /// The status without it.
        undo: Box<StackStatus>,
    },
    /// Removes our finalizer from an Update whose result is recorded; one that is gone or free is left alone.
    ReleaseUpdate(String),
    /// Deletes the Workspace, if there is one.
    DeleteWorkspace,
    /// Tells the user. Where an event can't be written, nothing else is held up.
    Emit(Event),
}

/// An event on the Stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its reason.
    pub reason: StackEvent,
    /// Its text.
    pub message: String,
    /// It is a warning.
    pub warning: bool,
}

/// An answer to a [`Question`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Question::CurrentUpdate`].
    CurrentUpdate(Option<Box<Update>>),
    /// To [`Question::Outputs`].
    Outputs(Outputs),
    /// To [`Question::Outputs`]: a live read did not find the Secret. The outputs stay as they were; a Stack
    /// does not wait for what nobody will make again.
    NoOutputs,
    /// To [`Question::Program`].
    Source(Result<Source, Class>),
    /// To [`Question::ApplyWorkspace`].
    Workspace(Result<Box<Workspace>, Class>),
}

impl World {
    /// A world in which only the Stack is known.
    #[must_use]
    pub fn new(stack: Stack) -> Self {
        Self {
            stack,
            current_update: Known::Unknown,
            outputs: Known::Unknown,
            source: Known::Unknown,
            workspace: Known::Unknown,
        }
    }

    /// Takes in an answer.
    pub fn learn(&mut self, answer: Answer) {
        match answer {
            Answer::CurrentUpdate(update) => {
                self.current_update = Known::Known(update.map(|update| *update));
            }
            Answer::Outputs(outputs) => self.outputs = Known::Known(outputs),
            Answer::NoOutputs => {
                let status = self.stack.status.as_ref();
                let before = status.and_then(|status| status.outputs.clone());
                self.outputs = Known::Known(before.unwrap_or_default());
            }
            Answer::Source(source) => self.source = Known::Known(source),
            Answer::Workspace(workspace) => {
                self.workspace = Known::Known(workspace.map(|workspace| *workspace));
            }
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

    /// The value of the request annotation; empty where there is none.
    #[must_use]
    pub fn request(&self) -> &str {
        let annotations = self.stack.metadata.annotations.as_ref();
        let key = pko_api::names::annotations::RECONCILIATION_REQUEST;
        annotations
            .and_then(|annotations| annotations.get(key))
            .map_or("", String::as_str)
    }

    /// Whether a destroy is owed before the Stack may go.
    #[must_use]
    pub fn owes_destroy(&self) -> bool {
        let spec = &self.stack.spec;
        spec.destroy_on_finalize.unwrap_or(false) && !spec.preview.unwrap_or(false)
    }
}
