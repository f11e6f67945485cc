//! Types of settings.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLevel {
    Trace,
    Debug,
    Info,
    Error,
    /// Panics are caught, and logged as errors.
    Panic,
}

impl LogLevel {
    pub(super) fn filter(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Error | Self::Panic => "error",
        }
    }
}

/// For the agents of workspace pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentImageSettings {
    pub(crate) agent_image: String,
    /// In the spelling of Kubernetes.
    pub(crate) agent_image_pull_policy: &'static str,
    /// The maximum size of a fetched archive, which the agent parses.
    pub(crate) max_untar_size: Option<String>,
}
