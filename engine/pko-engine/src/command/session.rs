//! A stack with its decrypted state, for preview, up, refresh and destroy.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use pulumi_engine_deploy::{
    deployment::{DeploymentHost, InitialState, ledger::StateSink},
    plan::snapshot::{Pending, Record, StateToSave},
};
use pulumi_engine_model::{
    property::{BLINDED, Properties, Property},
    resource::Resource,
    urn::{STACK_TYPE, StackIdentity},
};
use pulumi_engine_providers::{builtin::BuiltinHost, registry::Registry};
use pulumi_engine_state::{
    checkpoint::{Checkpoint, Deployment, Manifest, SecretsProvider},
    sealing::Vault,
    secrets::Crypter,
};
use serde_json::{Map, Value};

use super::{context::ProjectContext, unsaved_state};
use crate::config::resolve::{Config, properties};

pub(super) struct StackSession<'a> {
    pub(super) context: &'a ProjectContext,
    pub(super) stack: StackIdentity,
    pub(super) config: Config,
    pub(super) resources: Vec<Arc<Record>>,
    pub(super) pending: Vec<Pending>,
    deployment: Deployment,
    crypter: Crypter,
    vault: Vault,
}

impl<'a> StackSession<'a> {
    pub(super) fn open(
        context: &'a ProjectContext,
        stack: StackIdentity,
        registry: &Registry,
        config_must_fit: bool,
    ) -> anyhow::Result<Self> {
        let checkpoint = context.require(&stack)?;
        let file = context.stack_file(&stack)?;
        if file.has_environment() {
            bail!(
                "`environment` in the stack's config file is not supported by pulumi-engine: Pulumi ESC environments require the Pulumi Cloud backend"
            );
        }
        let crypter = context.stack_crypter(&file, &checkpoint)?;
        let config = context.config(&stack, &file, &crypter, config_must_fit)?;
        let mut deployment = checkpoint.deployment();
        let sealed_with = deployment
            .salt()?
            .map(|salt| context.crypter(salt))
            .transpose()?;
        let stored = std::mem::take(&mut deployment.resources);
        refuse_foreign(&stored, registry)?;
        let pending = stored_operations(&mut deployment)?;
        let mut opener = Vault::new(sealed_with.clone());
        let resources = opener.open(stored.clone())?;
        let pending = pending
            .into_iter()
            .map(|operation| operation.open(&mut opener))
            .collect::<anyhow::Result<_>>()?;
        // ciphertexts can only be kept under the same key
        let mut vault = Vault::new(Some(crypter.clone()));
        if sealed_with.is_some_and(|other| other.state() == crypter.state()) {
            vault = opener;
        }
        Ok(Self {
            context,
            stack,
            config,
            resources: resources.into_iter().map(Record::new).collect(),
            pending,
            deployment,
            crypter,
            vault,
        })
    }

    /// The state that a run starts from.
    pub(super) fn start(&self) -> InitialState {
        InitialState {
            records: self.resources.clone(),
            pending: self.pending.clone(),
        }
    }

    /// The config of a package, as strings, for its provider.
    pub(super) fn package_config(&self, package: &str) -> Properties {
        let own = self.config.iter();
        own.filter(|(key, _)| key.namespace == package)
            .map(|(key, value)| {
                let text = Property::String(value.text.clone());
                let value = if value.secret {
                    text.into_secret()
                } else {
                    text
                };
                (key.name.clone(), value)
            })
            .collect()
    }

    /// The config for the program.
    pub(super) fn program_config(&self) -> std::collections::BTreeMap<String, Property> {
        properties(&self.config, self.context.project_name())
    }

    /// The config for events.
    pub(super) fn shown_config(&self) -> Map<String, Value> {
        let shown = |secret: bool, text: &str| {
            if secret {
                BLINDED.to_owned()
            } else {
                text.to_owned()
            }
        };
        self.config
            .iter()
            .map(|(key, value)| {
                (
                    key.to_string(),
                    Value::String(shown(value.secret, &value.text)),
                )
            })
            .collect()
    }

    /// Encrypts a record, unless it was before.
    fn seal(&mut self, record: &Record) -> anyhow::Result<()> {
        if record.sealed.get().is_none() {
            let sealed = self.vault.seal_one(record.resource.clone())?;
            let text = serde_json::to_string(&sealed)?;
            // only one thread saves
            _ = record.sealed.set(text);
        }
        Ok(())
    }

