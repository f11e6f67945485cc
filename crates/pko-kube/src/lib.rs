//! Every call of the Kubernetes API that the manager makes: reads, watches, applies, statuses,
//! finalizers, events, tokens. `pko-core` decides, this crate executes.
//!
//! The manager's own crate may not construct a `kube::Api`; its `clippy.toml` disallows it.

#![expect(missing_docs, reason = "only this workspace links the crate")]

mod dynamic_kinds;
mod events;
mod finalizers;
mod object_name;
mod objects;
mod own_writes;
mod owners;
mod read_json;
mod reviews;
mod status_object;
mod tokens;
mod watches;

pub use dynamic_kinds::{discover, find_status};
pub use events::{EventNote, EventRecorder, last_event_message};
pub use finalizers::{add_finalizer, remove_finalizer};
pub use objects::{
    Namespaced, annotate, apply, apply_annotation, apply_forced, apply_json, apply_status,
    cluster_uid, create, create_if_absent, delete, delete_unchanged, find, find_metadata,
    list_labelled_metadata, list_metadata, replace,
};
pub use own_writes::{OwnWrites, resource_version};
pub use owners::add_owner;
pub use read_json::ReadJson;
pub use reviews::{may_access_path, review_token};
pub use status_object::StatusObject;
pub use tokens::{RequestedToken, request_token};
pub use watches::{EventStream, watch, watch_status};

/// A failed request to the Kubernetes API, with the object it was about.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} {kind} {namespace}/{name}")]
pub struct RequestError {
    /// A verb, as in "failed to `apply` Workspace shop/demo".
    pub action: &'static str,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub source: Box<kube::Error>,
}

impl RequestError {
    /// The HTTP status code, if the API server responded.
    #[must_use]
    pub fn status_code(&self) -> Option<u16> {
        match self.source.as_ref() {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the API server rejected the request for good: nothing was written, and a retry of
    /// the same request fails again.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        let try_again = [408, 409, 429];
        self.status_code()
            .is_some_and(|code| (400..500).contains(&code) && !try_again.contains(&code))
    }

    /// Whether the API server found the object invalid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(self.status_code(), Some(400 | 422))
    }

    /// Whether the object, or a part of it, is more than the API server or etcd takes.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        // etcd's refusals arrive as internal errors.
        let texts = ["request is too large", "larger than max"];
        self.status_code() == Some(413) || texts.iter().any(|text| self.cause().contains(text))
    }

    /// The fields that the API server found invalid.
    #[must_use]
    pub fn invalid_fields(&self) -> Vec<String> {
        let kube::Error::Api(status) = self.source.as_ref() else {
            return Vec::new();
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.map(|cause| cause.field.clone()).collect()
    }

    /// Whether the namespace accepts no new objects because it is being deleted.
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        let kube::Error::Api(status) = self.source.as_ref() else {
            return false;
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let mut reasons = causes.map(|cause| cause.reason.as_str());
        reasons.any(|reason| reason == "NamespaceTerminating")
    }

    /// The message of the API server, without the action and the object.
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
