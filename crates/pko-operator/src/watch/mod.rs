//! Watches of the API server: one for each kind, shared by all controllers.

pub(crate) mod pods;
pub(crate) mod shared;
pub(crate) mod streams;
pub(crate) mod versions;
