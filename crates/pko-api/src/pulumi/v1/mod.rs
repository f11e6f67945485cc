//! `pulumi.com/v1`: [`Stack`] and [`Program`].

mod config;
mod program;
mod resource_ref;
mod source;
mod stack;
mod status;
mod template;

pub use config::ConfigMapRef;
pub use program::{
    Artifact, ConfigParameter, CustomTimeouts, GetResource, Program, ProgramBody, ProgramStatus,
    PulumiRequirement, Resource, ResourceOptions,
};
pub use resource_ref::{
    EnvironmentSelector, FileSelector, KeySelector, LiteralSelector, ResourceRef, ResourceRefType,
};
pub use source::{
    BasicAuth, FluxSource, FluxSourceReference, GitAuth, GitHubAppAuth, ProgramReference, SshAuth,
};
pub use stack::{
    OutputsKind, OutputsTarget, Prerequisite, ReclaimPolicy, Requirement, Stack, StackSpec,
};
pub use status::{CurrentUpdate, LastUpdate, ReferencesStatus, StackStatus, UpdateState};
pub use template::{UpdateTemplate, WorkspaceTemplate};
