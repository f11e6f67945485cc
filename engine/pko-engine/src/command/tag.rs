//! `stack tag`: the tags of a stack.

use anyhow::bail;
use pulumi_engine_model::urn::StackIdentity;
use pulumi_engine_state::tags;

use super::{context::ProjectContext, pretty};
use crate::{args::TagCommand, display};

pub(super) fn run(
    context: &ProjectContext,
    stack: &StackIdentity,
    command: &TagCommand,
) -> anyhow::Result<()> {
    context.require(stack)?;
    let mut tags = tags::read(&context.backend, stack)?;
    match command {
        TagCommand::Ls { json: true } => {
            Ok(display::line(&pretty(&serde_json::to_value(&tags)?)?)?)
        }
        TagCommand::Ls { json: false } => {
            let mut rows = vec![("NAME", "VALUE")];
            rows.extend(
                tags.iter()
                    .map(|(name, value)| (name.as_str(), value.as_str())),
            );
            let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            for (name, value) in rows {
                display::line(format!("{name:<width$}  {value}").trim_end())?;
            }
            Ok(())
        }
        TagCommand::Get { name } => match tags.get(name) {
            Some(value) => Ok(display::line(value)?),
            None => bail!("stack tag '{name}' not found for stack '{}'", stack.name),
        },
        TagCommand::Set { name, value } => {
            check(name, value)?;
            tags.insert(name.clone(), value.clone());
            Ok(tags::write(&context.backend, stack, tags)?)
        }
        TagCommand::Rm { name } => {
            tags.remove(name);
            Ok(tags::write(&context.backend, stack, tags)?)
        }
    }
}

/// Validates a tag as Pulumi does.
fn check(name: &str, value: &str) -> anyhow::Result<()> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.:-".contains(letter);
    if name.is_empty() || name.len() > 40 {
        bail!("stack tag {name:?} is too long or empty (1 to 40 characters)");
    }
    if !name.chars().all(allowed) {
        bail!(
            "stack tag names may only contain alphanumerics, hyphens, underscores, periods, or colons"
        );
    }
    if value.len() > 256 {
        bail!("stack tag {name:?} value is too long (max length 256 characters)");
    }
    Ok(())
}
