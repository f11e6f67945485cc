//! The command line of `pulumi-engine`, an engine for Pulumi YAML programs in one binary without
//! plugins or downloads.
//!
//! It follows the command line of Pulumi's CLI as far as the life of a Stack needs it, and reads
//! and writes the CLI's own files. Unsupported features are rejected up front, by name.
//!
//! For tests of programs that start this engine, `PKO_ENGINE_STEP_DELAY=10s` makes each resource
//! step of an up, refresh or destroy take at least that long. A signal ends the wait, not the step.

mod args;
mod command;
mod config;
mod display;
mod event_log;
mod event_stream;
pub mod fuzz;
mod output_reporter;
mod project;
mod workspace;

pub use command::run;
