//! Types of settings.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogEncoding {
    /// One JSON object.
    Json,
    /// Columns, separated by tabs.
    Console,
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeEncoding {
    /// Seconds since 1970, with a fraction.
    Epoch,
    /// Milliseconds since 1970, with a fraction.
    Millis,
    /// Nanoseconds since 1970.
    Nanos,
    /// `2026-01-02T03:04:05.678Z`
    Iso8601,
    /// `2026-01-02T03:04:05Z`
    Rfc3339,
    /// `2026-01-02T03:04:05.678901234Z`
    Rfc3339Nano,
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
