//! The four operations, and their names in upstream's texts.

use pko_proto::{
    agent::{DestroyRequest, PreviewRequest, RefreshRequest, UpRequest},
    run::start_run_request,
};

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Preview(PreviewRequest),
    Up(UpRequest),
    Refresh(RefreshRequest),
    Destroy(DestroyRequest),
}

impl Operation {
    /// The beginning of a failed run's text.
    pub(crate) fn run_failure_prefix(&self) -> &'static str {
        match self {
            Self::Preview(_) => "preview failed",
            Self::Up(_) => "up failed",
            Self::Refresh(_) => "refresh failed",
            Self::Destroy(_) => "destroy failed",
        }
    }

    /// The beginning of a failed process's text.
    pub(crate) fn process_failure_prefix(&self) -> &'static str {
        match self {
            Self::Preview(_) => "failed to run preview",
            Self::Up(_) => "failed to run update",
            Self::Refresh(_) => "failed to refresh stack",
            Self::Destroy(_) => "failed to destroy stack",
        }
    }

    /// The caller's message for the update history.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Preview(options) => options.message(),
            Self::Up(options) => options.message(),
            Self::Refresh(options) => options.message(),
            Self::Destroy(options) => options.message(),
        }
    }

    /// Whether the stack is removed after its resources.
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
