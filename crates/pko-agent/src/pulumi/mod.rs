//! The `pulumi` CLI: its arguments, its process, and how its output is interpreted.

pub(crate) mod argv;
mod capture;
mod cli;
pub(crate) mod event_log;
pub(crate) mod event_sink;
mod failure;
mod known_failures;
mod locks;
mod operation;
pub(crate) mod outputs;
mod plain_text;
mod program;
mod project;
pub(crate) mod version;

pub(crate) use capture::truncate_middle;
pub(crate) use cli::{Cli, CliOutput, Exit, Invocation, StopReason, StopSignal, StopSource};
pub(crate) use failure::CliFailure;
pub(crate) use locks::{HeldLock, LockReport};
pub(crate) use operation::Operation;
pub(crate) use program::locate;
pub(crate) use project::{Project, ProjectError};
