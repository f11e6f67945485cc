//! Which environment variables hold secrets: by their origin, which the manager states, and by
//! name.
//!
//! Only the pod's spec says which variables come from a Secret, so the manager passes their names,
//! never their values.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use pko_auth::Mask;
use serde::Deserialize;

/// Set by the manager.
const VARIABLE: &str = "PKO_SECRET_VARIABLES";

#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretVariablesError {
    #[error("{VARIABLE} is malformed")]
    Malformed(#[source] serde_json::Error),
    #[error("failed to read the keys of a Secret in {}", folder.display())]
    Keys { folder: PathBuf, source: io::Error },
}

/// The variables that come from Secrets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SecretVariables(BTreeSet<String>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Origins {
    names: Vec<String>,
    /// Whole Secrets.
    keys: Vec<WholeSecret>,
}

/// A Secret of which each key is a variable. A folder has a file for each key.
#[derive(Debug, Deserialize)]
struct WholeSecret {
    #[serde(default)]
    prefix: String,
    folder: PathBuf,
}

impl SecretVariables {
    pub(crate) fn from_environment() -> Result<Self, SecretVariablesError> {
        match std::env::var(VARIABLE) {
            Ok(text) => Self::parse(&text),
            Err(_) => Ok(Self::default()),
        }
    }

    fn parse(text: &str) -> Result<Self, SecretVariablesError> {
        let origins: Origins =
            serde_json::from_str(text).map_err(SecretVariablesError::Malformed)?;
        let mut names: BTreeSet<String> = origins.names.into_iter().collect();
        for WholeSecret { prefix, folder } in origins.keys {
            let keys =
                keys(&folder).map_err(|source| SecretVariablesError::Keys { folder, source })?;
            names.extend(keys.into_iter().map(|key| format!("{prefix}{key}")));
        }
        Ok(Self(names))
    }

    /// Masks the secrets in this process's environment. Returns the names of those that cannot be
    /// masked.
    pub(crate) fn mask_environment(&self, mask: &Mask) -> Vec<String> {
        let variables: Vec<_> = std::env::vars_os()
            .map(|(name, value)| {
                let name = name.to_string_lossy().into_owned();
                (name, value.to_string_lossy().into_owned())
            })
            .collect();
        let unmasked = self.mask(&variables, mask);
        unmasked.into_iter().map(str::to_owned).collect()
    }

    /// Returns the names of secret variables whose values cannot be masked.
    fn mask<'a>(&self, variables: &'a [(String, String)], mask: &Mask) -> Vec<&'a str> {
        mask.add_environment(
            variables
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        let secret = variables.iter().filter(|(name, _)| self.0.contains(name));
        secret
            .filter(|(_, value)| !mask.add(value))
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

/// The keys of a mounted Secret. The kubelet's own files begin with `..`, which no variable does.
fn keys(folder: &Path) -> io::Result<Vec<String>> {
    let mut keys = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with("..") {
            keys.push(name);
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_variables_are_names_and_keys() {
        let folder = tempfile::tempdir().unwrap();
        for key in ["user", "..data"] {
            fs::write(folder.path().join(key), "").unwrap();
        }
        let text = serde_json::json!({
            "names": ["REGION", "A,B"],
            "keys": [{"prefix": "DB_", "folder": folder.path()}, {"folder": folder.path()}],
        });
        let found = SecretVariables::parse(&text.to_string()).unwrap();
        let expected = ["A,B", "DB_user", "REGION", "user"].map(str::to_owned);
        assert_eq!(found.0.into_iter().collect::<Vec<_>>(), expected);
        assert!(SecretVariables::parse("nonsense").is_err());
        let missing = r#"{"keys": [{"folder": "/does/not/exist"}]}"#;
        assert!(SecretVariables::parse(missing).is_err());
    }

    #[test]
    fn secret_variable_is_masked_whatever_its_name() {
        let secret = SecretVariables(["REGION", "PIN"].map(str::to_owned).into());
        let variables = [
            ("REGION", "canary-region"),
            ("PIN", "123"),
            ("PLACE", "visible-place"),
            ("API_TOKEN", "canary-token"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mask = Mask::default();
        assert_eq!(secret.mask(&variables, &mask), ["PIN"]);
        assert_eq!(
            mask.apply("canary-region 123 visible-place canary-token"),
            "[secret] 123 visible-place [secret]"
        );
    }
}
