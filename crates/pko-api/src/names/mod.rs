//! Every string that the operator shares with users, other programs or upstream's operator, once.

pub mod annotations;
pub mod conditions;
pub mod events;
pub mod failures;
pub mod field_managers;
pub mod finalizers;
pub mod images;
pub mod labels;
pub mod reasons;
pub mod urgencies;

/// Replaces the value of a secret output.
pub const SECRET_OUTPUT: &str = "[secret]";
