//! Pulumi's command line: what is asked of it, how it is run, and what its answers mean.

pub(crate) mod argv;
mod capture;
mod cli;
pub(crate) mod event_log;
pub(crate) mod event_sink;
mod failure;
mod known;
mod locate;
mod locks;
mod operation;
pub(crate) mod outputs;
mod plain_text;
mod project;
pub(crate) mod version;

pub(crate) use capture::shortened;
pub(crate) use cli::{
    Cli, Exit, Finished, Invocation, StopReason, StopSignal, StopSource, mask_own_environment,
};
pub(crate) use failure::Failure;
pub(crate) use locate::locate;
pub(crate) use locks::{HeldLock, Locks};
pub(crate) use operation::Operation;
pub(crate) use project::{Project, ProjectError};
