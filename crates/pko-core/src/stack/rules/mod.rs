//! The rules, by what they are about.

pub(super) mod finalize;
pub(super) mod inputs;
pub(super) mod kept_workspace;
pub(super) mod prerequisites;
pub(super) mod source;
pub(super) mod spec;
pub(super) mod suspend;
pub(super) mod sync;
pub(super) mod update;
pub(super) mod workspace;
