//! The workspace agent: fetches the source (`init`) and owns the runs (`serve`).

mod args;
mod auth;
mod command;
#[doc(hidden)]
pub mod fuzz;
mod logging;
mod pulumi;
mod reaper;
mod run;
mod service;
mod workspace;

use std::process::ExitCode;

use args::{Arguments, Command};

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::from_command_line();
    logging::start(arguments.global.verbose);
    if reaper::is_needed() {
        return reaper::run();
    }
    let outcome = match &arguments.command {
        None => Arguments::print_help(),
        Some(Command::Version) => {
            command::version::run();
            Ok(())
        }
        Some(Command::Bootstrap(bootstrap)) => command::bootstrap::run(bootstrap),
        Some(Command::Init(init)) => command::init::run(init),
        Some(Command::Serve(serve)) => command::serve::run(&arguments.global, serve),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(arguments.command.as_ref(), &error);
            ExitCode::FAILURE
        }
    }
}

/// One line, from the logger of the command that failed.
fn report(command: Option<&Command>, error: &anyhow::Error) {
    match command {
        Some(Command::Init(_)) => tracing::error!(target: "pko_agent::command::init", "{error:#}"),
        Some(Command::Bootstrap(_)) => {
            tracing::error!(target: "pko_agent::command::bootstrap", "{error:#}");
        }
        _ => tracing::error!(target: "pko_agent::command::serve", "{error:#}"),
    }
}
