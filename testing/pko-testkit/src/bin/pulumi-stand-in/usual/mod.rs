//! What the stand-in does unless the script says otherwise: a small Pulumi on a file backend.
//!
//! Texts and exit codes are those of the transcripts. Of programs it knows those in YAML that have nothing
//! but resources of the type `pulumi:index:Stash` and outputs, made of literals, secrets, configuration and
//! the resources' own values.

mod config;
mod config_path;
mod display;
mod events;
mod operate;
mod passphrase;
mod program;
mod stacks;
mod state;
mod values;
mod yaml;

use std::env;

use serde::Serialize;

use crate::{
    outcome::{Outcome, Refusal, print},
    player::Scene,
};

type Command = fn(&Scene) -> Outcome<()>;

/// Answers a call.
pub(crate) fn answer(scene: &Scene) -> Outcome<()> {
    let line = &scene.line;
    if line.is("version") {
        print(format!("v{}\n", scene.version).as_bytes());
        return Ok(());
    }
    if line.is("install") {
        return program::Program::load().map(drop);
    }
    log_in()?;
    let commands: [(&str, Command); 15] = [
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
        ("refresh", operate::refresh),
        ("destroy", operate::destroy),
    ];
    if line.is("up") || line.is("preview") {
        return operate::update(scene);
    }
    let known = commands.iter().find(|(command, _)| line.is(command));
    match known {
        Some((_, command)) => command(scene),
        None => Refusal::problem(
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

fn log_in() -> Outcome<()> {
    if is_cloud()
        && env::var("PULUMI_ACCESS_TOKEN")
            .unwrap_or_default()
            .is_empty()
    {
        let text = "PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions";
        return Refusal::problem(3, text);
    }
    Ok(())
}

#[derive(Serialize)]
struct WhoAmI {
    user: String,
    url: String,
}

fn who_am_i(scene: &Scene) -> Outcome<()> {
    let user = env::var("USER").unwrap_or_else(|_| "root".to_owned());
    if scene.line.has("--json") {
        let url = backend();
        return print_json(&WhoAmI { user, url });
    }
    print(format!("{user}\n").as_bytes());
    Ok(())
}

/// As the CLI prints JSON: with two spaces, and a line end.
fn print_json(value: &impl Serialize) -> Outcome<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print(text.as_bytes());
    Ok(())
}
