//! The default behaviour of the stand-in: a small Pulumi on a file backend, about 1,850 lines.
//!
//! Texts and exit codes are those of the transcripts. It evaluates YAML programs whose resources
//! are of type `pulumi:index:Stash`, with outputs from literals, secrets, configuration and
//! resource properties.
//!
//! It is not a layer over `pulumi-engine`, which runs the same programs: the engine derives keys
//! from the passphrase as Pulumi does, so an `up` costs 250 ms of CPU time there and 3 ms here, and
//! tests make thousands of calls. A second implementation also shows where the agent relies on the
//! engine.

mod config;
mod config_path;
mod display;
mod events;
mod operations;
mod outputs;
mod passphrase;
mod program;
mod stacks;
mod state_file;
mod yaml_writer;

use std::env;

use serde::Serialize;

use crate::{
    cli_error::{CliError, CliResult, print},
    script_runner::CallContext,
};

type CommandFn = fn(&CallContext) -> CliResult<()>;

pub(crate) fn answer(context: &CallContext) -> CliResult<()> {
    let line = &context.line;
    if line.is("version") {
        print(format!("v{}\n", context.version).as_bytes());
        return Ok(());
    }
    if line.is("install") {
        return program::YamlProgram::load().map(drop);
    }
    log_in()?;
    let commands: [(&str, CommandFn); 15] = [
        ("whoami", who_am_i),
        ("stack select", stacks::select),
        ("stack init", stacks::init),
        ("stack ls", stacks::list),
        ("stack output", stacks::output),
        ("stack history", stacks::history),
        ("stack rm", stacks::remove),
        ("cancel", stacks::cancel),
        ("config set-all", config::set_all),
        ("config set", config::set),
        ("config rm", config::remove),
        ("config env add", config::add_environments),
        ("config", config::show),
        ("refresh", operations::refresh),
        ("destroy", operations::destroy),
    ];
    if line.is("up") || line.is("preview") {
        return operations::update(context);
    }
    let known = commands.iter().find(|(command, _)| line.is(command));
    match known {
        Some((_, command)) => command(context),
        None => CliError::result(
            1,
            format!(
                "unknown command \"{}\" for \"pulumi\"\nRun 'pulumi --help' for usage.",
                line.nth(0).unwrap_or_default()
            ),
        ),
    }
}

/// The backend's address; without one it is Pulumi Cloud, as everywhere.
fn backend() -> String {
    env::var("PULUMI_BACKEND_URL").unwrap_or_else(|_| "https://api.pulumi.com".to_owned())
}

fn is_cloud() -> bool {
    backend().starts_with("https://")
}

fn log_in() -> CliResult<()> {
    if is_cloud()
        && env::var("PULUMI_ACCESS_TOKEN")
            .unwrap_or_default()
            .is_empty()
    {
        let text = "PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions";
        return CliError::result(3, text);
    }
    Ok(())
}

#[derive(Serialize)]
struct WhoAmI {
    user: String,
    url: String,
}

fn who_am_i(context: &CallContext) -> CliResult<()> {
    let user = env::var("USER").unwrap_or_else(|_| "root".to_owned());
    if context.line.has("--json") {
        let url = backend();
        return print_json(&WhoAmI { user, url });
    }
    print(format!("{user}\n").as_bytes());
    Ok(())
}

/// As the CLI prints JSON: with two spaces, and a line end.
fn print_json(value: &impl Serialize) -> CliResult<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print(text.as_bytes());
    Ok(())
}
