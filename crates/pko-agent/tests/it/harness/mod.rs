//! A workspace with a CLI, and an agent that serves it.

mod agent;
mod cli;
mod cli_scripts;
mod processes;
mod runs;
mod test_workspace;

pub(crate) use agent::Agent;
pub(crate) use cli::{CliKind, on_each_cli};
pub(crate) use cli_scripts::{gated, obedient, secret, simple, stubborn};
pub(crate) use processes::{children, command_lines, listening_sockets, open_files, zombies};
pub(crate) use runs::{
    cancel, configured, events_and_result, get, literal, remaining_events, select, update,
    wait_for_result, watch,
};
pub(crate) use test_workspace::{TestWorkspace, all_text};

/// Fails the test after a long deadline. No test asserts durations.
pub(crate) async fn within_deadline<T>(what: &str, future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(pko_testkit::DEADLINE, future).await;
    outcome.unwrap_or_else(|_| panic!("deadline exceeded while waiting for {what}"))
}

pub(crate) async fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let condition = async || reached().then_some(()).ok_or("not yet");
    pko_testkit::eventually(what, condition).await.unwrap();
}
