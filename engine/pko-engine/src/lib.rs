//! An engine for Pulumi YAML programs, in one binary without plugins or downloads.
//!
//! It takes the command line of Pulumi's CLI as far as a Stack's life needs it, reads and writes
//! the CLI's own files (project, stack config, state, locks, history), and has the resource types
//! that the CLI has built in and those of the packages in [`provider`]. What it lacks it refuses by name.
//!
//! For tests of those that start this engine, `PKO_ENGINE_STEP_DELAY=10s` makes each resource step
//! of an up, refresh or destroy take at least that long; a signal ends the wait, not the step.
//!
//! Pure parts: [`syntax`], [`program`], [`property`], [`resource`], [`plan`], [`text`], [`urn`].
//! The rest does the I/O around them; [`run`] is the way in.

pub mod args;
pub mod audience;
pub mod builtin;
pub mod command;
pub mod config;
pub mod display;
pub mod engine;
pub mod event_log;
pub mod event_stream;
pub mod fuzz;
pub mod plan;
pub mod program;
pub mod project;
pub mod property;
pub mod provider;
pub mod resource;
pub mod schedule;
pub mod secrets;
pub mod state;
pub mod urn;
pub mod workspace;

pub use command::run;

/// The version of Pulumi's CLI whose command line and files this engine follows, and its own.
pub const VERSION: &str = concat!("v3.259.0+pko.", env!("CARGO_PKG_VERSION"));
