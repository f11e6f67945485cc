//! The four kinds of the operator: `Stack` and `Program` (`pulumi.com`), `Workspace` and `Update`
//! (`auto.pulumi.com`), as Rust types and as CRDs, with every string that they share with users
//! and with upstream's operator.
//!
//! This crate does no I/O and has no client. An object from the API server is read as [`Decoded`],
//! so one that does not decode affects only itself and never ends a watch.

#![expect(missing_docs, reason = "only this workspace links the crate")]

pub mod admission;
pub mod auto;
pub mod crd;
mod decode;
mod duration;
pub mod manager_policy;
pub mod names;
mod object;
mod policy_objects;
#[cfg(test)]
mod properties;
pub mod pulumi;
pub mod raw_json;
mod raw_object;
pub mod rbac;
pub mod requester_policy;
pub mod schema;
#[cfg(test)]
mod strategies;
mod text;

pub use decode::{DecodeError, Decoded, Undecodable};
pub use duration::GoDuration;
pub use object::StoredKind;
pub use pulumi::v1::{Program, Stack};
pub use raw_object::{MAX_BYTES, MAX_DEPTH, MAX_VALUES, RawObject};

pub use auto::v1alpha1::{Update, Workspace};

/// A JSON object, stored as written.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
