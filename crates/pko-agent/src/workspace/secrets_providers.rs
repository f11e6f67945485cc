//! The secrets provider that each stack is to have. Whoever selects a stack for a run does not say it,
//! and if the stack must be made again then, it must not end up with another one.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::config_file::write;

/// Kept in a file, so that an agent that starts again knows them, too.
#[derive(Debug)]
pub(super) struct SecretsProviders {
    file: PathBuf,
    known: BTreeMap<String, String>,
}

impl SecretsProviders {
    pub(super) fn open(folder: &Path) -> Self {
        let file = folder.join("providers.json");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let known = serde_json::from_str(&text).unwrap_or_default();
        Self { file, known }
    }

    /// What is asked for, else what was asked for before.
    pub(super) fn of(&self, stack: &str, asked: Option<&str>) -> Option<String> {
        let asked = asked.filter(|asked| !asked.is_empty());
        asked
            .or_else(|| self.known.get(stack).map(String::as_str))
            .map(str::to_owned)
    }

    /// From now on the stack has this one.
    pub(super) fn remember(&mut self, stack: &str, provider: &str) -> io::Result<()> {
        let before = self.known.insert(stack.to_owned(), provider.to_owned());
        if before.as_deref() == Some(provider) {
            return Ok(());
        }
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        write(&self.file, &serde_json::to_string(&self.known)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_provider_survives_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut providers = SecretsProviders::open(&folder.path().join("data"));
        assert_eq!(providers.of("dev", None), None);
        providers.remember("dev", "awskms://one").unwrap();
        providers.remember("dev", "awskms://one").unwrap();
        let providers = SecretsProviders::open(&folder.path().join("data"));
        let of = |stack, asked| providers.of(stack, asked);
        assert_eq!(of("dev", None).as_deref(), Some("awskms://one"));
        assert_eq!(of("dev", Some("")).as_deref(), Some("awskms://one"));
        assert_eq!(
            of("dev", Some("gcpkms://two")).as_deref(),
            Some("gcpkms://two")
        );
        assert_eq!(of("prod", None), None);
    }
}
