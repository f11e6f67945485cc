//! The only callers of the Kubernetes API: reading, applying, statuses, finalizers, events. Decisions are
//! made elsewhere; here they are carried out.

mod events;
mod finalizers;
mod freshness;
mod object_name;
mod objects;
mod outputs;
mod owners;
mod troubles;

pub use events::{Notice, Reporter};
pub use finalizers::{add_finalizer, remove_finalizer};
pub use freshness::{Written, resource_version};
pub use objects::{
    Namespaced, annotate, apply, apply_annotation, apply_json, apply_own, apply_status, create,
    create_once, delete, delete_unchanged, find, find_metadata, labelled, replace,
};
pub use outputs::masked_outputs;
pub use owners::adopt;
pub use troubles::last_event;

/// A request to the Kubernetes API that failed, and what it was for.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} {kind} {namespace}/{name}")]
pub struct RequestError {
    /// What was tried.
    pub action: &'static str,
    /// The object's kind.
    pub kind: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// What the API server or the connection to it said.
    pub source: Box<kube::Error>,
}

impl RequestError {
    /// The API server's answer, if it gave one.
    #[must_use]
    pub fn status_code(&self) -> Option<u16> {
        match self.source.as_ref() {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the API server refused for good: nothing was written, and trying again changes nothing.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        let try_again = [408, 409, 429];
        self.status_code()
            .is_some_and(|code| (400..500).contains(&code) && !try_again.contains(&code))
    }

    /// Whether the API server found the object invalid: it will, as long as the object stays the same.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(self.status_code(), Some(400 | 422))
    }

    /// Whether the namespace takes no new objects because it is being deleted.
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        let kube::Error::Api(status) = self.source.as_ref() else {
            return false;
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let mut reasons = causes.map(|cause| cause.reason.as_str());
        reasons.any(|reason| reason == "NamespaceTerminating")
    }

    /// What the API server said, without what was tried.
    #[must_use]
    pub fn cause(&self) -> String {
        match self.source.as_ref() {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        }
    }

    /// The error with its cause, on one line.
    #[must_use]
    pub fn full_text(&self) -> String {
        format!("{self}: {}", self.source)
    }
}
