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
mod cli_lifecycle;
mod control_planes;
mod deletion;
mod deletion_with_references;
mod events;
mod examples;
mod faults;
mod flux_sources;
mod git_sources;
mod grid;
mod harness;
mod hostile_objects;
mod invalid_stacks;
mod isolation;
mod leader_election;
mod locks;
mod lying_agents;
mod manager_kills;
mod manager_restart;
mod manual_updates;
mod messages;
mod metrics;
mod namespaces;
mod outputs;
mod pods;
mod prerequisites;
mod program_server;
mod queue;
mod raw_objects;
mod rbac;
mod references;
mod request_budget;
mod scripted_stacks;
mod slow_agent;
mod stack_lifecycle;
mod stack_scenarios;
mod takeover;
mod templates;
mod traces;
mod unresponsive_agents;
mod workspace_git;
