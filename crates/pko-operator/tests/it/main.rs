//! The operator on a real API server, with process workspaces and the embedded engine.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests read and change the state of the API server directly"
)]

mod auth;
mod chains;
mod cli_life;
mod deleted_references;
mod deletion;
mod economy;
mod examples;
mod faults;
mod flux;
mod generated;
mod git;
mod grid;
mod hung;
mod kills;
mod leaders;
mod life;
mod locks;
mod messages;
mod metrics;
mod outputs;
mod planes;
mod pods;
mod program_server;
mod queue;
mod references;
mod rights;
mod scope;
mod scripted;
mod slow_agent;
mod sources;
mod stack_scenarios;
mod survival;
mod system;
mod takeover;
mod templates;
mod tenants;
mod traces;
mod trail;
mod updates;
