//! Where a program comes from: what the Stack says, what was found there, and how a workspace gets it. Pure.

mod flux;
mod flux_groups;
mod git;
mod login;
mod program;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use pko_api::{
    Stack,
    auto::v1alpha1::{FluxArtifact, GitSource, ProjectInfo, WorkspaceSpec},
};

pub use flux::{Artifact, FluxSourceRef, flux_source};
pub use flux_groups::{FluxSourceGroups, InvalidFluxSourceGroups};
pub use git::{GitRevision, GitSourceRef, git_source};
pub use login::{GitLogin, SecretKey, keys as git_keys};
pub use program::{is_behind, program_source};

/// What a Stack says of where its program is.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceRef {
    /// A git repository.
    Git(Box<GitSourceRef>),
    /// An object in the same namespace that has an artifact, as Flux's sources have.
    Flux(Box<FluxSourceRef>),
    /// A Program of this name in the same namespace.
    Program(String),
}

impl SourceRef {
    /// What the spec says; nothing if the workspace's own template brings the program. Of several sources the first
    /// counts: git, then Flux, then a Program.
    ///
    /// # Errors
    /// What the spec says can't be followed, and what to do about it.
    pub fn of(stack: &Stack) -> Result<Option<Self>, String> {
        let spec = &stack.spec;
        if git::is_present(spec) {
            let wanted = git::wanted(stack)?;
            return Ok(Some(Self::Git(Box::new(wanted))));
        }
        if let Some(source) = &spec.flux_source {
            let wanted = flux::wanted(source)?;
            return Ok(Some(Self::Flux(Box::new(wanted))));
        }
        let program = spec.program_ref.as_ref();
        Ok(program.map(|program| Self::Program(program.name.clone())))
    }
}

/// A program, at a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramSource {
    /// A commit, an artifact's revision, a Program's generation; empty where there is none.
    pub revision: String,
    /// How a workspace gets it.
    pub location: Location,
}

/// How a workspace gets a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// It fetches a commit.
    Git(Box<GitSource>),
    /// It fetches an archive.
    Artifact(FluxArtifact),
    /// It needs none: a destroy works on the state alone.
    Project(ProjectInfo),
    /// It has one already.
    Given,
}

impl Location {
    /// How a Workspace gets the program that it has.
    pub(super) fn of(workspace: &WorkspaceSpec) -> Self {
        let git = workspace.git.clone();
        let git = git.map(|git| Self::Git(Box::new(git)));
        let artifact = || workspace.flux.clone().map(Self::Artifact);
        let project = || workspace.project_info.clone().map(Self::Project);
        let named = git.or_else(artifact).or_else(project);
        named.unwrap_or(Self::Given)
    }
}

/// Why there is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceError {
    /// The user has to change the Stack, or something that it names: a Secret, an address.
    Invalid(String),
    /// It is not there, or not what it should be, and may come to be.
    Unavailable(String),
    /// Nobody answers, since then. That may pass, and what was deployed before is still true.
    Unreachable {
        /// Since when.
        since: Timestamp,
        /// What was heard.
        message: String,
    },
    /// It will be known in a moment.
    Pending(String),
}

/// A text that says something: upstream takes an empty one for none.
fn present(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}
