//! The commands.

mod config;
mod context;
mod flags;
mod history;
mod interruption;
mod operation;
mod pending;
mod record;
mod selection;
mod session;
mod stack;
mod tag;
mod transfer;
mod unsaved_state;

use std::{io::IsTerminal as _, process::ExitCode};

use pulumi_engine_model::VERSION;
use pulumi_engine_state::{backend::BackendError, lock};
use serde::Serialize;

use crate::{
    args::{self, Command, CommandLine, OperationArgs},
    display::{self, palette::Colors},
};
use context::ProjectContext;

/// Exit codes, as scripts and the agent distinguish them.
mod code {
    pub(super) const ERROR: u8 = 1;
    pub(super) const AUTHENTICATION: u8 = 3;
    pub(super) const STACK_NOT_FOUND: u8 = 6;
    pub(super) const CHANGES_NOT_EXPECTED: u8 = 7;
    pub(super) const CANCELED: u8 = 8;
}

/// A failure with its own exit code, which may have been reported already.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Exit {
    code: u8,
    message: String,
}

impl Exit {
    /// A failure that was reported.
    fn already_reported(code: u8) -> anyhow::Error {
        Self::error(code, String::new())
    }

    fn error(code: u8, message: impl Into<String>) -> anyhow::Error {
        Self {
            code,
            message: message.into(),
        }
        .into()
    }
}

/// Runs a command line, and returns the exit code.
#[must_use]
pub fn run(words: Vec<String>) -> ExitCode {
    let debug =
        std::env::var("PULUMI_DEBUG_COMMANDS").is_ok_and(|value| value == "true" || value == "1");
    let line = match args::parse(words, debug) {
        Ok(line) => line,
        Err((text, true)) => {
            display::note(&text);
            return ExitCode::SUCCESS;
        }
        Err((text, false)) => {
            display::note(&format!("error: {text}"));
            return ExitCode::from(code::ERROR);
        }
    };
    match dispatch(line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{error:#}");
            if !text.is_empty() {
                display::note(&format!("error: {text}"));
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    match (
        error.downcast_ref::<Exit>(),
        error.downcast_ref::<BackendError>(),
    ) {
        (Some(exit), _) => exit.code,
        (_, Some(BackendError::Unauthenticated)) => code::AUTHENTICATION,
        _ => code::ERROR,
    }
}

fn dispatch(line: CommandLine) -> anyhow::Result<()> {
    if let Some(directory) = &line.cwd {
        std::env::set_current_dir(directory)?;
    }
    let colors = colors(line.color.as_deref())?;
    let operate = |kind, arguments: &OperationArgs| operation::run(kind, arguments, colors);
    match line.command {
        Command::Version => Ok(display::line(VERSION)?),
        Command::WhoAmI { json } => whoami(json),
        Command::Install => ProjectContext::load().map(|_| ()),
        Command::Cancel { yes, stack, name } => cancel(yes, name.or(stack).as_deref()),
        Command::Stack(command) => stack::run(command),
        Command::Config(arguments) => config::run(arguments),
        Command::Preview(arguments) => operate(operation::OperationKind::Preview, &arguments),
        Command::Up(arguments) => operate(operation::OperationKind::Up, &arguments),
        Command::Refresh(arguments) => operate(operation::OperationKind::Refresh, &arguments),
        Command::Destroy(arguments) => operate(operation::OperationKind::Destroy, &arguments),
    }
}

/// Colors as configured; by default only on a terminal without `NO_COLOR`.
fn colors(word: Option<&str>) -> anyhow::Result<Colors> {
    let terminal = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let word = word.unwrap_or("auto");
    let Some(colors) = Colors::named(word, terminal) else {
        anyhow::bail!(
            "unsupported color option: '{word}'.  Supported values are: auto, always, never, raw"
        );
    };
    Ok(colors)
}

#[derive(Serialize)]
struct WhoAmI<'a> {
    user: &'a str,
    url: &'a str,
}

fn whoami(json: bool) -> anyhow::Result<()> {
    let backend = context::backend(None)?;
    let user = lock::user_name();
    let text = if json {
        let url = backend.url();
        pretty(&WhoAmI { user: &user, url })?
    } else {
        user
    };
    Ok(display::line(&text)?)
}

fn cancel(yes: bool, name: Option<&str>) -> anyhow::Result<()> {
    if !yes {
        anyhow::bail!("--yes must be passed in to proceed when running in non-interactive mode");
    }
    let context = ProjectContext::load()?;
    let stack = context.stack(name)?;
    context.require(&stack)?;
    lock::break_all(&context.backend, &stack)?;
    let name = &stack.name;
    Ok(display::line(&format!(
        "The currently running update for '{name}' has been canceled!"
    ))?)
}

/// Formats indented JSON. Types define the order of fields where Pulumi's output has one.
fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value)
}
