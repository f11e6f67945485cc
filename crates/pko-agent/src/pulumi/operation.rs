//! The four operations, and what upstream calls them in its texts.

use pko_proto::{
    agent::{DestroyRequest, PreviewRequest, RefreshRequest, UpRequest},
    run::start_run_request,
};

/// An operation with its options.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Preview(PreviewRequest),
    Up(UpRequest),
    Refresh(RefreshRequest),
    Destroy(DestroyRequest),
}

impl Operation {
    /// What a failed run's text begins with.
    pub(crate) fn failed(&self) -> &'static str {
        match self {
            Self::Preview(_) => "preview failed",
            Self::Up(_) => "up failed",
            Self::Refresh(_) => "refresh failed",
            Self::Destroy(_) => "destroy failed",
        }
    }

    /// What the text of a failed process begins with.
    pub(crate) fn failed_process(&self) -> &'static str {
        match self {
            Self::Preview(_) => "failed to run preview",
            Self::Up(_) => "failed to run update",
            Self::Refresh(_) => "failed to refresh stack",
            Self::Destroy(_) => "failed to destroy stack",
        }
    }

    /// What the caller says that it is for.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Preview(options) => options.message(),
            Self::Up(options) => options.message(),
            Self::Refresh(options) => options.message(),
            Self::Destroy(options) => options.message(),
        }
    }

    /// The stack is to be removed after its resources.
    pub(crate) fn removes_stack(&self) -> bool {
        matches!(self, Self::Destroy(options) if options.remove())
    }
}

impl From<start_run_request::Operation> for Operation {
    fn from(operation: start_run_request::Operation) -> Self {
        match operation {
            start_run_request::Operation::Preview(options) => Self::Preview(options),
            start_run_request::Operation::Up(options) => Self::Up(options),
            start_run_request::Operation::Refresh(options) => Self::Refresh(options),
            start_run_request::Operation::Destroy(options) => Self::Destroy(options),
        }
    }
}
