//! HTTP servers of the manager: Programs for workspaces, metrics for scrapers, health for the
//! kubelet.

pub(crate) mod addresses;
pub(crate) mod bounded;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod programs;
