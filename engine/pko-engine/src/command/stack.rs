//! `stack`: create, select, list, export and remove stacks; outputs and history.

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use pulumi_engine_model::{
    property::{BLINDED, SECRET_SIGNATURE, SIGNATURE_KEY},
    urn::{STACK_TYPE, StackIdentity},
};
use pulumi_engine_state::{
    checkpoint::{Checkpoint, Deployment, Manifest, SecretsProvider},
    lock::Lock,
    secrets::{Crypter, Passphrase, SecretsError},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    context::ProjectContext,
    history, pretty, tag,
    transfer::{self, vault},
};
use crate::{args::StackCommand, config::value, display};

pub(super) fn run(command: StackCommand) -> anyhow::Result<()> {
    let context = ProjectContext::load()?;
    match command {
        StackCommand::Init {
            name,
            stack,
            secrets_provider,
            no_select,
        } => {
            let Some(name) = name.or(stack) else {
                bail!("a stack name is needed")
            };
            let stack = context.stack(Some(&name))?;
            init(&context, &stack, secrets_provider.as_deref())?;
            if no_select {
                Ok(())
            } else {
                select(&context, &stack)
            }
        }
        StackCommand::Select {
            name,
            stack,
            create,
            secrets_provider,
        } => {
            let stack = context.stack(name.or(stack).as_deref())?;
            if create && context.backend.load(&stack)?.is_none() {
                init(&context, &stack, secrets_provider.as_deref())?;
            }
            context.require(&stack)?;
            select(&context, &stack)
        }
        StackCommand::Ls { json } => list(&context, json),
        StackCommand::Output {
            name,
            json,
            show_secrets,
            stack,
        } => {
            let stack = context.stack(stack.stack.as_deref())?;
            output(&context, &stack, name.as_deref(), json, show_secrets)
        }
        StackCommand::History {
            json,
            show_secrets,
            page_size,
            page,
            stack,
        } => {
            let stack = context.stack(stack.stack.as_deref())?;
            let skip = page_size.saturating_mul(page.saturating_sub(1));
            history::show(&context, &stack, json, show_secrets, skip, page_size)
        }
        StackCommand::Export {
            show_secrets,
            file,
            version,
            stack,
        } => {
            let stack = context.stack(stack.stack.as_deref())?;
            if version.is_some() {
                bail!(
                    "the current backend ({}) does not provide the ability to export previous deployments",
                    context.backend.url()
                );
            }
            transfer::export(&context, &stack, show_secrets, file.as_deref())
        }
        StackCommand::Import { file, force, stack } => {
            let stack = context.stack(stack.stack.as_deref())?;
            transfer::import(&context, &stack, file.as_deref(), force)
        }
        StackCommand::Tag { stack, command } => {
            let stack = context.stack(stack.as_deref())?;
            tag::run(&context, &stack, &command)
        }
        StackCommand::Rm {
            name,
            stack,
            yes,
            force,
            preserve_config,
        } => {
            if !yes {
                bail!("--yes must be passed in to proceed when running in non-interactive mode");
            }
            let stack = context.stack(name.or(stack).as_deref())?;
            remove(&context, &stack, force, preserve_config)?;
            Ok(display::line(&format!(
                "Stack '{}' has been removed!",
                stack.name
            ))?)
        }
    }
}

fn check_provider(provider: Option<&str>) -> anyhow::Result<()> {
    let supported = ["awskms", "azurekeyvault", "gcpkms", "hashivault"];
    match provider {
        None | Some("" | "default" | "passphrase") => Ok(()),
        Some(other)
            if supported
                .iter()
                .any(|name| other.starts_with(&format!("{name}:"))) =>
        {
            bail!(
                "secrets provider {other:?} is not supported by pulumi-engine, which has \"passphrase\""
            )
        }
        Some(other) => bail!(
            "unknown secrets provider type '{other}' (supported values: default,passphrase,{})",
            supported.join(",")
        ),
    }
}

fn init(
    context: &ProjectContext,
    stack: &StackIdentity,
    provider: Option<&str>,
) -> anyhow::Result<()> {
    check_provider(provider)?;
    if context.backend.load(stack)?.is_some() {
        bail!("stack '{}' already exists", stack.qualified());
    }
    let mut file = context.stack_file(stack)?;
    let crypter = match file.salt() {
        Some(salt) => context.crypter(salt)?,
        None => Passphrase::from_environment()
            .and_then(|passphrase| Crypter::create(&passphrase))
            .context("could not create secrets manager for new stack")?,
    };
    if file.salt().is_none() {
        file.set_salt(crypter.state())?;
        file.save()?;
    }
    let deployment = Deployment {
        manifest: Manifest::new(Timestamp::now().to_string()),
        secrets_providers: Some(SecretsProvider::passphrase(crypter.state())),
        ..Deployment::default()
    };
    let checkpoint = Checkpoint::new(stack.qualified(), Some(deployment));
    context.backend.save(stack, &checkpoint)?;
    display::note(&format!("Created stack '{}'", stack.name));
    Ok(())
}

fn select(context: &ProjectContext, stack: &StackIdentity) -> anyhow::Result<()> {
    Ok(context
        .selected()?
        .select(context.backend.url(), Some(stack.qualified()))?)
}

