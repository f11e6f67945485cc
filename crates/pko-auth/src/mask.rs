//! Keeps secrets out of text that other programs print. Our own values are
//! [`Redacted`](crate::Redacted) instead.

use std::{borrow::Cow, collections::BTreeSet};

use parking_lot::RwLock;
use serde_json::Value;

/// Shorter values are not masked: they occur in ordinary text by chance.
const MIN_SECRET_LENGTH: usize = 6;

/// Replaces every secret that this process has read with `[secret]`.
#[derive(Default)]
pub struct Mask(RwLock<BTreeSet<String>>);

impl Mask {
    /// Masks the value from now on. Each line of a multi-line value and each string in a JSON
    /// structure is masked by itself, because programs print the parts.
    pub fn add(&self, secret: &str) {
        let parts = secret.lines().map(str::trim).chain([secret.trim()]);
        let mut parts: Vec<String> = parts.map(str::to_owned).collect();
        if let Ok(structure) = serde_json::from_str(secret) {
            collect_strings(&structure, &mut parts);
        }
        parts.retain(|part| part.len() >= MIN_SECRET_LENGTH);
        self.0.write().extend(parts);
    }

    /// Masks the values of environment variables whose names mark them as secret.
    pub fn add_environment<'a>(
        &self,
        variables: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
    ) {
        const WORDS: [&str; 5] = ["TOKEN", "SECRET", "PASSWORD", "PASSPHRASE", "PRIVATE_KEY"];
        for (name, value) in variables {
            let name = name.to_ascii_uppercase();
            if !name.ends_with("_FILE") && WORDS.iter().any(|word| name.contains(word)) {
                self.add(&value);
            }
        }
    }

    /// The text without the secrets.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let secrets = self.0.read();
        let mut masked = Cow::Borrowed(text);
        // The order does not matter: replacing a shorter secret first leaves no longer one behind.
        for secret in secrets.iter().rev() {
            if masked.contains(secret.as_str()) {
                masked = Cow::Owned(masked.replace(secret.as_str(), "[secret]"));
            }
        }
        masked
    }
}

fn collect_strings(value: &Value, strings: &mut Vec<String>) {
    match value {
        Value::String(text) => strings.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_strings(item, strings)),
        Value::Object(object) => object
            .values()
            .for_each(|item| collect_strings(item, strings)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multi_line_secret_is_masked_by_line() {
        let mask = Mask::default();
        mask.add("first-line\nsecond-line");
        mask.add("ab");
        assert_eq!(mask.apply("x second-line ab"), "x [secret] ab");
        assert_eq!(mask.apply("nothing here"), "nothing here");
    }

    #[test]
    fn json_secret_is_masked_by_string() {
        let mask = Mask::default();
        mask.add(
            r#"{"password": "hunter2-hunter2", "hosts": ["first.example", "ab"], "port": 5432}"#,
        );
        assert_eq!(
            mask.apply("hunter2-hunter2 at first.example:5432 ab"),
            "[secret] at [secret]:5432 ab"
        );
    }

    #[test]
    fn environment_secrets_are_found_by_name() {
        let mask = Mask::default();
        let variables = [
            ("PULUMI_ACCESS_TOKEN", "pul-0123"),
            ("PULUMI_CONFIG_PASSPHRASE_FILE", "/run/passphrase"),
            ("AWS_REGION", "eu-central-1"),
        ];
        mask.add_environment(variables.into_iter().map(|(n, v)| (n.into(), v.into())));
        let line = "pul-0123 /run/passphrase eu-central-1";
        assert_eq!(mask.apply(line), "[secret] /run/passphrase eu-central-1");
    }
}
