//! Runs of Updates: which may start, which pods they use, who waits for their end, and those without
//! an Update.

pub(crate) mod orphans;
pub(crate) mod pod_usage;
pub(crate) mod queue;
