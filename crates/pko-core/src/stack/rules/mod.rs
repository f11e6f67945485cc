//! One small function for each row of the Stack's rule table, by concern.

pub(super) mod finalize;
pub(super) mod references;
pub(super) mod source;
pub(super) mod sync;
pub(super) mod unsupported;
pub(super) mod update;
pub(super) mod workspace;
