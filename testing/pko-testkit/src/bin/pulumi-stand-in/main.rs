//! Stands in for `pulumi`; see [`pko_testkit::stand_in`].
//!
//! Tests run it thousands of times, so it does nothing that it does not need: there is no async runtime
//! unless events go over gRPC.

mod line;
mod outcome;
mod player;
mod recorder;
mod sink;
mod usual;

use std::{env, fs, path::PathBuf, process::ExitCode};

use pko_testkit::stand_in::{Answer, FOLDER, Rule, SCRIPT, Script};

use crate::{
    line::Line,
    outcome::Outcome,
    player::{Player, Scene},
    recorder::Recorder,
};

/// With this as the first argument the process is a grandchild: it only waits for a file.
const GRANDCHILD: &str = "--stand-in-grandchild";

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == GRANDCHILD).is_some() {
        let file = PathBuf::from(arguments.next().unwrap_or_default());
        player::wait_for(&file);
        return ExitCode::SUCCESS;
    }
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let code = match run(&arguments.collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(problem) => {
            outcome::complain(format!("{}: {problem}\n", env!("CARGO_BIN_NAME")).as_bytes());
            255
        }
    };
    ExitCode::from(u8::try_from(code).unwrap_or(255))
}

/// Records the call, finds the answer and gives it; the exit code.
fn run(arguments: &[String]) -> Outcome<i32> {
    let folder = env::var_os(FOLDER).ok_or("the variable PKO_STAND_IN is not set")?;
    let folder = PathBuf::from(folder);
    let script: Script = serde_json::from_slice(&fs::read(folder.join(SCRIPT))?)?;
    let recorder = Recorder::begin(&folder, arguments, &script.variables)?;
    let code = match Line::parse(arguments) {
        Ok(line) => {
            let answer = choose(&script, &line, &recorder)?;
            let scene = Scene::new(folder, script.version, line, recorder.clone());
            Player::new(scene, answer)?.play()?
        }
        Err(refusal) => refusal.tell(),
    };
    recorder.end(code)?;
    Ok(code)
}

/// The first rule that fits. Every rule counts the calls of its command, whether or not it is chosen.
fn choose(script: &Script, line: &Line, recorder: &Recorder) -> Outcome<Answer> {
    let mut chosen = None;
    for (index, rule) in script.rules.iter().enumerate() {
        if line.is(&rule.command) && fits(index, rule, recorder)? {
            chosen = chosen.or(Some(rule.answer.clone()));
        }
    }
    Ok(chosen.unwrap_or_else(|| Answer::new().as_usual()))
}

fn fits(index: usize, rule: &Rule, recorder: &Recorder) -> Outcome<bool> {
    match rule.nth {
        None => Ok(true),
        Some(nth) => Ok(recorder.count(index)? == nth),
    }
}
