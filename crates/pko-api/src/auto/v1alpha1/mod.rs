//! `auto.pulumi.com/v1alpha1`: [`Workspace`] and [`Update`].

mod update;
mod workspace;

pub use update::{OperationType, Update, UpdateSpec, UpdateStatus};
pub use workspace::{
    ConfigItem, ConfigValueFrom, FluxArtifact, GitSource, LocalSource, PodTemplate, ProjectInfo,
    SecurityProfile, ServiceTemplate, TemplateMetadata, Workspace, WorkspaceGitAuth,
    WorkspaceGitHubAppAuth, WorkspaceSpec, WorkspaceStack, WorkspaceStatus,
};
