//! The workspace agent: fetches the source (`init`) and owns the runs (`serve`).

mod args;
mod artifact;
mod auth;
mod command;
mod hex;
mod logging;
mod pulumi;
mod reaper;
mod redacted;
mod run;
mod service;
mod workspace;

use std::process::ExitCode;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::from_command_line();
    logging::begin(arguments.global.verbose);
    if reaper::is_needed() {
        return reaper::run();
    }
    let outcome = match &arguments.command {
        None => Arguments::print_help(),
        Some(Command::Version) => {
            command::version::run();
            Ok(())
        }
        Some(Command::Init(init)) => command::init::run(init),
        Some(Command::Serve(serve)) => command::serve::run(&arguments.global, serve),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "The agent failed");
            ExitCode::FAILURE
        }
    }
}
