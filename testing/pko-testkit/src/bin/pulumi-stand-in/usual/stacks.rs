//! Stacks: to make, select, list, look at and remove them.

use std::fs;

use jiff::Timestamp;
use serde::Serialize;

use super::{
    config::StackFile,
    passphrase, print_json,
    program::Program,
    state::{Name, Stack, State},
    values,
};
use crate::{
    outcome::{Outcome, Refusal, complain, print},
    player::Scene,
};

/// The stack that a call is about.
pub(super) fn named(scene: &Scene, project: &str) -> Outcome<Name> {
    if let Some(given) = scene.line.stack() {
        return Name::parse(given, project);
    }
    let state = State::read(&scene.folder)?;
    match state.selected(project) {
        Some(selected) => Name::parse(selected, project),
        None => Refusal::problem(6, "no stack selected"),
    }
}

pub(super) fn select(scene: &Scene) -> Outcome<()> {
    let name = named(scene, &Program::load()?.name)?;
    State::change(&scene.folder, |state| {
        state.stack(&name)?;
        state.select(&name);
        Ok(())
    })
}

pub(super) fn init(scene: &Scene) -> Outcome<()> {
    let given = scene.line.nth(2).or_else(|| scene.line.stack());
    let name = Name::parse(given.ok_or("a stack needs a name")?, &Program::load()?.name)?;
    let provider = scene.line.value("--secrets-provider").unwrap_or("default");
    let stack = Stack {
        salt: passphrase::new_salt(provider)?,
        last_update: Timestamp::now(),
        ..Stack::default()
    };
    let salt = stack.salt.clone();
    State::change(&scene.folder, |state| {
        state.add(&name, stack)?;
        state.select(&name);
        Ok(())
    })?;
    let mut file = StackFile::load(&name.stack)?;
    match salt {
        Some(salt) => file.set("encryptionsalt", salt),
        None => file.set("secretsprovider", provider.to_owned()),
    }
    file.save()?;
    complain(format!("Created stack '{}'\n", name.stack).as_bytes());
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    name: &'a str,
    current: bool,
    last_update: String,
    resource_count: usize,
}

pub(super) fn list(scene: &Scene) -> Outcome<()> {
    let project = Program::load()?.name;
    let state = State::read(&scene.folder)?;
    let selected = state.selected(&project);
    let listed = state.of_project(&project).map(|(name, stack)| Listed {
        name,
        current: selected == Some(name),
        last_update: format!("{:.3}", stack.last_update),
        resource_count: stack.resource_count(),
    });
    print_json(&listed.collect::<Vec<_>>())
}

pub(super) fn output(scene: &Scene) -> Outcome<()> {
    let name = named(scene, &Program::load()?.name)?;
    let mut state = State::read(&scene.folder)?;
    let stack = state.stack(&name)?;
    let show_secrets = scene.line.has("--show-secrets");
    if show_secrets && stack.outputs.values().any(|output| output.secret) {
        passphrase::check_to_decrypt(stack)?;
    }
    print_json(&values::printed(&stack.outputs, show_secrets))
}

pub(super) fn history(scene: &Scene) -> Outcome<()> {
    let name = named(scene, &Program::load()?.name)?;
    let mut state = State::read(&scene.folder)?;
    let stack = state.stack(&name)?;
    let size = scene.line.value("--page-size").unwrap_or("10").parse()?;
    print_json(&stack.history.iter().take(size).collect::<Vec<_>>())
}

pub(super) fn remove(scene: &Scene) -> Outcome<()> {
    let given = scene.line.nth(2).or_else(|| scene.line.stack());
    let name = Name::parse(given.unwrap_or_default(), &Program::load()?.name)?;
    State::change(&scene.folder, |state| {
        if state.stack(&name)?.resource_count() > 0 {
            let name = &name.stack;
            let text = format!(
                "'{name}' still has resources; removal rejected. Possible actions:\n\
                 - Make sure that '{name}' is the stack that you want to destroy\n\
                 - Run `pulumi destroy` to delete the resources, then run `pulumi stack rm`\n\
                 - Run `pulumi stack rm --force` to override this error"
            );
            return Refusal::problem(1, text);
        }
        state.remove(&name);
        Ok(())
    })?;
    let _ = fs::remove_file(StackFile::path(&name.stack)?);
    print(format!("Stack '{}' has been removed!\n", name.stack).as_bytes());
    Ok(())
}

pub(super) fn cancel(scene: &Scene) -> Outcome<()> {
    let name = named(scene, &Program::load()?.name)?;
    State::read(&scene.folder)?.stack(&name)?;
    let text = format!(
        "The currently running update for '{}' has been canceled!\n",
        name.stack
    );
    print(text.as_bytes());
    Ok(())
}