    /// The checkpoint with these resources.
    fn checkpoint(&mut self, state: &StateToSave) -> anyhow::Result<Vec<u8>> {
        let operations = state.pending.iter().map(|pending| &pending.record);
        for record in state.records.iter().chain(operations) {
            self.seal(record)?;
        }
        let mut deployment = Deployment {
            manifest: Manifest::new(Timestamp::now().to_string()),
            secrets_providers: Some(SecretsProvider::passphrase(self.crypter.state())),
            resources: Vec::new(),
            metadata: self.deployment.metadata.clone(),
            other: self.deployment.other.clone(),
        };
        if !state.pending.is_empty() {
            let operations = state
                .pending
                .iter()
                .map(to_stored)
                .collect::<Result<_, _>>()?;
            let operations = Value::Array(operations);
            deployment
                .other
                .insert(PENDING_OPERATIONS.to_owned(), operations);
        }
        let resources: Vec<_> = state
            .records
            .iter()
            .filter_map(|record| record.sealed.get().map(String::as_str))
            .collect();
        let replace_with = state
            .records
            .iter()
            .any(|record| !record.resource.replace_with.is_empty());
        let stack = self.stack.qualified();
        Ok(Checkpoint::assemble(
            &stack,
            &deployment,
            &resources,
            replace_with,
        )?)
    }
}

/// The field of pending operations in a state.
const PENDING_OPERATIONS: &str = "pending_operations";

/// A pending operation in a state.
#[derive(serde::Deserialize)]
struct StoredOperation {
    resource: Resource<Map<String, Value>>,
    #[serde(rename = "type")]
    kind: String,
}

impl StoredOperation {
    fn open(self, vault: &mut Vault) -> anyhow::Result<Pending> {
        let opened = vault.open(vec![self.resource])?;
        let resource = opened.into_iter().next().unwrap_or_default();
        Ok(Pending {
            kind: self.kind,
            record: Record::new(resource),
        })
    }
}

fn stored_operations(deployment: &mut Deployment) -> anyhow::Result<Vec<StoredOperation>> {
    match deployment.other.remove(PENDING_OPERATIONS) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(operations) => serde_json::from_value(operations)
            .context("failed to read the pending operations of the checkpoint"),
    }
}

fn to_stored(pending: &Pending) -> serde_json::Result<Value> {
    let text = pending.record.sealed.get().map_or("{}", String::as_str);
    let resource: Value = serde_json::from_str(text)?;
    Ok(serde_json::json!({ "resource": resource, "type": pending.kind }))
}

impl StateSink for StackSession<'_> {
    fn save(&mut self, state: &StateToSave, last: bool) -> anyhow::Result<()> {
        let content = self.checkpoint(state)?;
        self.context
            .backend
            .save_content(&self.stack, content, last)
            .context("failed to write the state")
    }

    fn rescue(&mut self, state: &StateToSave) -> anyhow::Result<String> {
        let checkpoint = Checkpoint::parse(&self.checkpoint(state)?)?;
        unsaved_state::write(&self.context.backend, &self.stack, &checkpoint)
    }
}

/// Rejects states with resources that need a plugin.
fn refuse_foreign(
    resources: &[Resource<Map<String, Value>>],
    registry: &Registry,
) -> anyhow::Result<()> {
    let foreign = |resource: &&Resource<Map<String, Value>>| {
        // components need no provider
        resource.custom && !registry.knows(&resource.kind)
    };
    match resources.iter().find(foreign) {
        Some(foreign) => bail!(
            "the stack has a resource of type {:?} ({}), which needs a provider plugin and is not supported by pulumi-engine; \
             use an image with Pulumi's CLI",
            foreign.kind,
            foreign.urn.name()
        ),
        None => Ok(()),
    }
}

/// What a run reads from outside: other stacks.
pub(super) struct OperationContext<'a> {
    pub(super) context: &'a ProjectContext,
}

impl DeploymentHost for OperationContext<'_> {}

impl BuiltinHost for OperationContext<'_> {
    fn stack_outputs(&self, name: &str) -> Result<Properties, String> {
        self.read_stack(name)
            .map_err(|error| format!("stack reference {name:?}: {error:#}"))
    }
}

impl OperationContext<'_> {
    fn read_stack(&self, name: &str) -> anyhow::Result<Properties> {
        let stack = self.context.stack(Some(name))?;
        let deployment = self.context.require(&stack)?.deployment();
        let crypter = deployment
            .salt()?
            .map(|salt| self.context.crypter(salt))
            .transpose()?;
        let own = deployment
            .resources
            .into_iter()
            .filter(|resource| resource.kind == STACK_TYPE);
        let opened = Vault::new(crypter).open(own.collect())?;
        Ok(opened
            .into_iter()
            .find_map(|resource| resource.outputs)
            .unwrap_or_default())
    }
}
