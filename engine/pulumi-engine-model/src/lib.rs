//! What programs, providers and states share: property values, URNs, resources.

#![expect(missing_docs, reason = "only this workspace links it")]

pub mod property;
pub mod resource;
pub mod urn;

/// The version of Pulumi's CLI whose command line and files the engine follows, and its own.
pub const VERSION: &str = concat!("v3.259.0+pko.", env!("CARGO_PKG_VERSION"));
