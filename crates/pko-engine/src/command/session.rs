//! A locked stack whose state is open: what preview, up, refresh and destroy work on.

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::context::Context;
use crate::{
    config::resolve::{Config, properties},
    execute::Keeper,
    plan::registration::World,
    property::{BLINDED, Properties, Property},
    resource::Resource,
    secrets::Crypter,
    state::{
        checkpoint::{Checkpoint, Deployment, Manifest, SecretsProvider},
        sealing::Vault,
    },
    urn::{STACK_TYPE, StackIdentity},
};

/// An open state.
pub(super) struct Session<'a> {
    pub(super) context: &'a Context,
    pub(super) stack: StackIdentity,
    pub(super) config: Config,
    pub(super) resources: Vec<Resource>,
    deployment: Deployment,
    crypter: Crypter,
    vault: Vault,
}

impl<'a> Session<'a> {
    pub(super) fn open(
        context: &'a Context,
        stack: StackIdentity,
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
        let config = match context.config(&stack, &file, &crypter) {
            Err(error) if config_must_fit => return Err(error),
            config => config.unwrap_or_default(),
        };
        let mut deployment = checkpoint.deployment();
        let sealed_with = deployment
            .salt()?
            .map(|salt| context.crypter(salt))
            .transpose()?;
        let stored = std::mem::take(&mut deployment.resources);
        refuse_foreign(&stored)?;
        let resources = Vault::new(sealed_with.clone()).open(stored.clone())?;
        // secrets keep their ciphertext only under the key they were sealed with
        let mut vault = Vault::new(Some(crypter.clone()));
        if sealed_with.is_some_and(|other| other.state() == crypter.state()) {
            vault.open(stored)?;
        }
        Ok(Self {
            context,
            stack,
            config,
            resources,
            deployment,
            crypter,
            vault,
        })
    }

    /// Config as the program sees it.
    pub(super) fn program_config(&self) -> std::collections::BTreeMap<String, Property> {
        properties(&self.config, self.context.project_name())
    }

    /// Config as events show it.
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

    /// The checkpoint with these resources.
    fn checkpoint(&mut self, resources: Vec<Resource>) -> anyhow::Result<Checkpoint> {
        let deployment = Deployment {
            manifest: Manifest::new(Timestamp::now().to_string()),
            secrets_providers: Some(SecretsProvider::passphrase(self.crypter.state())),
            resources: self.vault.seal(resources)?,
            metadata: self.deployment.metadata.clone(),
            other: self.deployment.other.clone(),
        };
        Ok(Checkpoint::new(self.stack.qualified(), Some(deployment)))
    }
}

impl Keeper for Session<'_> {
    fn keep(&mut self, resources: Vec<Resource>) -> anyhow::Result<()> {
        let checkpoint = self.checkpoint(resources)?;
        self.context
            .backend
            .save(&self.stack, &checkpoint)
            .context("failed to write the state")
    }
}

/// Resources that need a plugin cannot be updated or deleted by this engine.
fn refuse_foreign(resources: &[Resource<Map<String, Value>>]) -> anyhow::Result<()> {
    match resources.iter().find(|resource| !resource.is_builtin()) {
        Some(foreign) => bail!(
            "the stack has a resource of type {:?} ({}), which needs a provider plugin and is not supported by pulumi-engine",
            foreign.kind,
            foreign.urn.name()
        ),
        None => Ok(()),
    }
}

/// Other stacks, as a program may read them.
pub(super) struct Outside<'a> {
    pub(super) context: &'a Context,
}

impl World for Outside<'_> {
    fn stack_outputs(&self, name: &str) -> Result<Properties, String> {
        self.read_stack(name)
            .map_err(|error| format!("stack reference {name:?}: {error:#}"))
    }
}

impl Outside<'_> {
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
