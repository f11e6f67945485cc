//! The rules, by subject. A rule calls no other rule: what rules share is in `facts`, and how they
//! end a pass is in `outcome`.

pub(super) mod finalize;
pub(super) mod inputs;
pub(super) mod prerequisites;
pub(super) mod source;
pub(super) mod spec;
pub(super) mod suspend;
pub(super) mod sync;
pub(super) mod update;
pub(super) mod workspace;
