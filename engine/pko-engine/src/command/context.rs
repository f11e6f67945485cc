//! The project of the current directory, its backend and secrets.

use std::path::Path;

use anyhow::{Context as _, bail};
use parking_lot::Mutex;
use pulumi_engine_model::urn::StackIdentity;
use pulumi_engine_state::{
    backend::{Backend, ORGANIZATION},
    checkpoint::Checkpoint,
    secrets::{Crypter, Passphrase, SecretsError},
};

use super::{Exit, code};
use crate::{
    config::{
        resolve::{self, Config},
        stack_file::StackFile,
    },
    project::ProjectFile,
    workspace::{self, Selected},
};

/// A project and the backend of its stacks.
pub(super) struct ProjectContext {
    pub(super) project: ProjectFile,
    pub(super) backend: Backend,
    /// The config file from the command line.
    pub(super) config_file: Option<std::path::PathBuf>,
    /// One for each salt, because deriving a key is slow.
    crypters: Mutex<Vec<Crypter>>,
}

impl ProjectContext {
    pub(super) fn load() -> anyhow::Result<Self> {
        let directory = std::env::current_dir()?;
        let project = ProjectFile::find(&directory)?;
        let backend = backend(project.project.backend.as_deref())?;
        Ok(Self {
            project,
            backend,
            config_file: None,
            crypters: Mutex::default(),
        })
    }

    pub(super) fn project_name(&self) -> &str {
        &self.project.project.name
    }

    /// The selected stack of this project directory.
    pub(super) fn selected(&self) -> anyhow::Result<Selected> {
        let home = workspace::home();
        Ok(Selected::load(
            &home,
            self.project_name(),
            &self.project.path,
        )?)
    }

    /// The named stack, or the selected one.
    pub(super) fn stack(&self, name: Option<&str>) -> anyhow::Result<StackIdentity> {
        match name {
            Some(name) => identity(name, self.project_name()),
            None => match self.selected()?.stack(self.backend.url()) {
                Some(name) => identity(name, self.project_name()),
                None => bail!("no stack selected; please use `pulumi stack select` to choose one"),
            },
        }
    }

    /// The checkpoint of a stack that must exist.
    pub(super) fn require(&self, stack: &StackIdentity) -> anyhow::Result<Checkpoint> {
        self.backend.load(stack)?.ok_or_else(|| {
            Exit::error(
                code::STACK_NOT_FOUND,
                format!("no stack named '{}' found", self.shown(stack)),
            )
        })
    }

    /// The name of a stack, qualified if it is of another project.
    fn shown(&self, stack: &StackIdentity) -> String {
        if stack.project == self.project_name() {
            stack.name.clone()
        } else {
            stack.qualified()
        }
    }

    pub(super) fn stack_file(&self, stack: &StackIdentity) -> anyhow::Result<StackFile> {
        let own = || self.project.stack_file(&stack.name);
        let path = self.config_file.clone().unwrap_or_else(own);
        let file = StackFile::load(path)?;
        match file.secrets_provider() {
            None | Some("passphrase" | "default") => Ok(file),
            Some(other) => bail!(
                "secrets provider {other:?} is not supported by pulumi-engine, which has \"passphrase\""
            ),
        }
    }

    /// The crypter of a salt.
    pub(super) fn crypter(&self, salt: &str) -> Result<Crypter, SecretsError> {
        let mut crypters = self.crypters.lock();
        if let Some(known) = crypters.iter().find(|known| known.state() == salt) {
            return Ok(known.clone());
        }
        let crypter = Crypter::open(salt, &Passphrase::from_environment()?)?;
        crypters.push(crypter.clone());
        Ok(crypter)
    }

    /// The crypter of a stack: salt of its config file, else of its state, else a new one.
    pub(super) fn stack_crypter(
        &self,
        file: &StackFile,
        checkpoint: &Checkpoint,
    ) -> anyhow::Result<Crypter> {
        self.open_secrets(file, checkpoint)
            .context("getting stack configuration: get stack secrets manager")
    }

    /// The same, for commands that do not deploy.
    pub(super) fn open_secrets(
        &self,
        file: &StackFile,
        checkpoint: &Checkpoint,
    ) -> anyhow::Result<Crypter> {
        let deployment = checkpoint.deployment();
        Ok(match file.salt().or(deployment.salt()?) {
            Some(salt) => self.crypter(salt)?,
            None => Crypter::create(&Passphrase::from_environment()?)?,
        })
    }

    /// The config of a run, validated against the project if it `must_fit`.
    pub(super) fn config(
        &self,
        stack: &StackIdentity,
        file: &StackFile,
        crypter: &Crypter,
        must_fit: bool,
    ) -> anyhow::Result<Config> {
        let entries = file.entries(self.project_name())?;
        let (project, crypter) = (&self.project.project, || Ok(crypter.clone()));
        if must_fit {
            resolve::resolve(&stack.name, project, entries, &crypter)
                .context("validating stack config")
        } else {
            let (config, _) = resolve::merge(project, entries, &crypter)?;
            Ok(config)
        }
    }
}

/// The backend of the environment, of the project, or of the login.
pub(super) fn backend(of_project: Option<&str>) -> anyhow::Result<Backend> {
    let of_environment = std::env::var("PULUMI_BACKEND_URL")
        .ok()
        .filter(|url| !url.is_empty());
    let url = of_environment
        .or_else(|| of_project.map(ToOwned::to_owned))
        .or_else(|| logged_into(&workspace::home()))
        .unwrap_or_else(|| "https://api.pulumi.com".to_owned());
    Ok(Backend::open(&url)?)
}

fn logged_into(home: &Path) -> Option<String> {
    let content = std::fs::read(home.join("credentials.json")).ok()?;
    let credentials: serde_json::Value = serde_json::from_slice(&content).ok()?;
    credentials.get("current")?.as_str().map(ToOwned::to_owned)
}

/// `stack`, `organization/stack` or `organization/project/stack`.
pub(super) fn identity(name: &str, project: &str) -> anyhow::Result<StackIdentity> {
    let parts: Vec<_> = name.split('/').collect();
    let (organization, project, name) = match parts.as_slice() {
        [name] => (ORGANIZATION, project, *name),
        [organization, name] => (*organization, project, *name),
        [organization, project, name] => (*organization, *project, *name),
        _ => bail!("stack name {name:?} has too many parts"),
    };
    if organization != ORGANIZATION {
        bail!("organization name must be '{ORGANIZATION}'");
    }
    let fits = |text: &str| {
        !text.is_empty()
            && text.len() <= 100
            && !text.starts_with('.')
            && text
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "_.-".contains(character))
    };
    if !fits(name) || !fits(project) {
        bail!("a stack name may only contain alphanumeric, hyphens, underscores, or periods");
    }
    Ok(StackIdentity {
        organization: organization.to_owned(),
        project: project.to_owned(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_name_has_one_to_three_parts() {
        for (name, expected) in [
            ("dev", Some("organization/demo/dev")),
            ("organization/dev", Some("organization/demo/dev")),
            ("organization/other/dev", Some("organization/other/dev")),
            ("someone/demo/dev", None),
            ("a/b/c/d", None),
            ("..", None),
            ("organization/../dev", None),
            ("", None),
        ] {
            let found = identity(name, "demo").ok().map(|stack| stack.qualified());
            assert_eq!(found.as_deref(), expected, "{name}");
        }
    }
}
