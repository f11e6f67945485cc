//! The source of a program: what the Stack refers to, what is there, and how a workspace gets it.

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

/// The source that a Stack refers to.
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
    /// The source in the spec; none if the Workspace's template has the program. Of several sources
    /// the first one counts: git, then Flux, then a Program.
    ///
    /// # Errors
    /// The reference is invalid.
    pub fn of(stack: &Stack) -> Result<Option<Self>, String> {
        let spec = &stack.spec;
        if git::is_present(spec) {
            let git = git::source_ref(stack)?;
            return Ok(Some(Self::Git(Box::new(git))));
        }
        if let Some(source) = &spec.flux_source {
            let flux = flux::source_ref(source)?;
            return Ok(Some(Self::Flux(Box::new(flux))));
        }
        let program = spec.program_ref.as_ref();
        Ok(program.map(|program| Self::Program(program.name.clone())))
    }
}

/// A program, at a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramSource {
    /// A commit, an artifact's revision or a Program's generation; empty without one.
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
    /// It needs none, because a destroy works on the state alone.
    Project(ProjectInfo),
    /// Its template has one.
    Given,
}

impl Location {
    /// How a Workspace gets its program.
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
    /// The user has to change the Stack, or an object that it refers to.
    Invalid(String),
    /// The source does not exist or is not usable, which may change.
    Unavailable(String),
    /// The source does not respond. What was deployed before stays valid.
    Unreachable { since: Timestamp, message: String },
    /// The source is being read.
    Pending(String),
}

/// The text, unless it is empty: upstream ignores an empty one.
fn present(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}
