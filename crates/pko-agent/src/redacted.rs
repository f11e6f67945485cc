//! The mask that keeps secrets out of what others print. What we print ourselves is [`Redacted`].

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{PoisonError, RwLock},
};

use serde_json::Value;

pub(crate) use pko_source::Redacted;

/// Shorter texts are not masked: they are in every second line by chance, and no secret.
const SHORTEST_SECRET: usize = 6;

/// The secrets that this process has seen, to be taken out of text that comes from the CLI.
#[derive(Default)]
pub(crate) struct Mask(RwLock<BTreeSet<String>>);

impl Mask {
    /// From now on the value is masked; of a value with several lines, each of them, and of a
    /// structure, each text in it: programs take it apart.
    pub(crate) fn add(&self, secret: &str) {
        let parts = secret.lines().map(str::trim).chain([secret.trim()]);
        let mut parts: Vec<String> = parts.map(str::to_owned).collect();
        if let Ok(structure) = serde_json::from_str(secret) {
            collect_texts(&structure, &mut parts);
        }
        parts.retain(|part| part.len() >= SHORTEST_SECRET);
        let mut secrets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        secrets.extend(parts);
    }

    /// Masks the environment variables whose names say that they hold a secret.
    pub(crate) fn add_environment<'a>(
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
    pub(crate) fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let secrets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut masked = Cow::Borrowed(text);
        // Longest first is not needed: what is left of a longer one is no longer it.
        for secret in secrets.iter().rev() {
            if masked.contains(secret.as_str()) {
                masked = Cow::Owned(masked.replace(secret.as_str(), "[secret]"));
            }
        }
        masked
    }
}

fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(object) => object.values().for_each(|item| collect_texts(item, texts)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_are_masked_line_by_line() {
        let mask = Mask::default();
        mask.add("first-line\nsecond-line");
        mask.add("ab");
        assert_eq!(mask.apply("x second-line ab"), "x [secret] ab");
        assert_eq!(mask.apply("nothing here"), "nothing here");
    }

    #[test]
    fn the_texts_in_a_secret_structure_are_masked_too() {
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
    fn secrets_of_the_environment_are_known_by_their_names() {
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
