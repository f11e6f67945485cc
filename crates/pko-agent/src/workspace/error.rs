use std::io;

use pko_proto::run::ErrorClass;

use super::config_plan::ConfigError;
use crate::pulumi::{CliFailure, ProjectError, version::VersionError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceError {
    #[error("invalid stack name")]
    InvalidStackName,
    #[error("stack not found")]
    StackNotFound,
    #[error("no stack is selected")]
    NoStackSelected,
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Cli(#[from] CliFailure),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error("AddEnvironments requires Pulumi CLI version >= 3.95.0")]
    NoEnvironments,
    #[error("failed to receive the events of pulumi")]
    EventSink(#[source] io::Error),
    #[error("failed to store the stack's secrets provider")]
    SecretsProvider(#[source] io::Error),
    #[error("failed to restore the stack's configuration file")]
    ConfigFile(#[source] io::Error),
    #[error("{what}: failed to parse the CLI's output")]
    Output {
        what: &'static str,
        source: serde_json::Error,
    },
}

impl WorkspaceError {
    pub(crate) fn class(&self) -> ErrorClass {
        match self {
            Self::Cli(failure) => failure.class(),
            Self::ConfigFile(_)
            | Self::EventSink(_)
            | Self::SecretsProvider(_)
            | Self::Output { .. } => ErrorClass::Transient,
            _ => ErrorClass::Configuration,
        }
    }

    /// The failed call of the CLI, if that is the cause.
    pub(crate) fn failure(&self) -> Option<&CliFailure> {
        match self {
            Self::Cli(failure) => Some(failure),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> String {
        error_chain(self)
    }
}

/// An error with its causes.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
