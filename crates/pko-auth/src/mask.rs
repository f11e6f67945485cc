//! Keeps secrets out of text that other programs print. Our own values are
//! [`Redacted`](crate::Redacted) instead.

use std::{borrow::Cow, collections::BTreeSet};

use parking_lot::RwLock;
use serde_json::Value;

const MASKED: &str = "[secret]";
/// Shorter secrets are not masked: they occur in ordinary text by chance.
const MIN_SECRET_LENGTH: usize = 4;
/// The same for the parts of a secret, and for numbers, such as ports.
const MIN_PART_LENGTH: usize = 6;
/// Words that occur in ordinary text, whatever their origin.
const ORDINARY: [&str; 4] = ["true", "false", "null", "none"];

/// Replaces every secret that this process has read with `[secret]`.
#[derive(Default)]
pub struct Mask(RwLock<BTreeSet<String>>);

impl Mask {
    /// Masks the value from now on. Each line of a multi-line value and each string in a JSON
    /// structure is masked by itself, because programs print the parts. Returns false for a value
    /// that is too short or too ordinary to be masked.
    pub fn add(&self, secret: &str) -> bool {
        let whole = secret.trim();
        let mut parts: Vec<String> = secret.lines().map(|line| line.trim().to_owned()).collect();
        if let Ok(structure) = serde_json::from_str(secret) {
            collect_strings(&structure, &mut parts);
        }
        parts.retain(|part| part.len() >= MIN_PART_LENGTH && is_maskable(part));
        let is_masked = is_maskable(whole);
        if is_masked {
            parts.push(whole.to_owned());
        }
        let escaped: Vec<String> = parts.iter().flat_map(|part| escaped_forms(part)).collect();
        self.0.write().extend(parts.into_iter().chain(escaped));
        is_masked || whole.is_empty()
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
                masked = Cow::Owned(masked.replace(secret.as_str(), MASKED));
            }
        }
        masked
    }

    /// A JSON document without the secrets in its strings and numbers. Unlike the result of
    /// [`Self::apply`], it stays a JSON document of the same shape.
    pub fn apply_json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        // An escape sequence may be part of a secret.
        let is_affected = text.contains('\\') || matches!(self.apply(text), Cow::Owned(_));
        if !is_affected {
            return Cow::Borrowed(text);
        }
        let Ok(mut document) = serde_json::from_str::<Value>(text) else {
            return self.apply(text);
        };
        if self.mask_value(&mut document) {
            Cow::Owned(document.to_string())
        } else {
            Cow::Borrowed(text)
        }
    }

    fn mask_all<'v>(&self, values: impl Iterator<Item = &'v mut Value>) -> bool {
        let masked = values.filter_map(|value| self.mask_value(value).then_some(()));
        masked.count() > 0
    }

    /// Returns whether something was masked. Keys stay: readers depend on them.
    fn mask_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => {
                let Cow::Owned(masked) = self.apply(text) else {
                    return false;
                };
                *text = masked;
                true
            }
            Value::Number(number) => {
                let is_secret = self.0.read().contains(&number.to_string());
                if is_secret {
                    *value = Value::String(MASKED.to_owned());
                }
                is_secret
            }
            Value::Array(items) => self.mask_all(items.iter_mut()),
            Value::Object(fields) => self.mask_all(fields.values_mut()),
            Value::Null | Value::Bool(_) => false,
        }
    }
}

fn is_maskable(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let shortest = if is_number {
        MIN_PART_LENGTH
    } else {
        MIN_SECRET_LENGTH
    };
    text.len() >= shortest && !ORDINARY.contains(&text.to_ascii_lowercase().as_str())
}

/// A secret as it is within JSON text: as most programs write it, and as Go does.
fn escaped_forms(text: &str) -> impl Iterator<Item = String> {
    let quoted = Value::from(text).to_string();
    let inside = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let plain = inside.unwrap_or(text).to_owned();
    let mut go = plain.clone();
    for (character, escape) in [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026")] {
        go = go.replace(character, escape);
    }
    let is_other = |form: &String| form != text;
    [plain, go]
        .into_iter()
        .filter(is_other)
        .collect::<Vec<_>>()
        .into_iter()
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

    #[test]
    fn short_or_ordinary_secret_is_not_masked() {
        let mask = Mask::default();
        for (secret, is_masked) in [
            ("", true),
            ("abc", false),
            ("abcd", true),
            ("true", false),
            ("5432", false),
            ("543210", true),
            ("p4ss", true),
        ] {
            assert_eq!(mask.add(secret), is_masked, "{secret}");
        }
        assert_eq!(mask.apply("true abc p4ss 5432"), "true abc [secret] 5432");
    }

    #[test]
    fn json_document_stays_valid() {
        let mask = Mask::default();
        for secret in [
            "say \"hi\"",
            "a<b>&c-d",
            "654321",
            "name",
            "line-one\nline-two",
        ] {
            mask.add(secret);
        }
        let event = r#"{"name":"say \"hi\"","go":"x a\u003cb\u003e\u0026c-d","pin":654321,"list":["1654321","line-one\nline-two"]}"#;
        let masked: Value = serde_json::from_str(&mask.apply_json(event)).unwrap();
        let expected = serde_json::json!({
            "name": "[secret]", "go": "x [secret]", "pin": "[secret]",
            "list": ["1[secret]", "[secret]\n[secret]"],
        });
        assert_eq!(masked, expected);
        let plain = r#"{"other":"text","escape":"\n"}"#;
        assert_eq!(mask.apply_json(plain), plain);
        assert_eq!(mask.apply_json("not json: 654321"), "not json: [secret]");
    }

    #[test]
    fn secret_within_json_text_is_masked() {
        let mask = Mask::default();
        mask.add("a<b>\"c\"");
        let printed = r#"{"as most": "a<b>\"c\"", "as Go": "a\u003cb\u003e\"c\""}"#;
        let expected = r#"{"as most": "[secret]", "as Go": "[secret]"}"#;
        assert_eq!(mask.apply(printed), expected);
    }
}
