//! A workspace with a CLI, and an agent that serves it.

mod agent;
mod answers;
mod cli;
mod place;
mod processes;
mod runs;

pub(crate) use agent::Agent;
pub(crate) use answers::{gated, obedient, secret, simple, stubborn};
pub(crate) use cli::{Cli, on_each_cli};
pub(crate) use place::{Place, all_text};
pub(crate) use processes::{children, command_lines, listening_sockets, open_files, zombies};
pub(crate) use runs::{
    cancel, configured, events_and_result, finished, get, literal, rest, select, update, watch,
};

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