fn list(context: &ProjectContext, as_json: bool) -> anyhow::Result<()> {
    let selected = context.selected()?;
    let current = selected.stack(context.backend.url()).unwrap_or_default();
    let mut rows = Vec::new();
    for name in context.backend.list(context.project_name())? {
        let stack = context.stack(Some(&name))?;
        let Some(checkpoint) = context.backend.load(&stack)? else {
            continue;
        };
        let deployment = checkpoint.deployment();
        let time = deployment.manifest.time.parse::<Timestamp>().ok();
        rows.push(StackRow {
            name,
            current: stack.qualified() == current,
            last_update: time.map(|time| format!("{time:.3}")),
            resource_count: deployment.resources.len(),
        });
    }
    if as_json {
        return Ok(display::line(&pretty(&rows)?)?);
    }
    let now = Timestamp::now();
    let mut table = vec![["NAME", "LAST UPDATE", "RESOURCE COUNT"].map(ToOwned::to_owned)];
    for row in rows {
        let mark = if row.current { "*" } else { "" };
        let time = row.last_update.and_then(|time| time.parse().ok());
        table.push([
            format!("{}{mark}", row.name),
            time.map_or_else(|| "n/a".to_owned(), |time| display::ago(time, now)),
            row.resource_count.to_string(),
        ]);
    }
    Ok(display::table("", &table)?)
}

/// A stack in a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StackRow {
    name: String,
    current: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_update: Option<String>,
    resource_count: usize,
}

/// The stored outputs, with secrets in clear only on request.
fn outputs(
    context: &ProjectContext,
    stack: &StackIdentity,
    show_secrets: bool,
) -> anyhow::Result<Map<String, Value>> {
    let deployment = context.require(stack)?.deployment();
    let resource = deployment
        .resources
        .iter()
        .find(|resource| resource.kind == STACK_TYPE);
    let Some(resource) = resource.cloned() else {
        return Ok(Map::new());
    };
    if !show_secrets {
        let outputs = resource.outputs.unwrap_or_default().into_iter();
        return Ok(outputs.map(|(key, value)| (key, blinded(value))).collect());
    }
    let mut vault = vault(context, &deployment).map_err(undecryptable)?;
    let opened = vault.open(vec![resource])?;
    let outputs = opened
        .into_iter()
        .filter_map(|resource| resource.outputs)
        .flatten();
    Ok(outputs
        .map(|(key, value)| (key, value.revealed()))
        .collect())
}

/// The passphrase of a state that is only read. The text is that of Pulumi's CLI.
fn undecryptable(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(SecretsError::IncorrectPassphrase) => anyhow::anyhow!(
            "failed to decrypt: incorrect passphrase, please set PULUMI_CONFIG_PASSPHRASE to the correct passphrase or set \
             PULUMI_CONFIG_PASSPHRASE_FILE to a file containing the passphrase"
        ),
        _ => error,
    }
}

/// Hides values with a secret in them as a whole, which needs no passphrase.
fn blinded(value: Value) -> Value {
    fn has_secret(value: &Value) -> bool {
        match value {
            Value::Array(values) => values.iter().any(has_secret),
            Value::Object(entries) => {
                entries.get(SIGNATURE_KEY).and_then(Value::as_str) == Some(SECRET_SIGNATURE)
                    || entries.values().any(has_secret)
            }
            _ => false,
        }
    }
    if has_secret(&value) {
        json!(BLINDED)
    } else {
        value
    }
}

fn output(
    context: &ProjectContext,
    stack: &StackIdentity,
    name: Option<&str>,
    as_json: bool,
    show_secrets: bool,
) -> anyhow::Result<()> {
    let outputs = outputs(context, stack, show_secrets)?;
    if let Some(name) = name {
        let value = outputs.get(name);
        let value = value
            .with_context(|| format!("current stack does not have output property '{name}'"))?;
        let text = if as_json {
            pretty(value)?
        } else {
            value::as_text(value)
        };
        return Ok(display::line(&text)?);
    }
    if as_json {
        return Ok(display::line(&pretty(&Value::Object(outputs))?)?);
    }
    display::line(&format!("Current stack outputs ({}):", outputs.len()))?;
    if outputs.is_empty() {
        return Ok(display::line(
            "    No output values currently in this stack",
        )?);
    }
    let mut table = vec![["OUTPUT", "VALUE"].map(ToOwned::to_owned)];
    table.extend(
        outputs
            .iter()
            .map(|(name, value)| [name.clone(), value::as_text(value)]),
    );
    Ok(display::table("    ", &table)?)
}

pub(super) fn remove(
    context: &ProjectContext,
    stack: &StackIdentity,
    force: bool,
    preserve_config: bool,
) -> anyhow::Result<()> {
    context.require(stack)?;
    let lock = Lock::acquire(&context.backend, stack, display::note)?;
    let checkpoint = context.require(stack)?;
    if !force && !checkpoint.deployment().resources.is_empty() {
        bail!(
            "'{}' still has resources; removal rejected. Possible actions:\n\
             - Make sure that '{0}' is the stack that you want to destroy\n\
             - Run `pulumi destroy` to delete the resources, then run `pulumi stack rm`\n\
             - Run `pulumi stack rm --force` to override this error",
            stack.name
        );
    }
    context.backend.remove(stack)?;
    drop(lock);
    if !preserve_config {
        context.stack_file(stack)?.remove()?;
    }
    context
        .selected()?
        .select(context.backend.url(), None)
        .map_err(Into::into)
}
