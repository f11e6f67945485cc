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
    cancel, configured, events_and_result, finished, get, literal, rest, select, update, watch,
};
pub(crate) use test_workspace::{TestWorkspace, all_text};

/// For what must happen soon, and would otherwise be waited for in vain. No test asserts how long something
/// takes.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(pko_testkit::DEADLINE, future).await;
    outcome.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Until something is so.
pub(crate) async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let question = async || reached().then_some(()).ok_or("not yet");
    pko_testkit::eventually(what, question).await.unwrap();
}
