//! What flags and variables come to, as types.

/// How a log line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogEncoding {
    /// One JSON object.
    Json,
    /// Columns with tabs between them.
    Console,
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLevel {
    /// Everything.
    Trace,
    /// Also how it happens.
    Debug,
    /// What happens.
    Info,
    /// What went wrong.
    Error,
    /// Panics, which are errors here: they are caught.
    Panic,
}

impl LogLevel {
    /// As a filter of `tracing`.
    pub(super) fn filter(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Error | Self::Panic => "error",
        }
    }
}

/// How a log line's time is written.
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

/// What workspace pods are made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodSettings {
    /// The image that has the agent.
    pub(crate) agent_image: String,
    /// When a node fetches it, in Kubernetes' own spelling.
    pub(crate) agent_image_pull_policy: &'static str,
    /// How large a fetched archive may become, as it was given: the agent reads it.
    pub(crate) max_untar_size: Option<String>,
}
