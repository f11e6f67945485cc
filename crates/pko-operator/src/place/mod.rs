//! Where workspaces run. Today that is beside the manager, as processes.

mod environment;
mod files;
mod process;
mod record;
mod support;

pub(crate) use process::Processes;
