//! A stand-in for `pulumi`; see [`pko_testkit::stand_in`].
//!
//! Tests start it thousands of times. It has no async runtime unless events go over gRPC.

mod call_recorder;
mod cli_error;
mod command_line;
mod default_cli;
mod event_sink;
mod script_runner;

use std::{env, fs, path::PathBuf, process::ExitCode};

use pko_testkit::stand_in::{FOLDER, Reply, SCRIPT, Script, ScriptRule};

use crate::{
    call_recorder::CallRecorder,
    cli_error::CliResult,
    command_line::CommandLine,
    script_runner::{CallContext, ScriptRunner},
};

/// With this as the first argument the process is a grandchild: it only waits for a file.
const GRANDCHILD: &str = "--stand-in-grandchild";

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == GRANDCHILD).is_some() {
        let file = PathBuf::from(arguments.next().unwrap_or_default());
        script_runner::wait_for(&file);
        return ExitCode::SUCCESS;
    }
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let code = match run(&arguments.collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(problem) => {
            cli_error::print_error(format!("{}: {problem}\n", env!("CARGO_BIN_NAME")).as_bytes());
            255
        }
    };
    ExitCode::from(u8::try_from(code).unwrap_or(255))
}

/// Records the call and runs the reply. Returns the exit code.
fn run(arguments: &[String]) -> CliResult<i32> {
    let folder = env::var_os(FOLDER).ok_or("the variable PKO_STAND_IN is not set")?;
    let folder = PathBuf::from(folder);
    let script: Script = serde_json::from_slice(&fs::read(folder.join(SCRIPT))?)?;
    let recorder = CallRecorder::begin(&folder, arguments, &script.variables)?;
    let code = match CommandLine::parse(arguments) {
        Ok(line) => {
            let answer = choose(&script, &line, &recorder)?;
            let context = CallContext::new(folder, script.version, line, recorder.clone());
            ScriptRunner::new(context, answer)?.play()?
        }
        Err(error) => error.print(),
    };
    recorder.end(code)?;
    Ok(code)
}

/// The first matching rule. Every rule counts the calls of its command, chosen or not.
fn choose(script: &Script, line: &CommandLine, recorder: &CallRecorder) -> CliResult<Reply> {
    let mut chosen = None;
    for (index, rule) in script.rules.iter().enumerate() {
        if line.is(&rule.command) && fits(index, rule, recorder)? {
            chosen = chosen.or(Some(rule.answer.clone()));
        }
    }
    Ok(chosen.unwrap_or_else(|| Reply::new().run_default()))
}

fn fits(index: usize, rule: &ScriptRule, recorder: &CallRecorder) -> CliResult<bool> {
    match rule.nth {
        None => Ok(true),
        Some(nth) => Ok(recorder.count(index)? == nth),
    }
}
