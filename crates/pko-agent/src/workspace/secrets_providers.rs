//! The secrets provider of each stack. A run does not name it, and a stack that must be created
//! again must get the same one.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::config_file::write;

/// Stored in a file, so that it survives a restart.
#[derive(Debug)]
pub(super) struct SecretsProviders {
    file: PathBuf,
    by_stack: BTreeMap<String, String>,
}

impl SecretsProviders {
    pub(super) fn open(folder: &Path) -> Self {
        let file = folder.join("providers.json");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let by_stack = serde_json::from_str(&text).unwrap_or_default();
        Self { file, by_stack }
    }

    /// The requested provider, or else the stored one.
    pub(super) fn get(&self, stack: &str, requested: Option<&str>) -> Option<String> {
        let requested = requested.filter(|requested| !requested.is_empty());
        requested
            .or_else(|| self.by_stack.get(stack).map(String::as_str))
            .map(str::to_owned)
    }

    pub(super) fn set(&mut self, stack: &str, provider: &str) -> io::Result<()> {
        let before = self.by_stack.insert(stack.to_owned(), provider.to_owned());
        if before.as_deref() == Some(provider) {
            return Ok(());
        }
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        write(&self.file, &serde_json::to_string(&self.by_stack)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_provider_survives_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut providers = SecretsProviders::open(&folder.path().join("data"));
        assert_eq!(providers.get("dev", None), None);
        providers.set("dev", "awskms://one").unwrap();
        providers.set("dev", "awskms://one").unwrap();
        let providers = SecretsProviders::open(&folder.path().join("data"));
        let of = |stack, asked| providers.get(stack, asked);
        assert_eq!(of("dev", None).as_deref(), Some("awskms://one"));
        assert_eq!(of("dev", Some("")).as_deref(), Some("awskms://one"));
        assert_eq!(
            of("dev", Some("gcpkms://two")).as_deref(),
            Some("gcpkms://two")
        );
        assert_eq!(of("prod", None), None);
    }
}
