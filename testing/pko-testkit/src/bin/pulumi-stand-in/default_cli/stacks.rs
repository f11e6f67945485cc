//! `pulumi stack`, and `pulumi cancel`.

use std::fs;

use jiff::Timestamp;
use serde::Serialize;

use super::{
    config::StackFile,
    outputs, passphrase, print_json,
    program::YamlProgram,
    state_file::{StackName, StackState, StateFile},
};
use crate::{
    cli_error::{CliError, CliResult, print, print_error},
    script_runner::CallContext,
};

/// The stack that a call is about.
pub(super) fn selected_stack(context: &CallContext, project: &str) -> CliResult<StackName> {
    if let Some(given) = context.line.stack() {
        return StackName::parse(given, project);
    }
    let state = StateFile::read(&context.folder)?;
    match state.selected(project) {
        Some(selected) => StackName::parse(selected, project),
        None => CliError::result(6, "no stack selected"),
    }
}

pub(super) fn select(context: &CallContext) -> CliResult<()> {
    let name = selected_stack(context, &YamlProgram::load()?.name)?;
    StateFile::change(&context.folder, |state| {
        state.stack(&name)?;
        state.select(&name);
        Ok(())
    })
}

pub(super) fn init(context: &CallContext) -> CliResult<()> {
    let given = context.line.nth(2).or_else(|| context.line.stack());
    let name = StackName::parse(
        given.ok_or("a stack needs a name")?,
        &YamlProgram::load()?.name,
    )?;
    let provider = context
        .line
        .value("--secrets-provider")
        .unwrap_or("default");
    let stack = StackState {
        salt: passphrase::new_salt(provider)?,
        last_update: Timestamp::now(),
        ..StackState::default()
    };
    let salt = stack.salt.clone();
    StateFile::change(&context.folder, |state| {
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
    print_error(format!("Created stack '{}'\n", name.stack).as_bytes());
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StackListEntry<'a> {
    name: &'a str,
    current: bool,
    last_update: String,
    resource_count: usize,
}

pub(super) fn list(context: &CallContext) -> CliResult<()> {
    let project = YamlProgram::load()?.name;
    let state = StateFile::read(&context.folder)?;
    let selected = state.selected(&project);
    let listed = state
        .of_project(&project)
        .map(|(name, stack)| StackListEntry {
            name,
            current: selected == Some(name),
            last_update: format!("{:.3}", stack.last_update),
            resource_count: stack.resource_count(),
        });
    print_json(&listed.collect::<Vec<_>>())
}

pub(super) fn output(context: &CallContext) -> CliResult<()> {
    let name = selected_stack(context, &YamlProgram::load()?.name)?;
    let mut state = StateFile::read(&context.folder)?;
    let stack = state.stack(&name)?;
    let show_secrets = context.line.has("--show-secrets");
    if show_secrets && stack.outputs.values().any(|output| output.secret) {
        passphrase::check_to_decrypt(stack)?;
    }
    print_json(&outputs::printable(&stack.outputs, show_secrets))
}

pub(super) fn history(context: &CallContext) -> CliResult<()> {
    let name = selected_stack(context, &YamlProgram::load()?.name)?;
    let mut state = StateFile::read(&context.folder)?;
    let stack = state.stack(&name)?;
    let size = context.line.value("--page-size").unwrap_or("10").parse()?;
    print_json(&stack.history.iter().take(size).collect::<Vec<_>>())
}

pub(super) fn remove(context: &CallContext) -> CliResult<()> {
    let given = context.line.nth(2).or_else(|| context.line.stack());
    let name = StackName::parse(given.unwrap_or_default(), &YamlProgram::load()?.name)?;
    StateFile::change(&context.folder, |state| {
        if state.stack(&name)?.resource_count() > 0 {
            let name = &name.stack;
            let text = format!(
                "'{name}' still has resources; removal rejected. Possible actions:\n\
                 - Make sure that '{name}' is the stack that you want to destroy\n\
                 - Run `pulumi destroy` to delete the resources, then run `pulumi stack rm`\n\
                 - Run `pulumi stack rm --force` to override this error"
            );
            return CliError::result(1, text);
        }
        state.remove(&name);
        Ok(())
    })?;
    let _ = fs::remove_file(StackFile::path(&name.stack)?);
    print(format!("Stack '{}' has been removed!\n", name.stack).as_bytes());
    Ok(())
}

pub(super) fn cancel(context: &CallContext) -> CliResult<()> {
    let name = selected_stack(context, &YamlProgram::load()?.name)?;
    StateFile::read(&context.folder)?.stack(&name)?;
    let text = format!(
        "The currently running update for '{}' has been canceled!\n",
        name.stack
    );
    print(text.as_bytes());
    Ok(())
}
