//! The workspace agent: `init` fetches a workspace's source, `serve` runs `pulumi` in it by gRPC.

mod args;
mod auth;
mod command;
#[doc(hidden)]
pub mod fuzz;
mod logging;
mod pulumi;
mod reaper;
mod run;
mod secret_variables;
mod service;
mod workspace;

use std::process::ExitCode;

use args::{Arguments, Command};
use pko_auth::Mask;
use secret_variables::SecretVariables;

/// Runs the command of the command line.
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
            log_error(arguments.command.as_ref(), &error);
            ExitCode::FAILURE
        }
    }
}

/// Logs the error by the logger of the failed command. It ends up in the pod's status.
fn log_error(command: Option<&Command>, error: &anyhow::Error) {
    let mask = Mask::default();
    if let Ok(variables) = SecretVariables::from_environment() {
        let _ = variables.mask_environment(&mask);
    }
    let text = format!("{error:#}");
    let error = mask.apply(&text);
    match command {
        Some(Command::Init(_)) => tracing::error!(target: "pko_agent::command::init", "{error}"),
        Some(Command::Bootstrap(_)) => {
            tracing::error!(target: "pko_agent::command::bootstrap", "{error}");
        }
        _ => tracing::error!(target: "pko_agent::command::serve", "{error}"),
    }
}
