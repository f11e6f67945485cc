//! `stack export` and `stack import`: a state as a document.

use std::{
    io::{self, Read as _, Write as _},
    path::Path,
};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use pulumi_engine_model::{
    property::{SECRET_SIGNATURE, SIGNATURE_KEY},
    resource::Resource,
    urn::StackIdentity,
};
use pulumi_engine_state::{
    checkpoint::{Checkpoint, Deployment, Manifest, SecretsProvider},
    file, integrity,
    lock::Lock,
    sealing::Vault,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{context::ProjectContext, unsaved_state};
use crate::display;

/// An exported state.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    version: u32,
    #[serde(default)]
    features: Vec<String>,
    deployment: Option<Value>,
}

pub(super) fn export(
    context: &ProjectContext,
    stack: &StackIdentity,
    show_secrets: bool,
    path: Option<&str>,
) -> anyhow::Result<()> {
    let checkpoint = context.require(stack)?;
    let mut deployment = checkpoint.deployment();
    if show_secrets {
        let opened =
            vault(context, &deployment)?.open(std::mem::take(&mut deployment.resources))?;
        deployment.resources = opened
            .into_iter()
            .map(reveal_secrets)
            .collect::<anyhow::Result<_>>()?;
    }
    let text = document(&checkpoint, &deployment)?;
    match path {
        Some(path) => Ok(file::write_whole(Path::new(path), &text)
            .with_context(|| format!("could not open file: {path}"))?),
        None => Ok(io::stdout().write_all(&text)?),
    }
}

/// The document of a state.
pub(super) fn document(
    checkpoint: &Checkpoint,
    deployment: &Deployment,
) -> serde_json::Result<Vec<u8>> {
    let version = checkpoint.version.max(3);
    let mut document = json!({ "version": version, "deployment": deployment });
    if let (false, Some(document)) = (checkpoint.features.is_empty(), document.as_object_mut()) {
        document.insert("features".to_owned(), json!(checkpoint.features));
    }
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    document.serialize(&mut serde_json::Serializer::with_formatter(
        &mut text, formatter,
    ))?;
    text.push(b'\n');
    Ok(text)
}

/// The crypter of a state.
pub(super) fn vault(context: &ProjectContext, deployment: &Deployment) -> anyhow::Result<Vault> {
    let crypter = deployment
        .salt()?
        .map(|salt| context.crypter(salt))
        .transpose()?;
    Ok(Vault::new(crypter))
}

/// Decrypts a resource, and keeps its secrets marked.
fn reveal_secrets(resource: Resource) -> anyhow::Result<Resource<Map<String, Value>>> {
    resource.map(|_, properties| {
        properties
            .into_iter()
            .map(|(key, value)| {
                let value = value.to_json_with::<serde_json::Error>("", &mut |_, inner| {
                    let plain = serde_json::to_string(&inner.revealed())?;
                    Ok(json!({ SIGNATURE_KEY: SECRET_SIGNATURE, "plaintext": plain }))
                })?;
                Ok((key, value))
            })
            .collect()
    })
}

pub(super) fn import(
    context: &ProjectContext,
    stack: &StackIdentity,
    path: Option<&str>,
    force: bool,
) -> anyhow::Result<()> {
    let own = context.require(stack)?;
    let mut deployment = read(stack, path)?;
    // ciphertexts of the document are kept; its plain secrets are encrypted
    if deployment.salt()?.is_none() {
        let file = context.stack_file(stack)?;
        let crypter = context.stack_crypter(&file, &own)?;
        deployment.secrets_providers = Some(SecretsProvider::passphrase(crypter.state()));
    }
    let mut vault = vault(context, &deployment)?;
    let opened = vault.open(std::mem::take(&mut deployment.resources))?;
    deployment.resources = vault.seal(opened)?;
    refuse_strange(stack, &deployment, force)?;
    for operation in take_pending(&mut deployment) {
        display::note(&format!("warning: {operation}"));
    }
    deployment.manifest = Manifest {
        other: deployment.manifest.other,
        ..Manifest::new(Timestamp::now().to_string())
    };
    let lock = Lock::acquire(&context.backend, stack, display::note)?;
    let checkpoint = Checkpoint::new(stack.qualified(), Some(deployment));
    context.backend.save(stack, &checkpoint)?;
    path.map_or(Ok(()), unsaved_state::remove_imported)?;
    drop(lock);
    Ok(display::line("Import complete.")?)
}

/// The document of a file, or of standard input.
pub(super) fn read(stack: &StackIdentity, path: Option<&str>) -> anyhow::Result<Deployment> {
    let mut text = String::new();
    if let Some(path) = path {
        text = std::fs::read_to_string(path)
            .with_context(|| format!("could not open file: open {path}"))?;
    } else {
        io::stdin().read_to_string(&mut text)?;
    }
    if text.trim().is_empty() {
        bail!("EOF");
    }
    let document: Document =
        serde_json::from_str(&text).context("could not deserialize deployment")?;
    let name = &stack.name;
    match document.version {
        0..=2 => {
            bail!("the stack '{name}' is too old to be used by this version of the Pulumi CLI")
        }
        3 | 4 => {}
        _ => bail!(
            "the stack '{name}' is newer than what this version of the Pulumi CLI understands. \
             Please update your version of the Pulumi CLI"
        ),
    }
    Checkpoint::check_features(&document.features)?;
    let deployment = document
        .deployment
        .context("could not deserialize deployment: it has no field `deployment`")?;
    serde_json::from_value(deployment).context("could not deserialize deployment")
}

/// Rejects an invalid state, or one of another stack, unless forced.
fn refuse_strange(
    stack: &StackIdentity,
    deployment: &Deployment,
    force: bool,
) -> anyhow::Result<()> {
    let mut faults = Vec::new();
    for resource in &deployment.resources {
        let urn = &resource.urn;
        let other = urn.as_str().split("::").next().unwrap_or_default();
        let other = other.strip_prefix("urn:pulumi:").unwrap_or_default();
        if other != stack.name {
            let own = &stack.name;
            faults.push(format!(
                "resource '{urn}' is from a different stack ({other} != {own})"
            ));
        }
    }
    if let Err(fault) = integrity::verify(deployment) {
        faults.push(format!("state file contains errors: {fault}"));
    }
    if force {
        for fault in faults {
            display::note(&format!("warning: {fault}"));
        }
        return Ok(());
    }
    if faults.is_empty() {
        return Ok(());
    }
    faults.push(
        "importing this file could be dangerous; rerun with --force to proceed anyway".to_owned(),
    );
    let list = faults.iter().enumerate();
    let list: Vec<_> = list
        .map(|(number, fault)| format!("    {}) {fault}", number + 1))
        .collect();
    bail!("{} errors occurred:\n{}", faults.len(), list.join("\n"))
}

/// Removes pending operations, and returns their names.
fn take_pending(deployment: &mut Deployment) -> Vec<String> {
    let operations = deployment.other.remove("pending_operations");
    let operations = operations.as_ref().and_then(Value::as_array);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    operations
        .into_iter()
        .flatten()
        .map(|operation| {
            let (kind, urn) = (operation.get("type"), operation.pointer("/resource/urn"));
            format!(
                "removing pending operation '{}' on '{}' from snapshot",
                text(kind),
                text(urn)
            )
        })
        .collect()
}
