//! The outputs of a run: in a Secret after an update, redacted in the status after a preview.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::{ByteString, Resource as _, api::core::v1::Secret};
use pko_api::{
    Update,
    names::{SECRET_OUTPUT, annotations, labels},
    raw_json::measure,
};
use serde_json::{Value, json};

use super::{RunOutcome, StackOutput};

/// The API server's limit for the data of a Secret.
const MAX_BYTES: usize = 1024 * 1024;
/// Each output is an entry of the Secret and is processed several times.
const MAX_OUTPUTS: usize = 10_000;
/// A part of the API server's limit for an object; a status is read often.
const MAX_PLANNED_BYTES: usize = 64 * 1024;
/// An object with deeper values could not be read again.
const MAX_PLANNED_LEVELS: usize = 64;

impl RunOutcome {
    /// Why the outputs cannot be stored. Otherwise a rejected Secret would be retried for ever, and
    /// the result of a successful update would never be recorded.
    #[must_use]
    pub fn outputs_problem(&self) -> Option<String> {
        if self.omitted_outputs.is_some() {
            return self.omitted_outputs.clone();
        }
        if self.outputs.len() > MAX_OUTPUTS {
            let count = self.outputs.len();
            return Some(format!(
                "the {count} outputs are more than the limit of {MAX_OUTPUTS} and are not stored; export fewer"
            ));
        }
        let bytes = self.output_bytes();
        (bytes > MAX_BYTES).then(|| {
            format!(
                "the outputs have {bytes} bytes, more than the limit of {MAX_BYTES} for a Secret, \
                 and are not stored; export less"
            )
        })
    }

    /// Includes the names.
    fn output_bytes(&self) -> usize {
        let sizes = self.outputs.iter();
        sizes
            .map(|(name, output)| name.len() + output.json.len())
            .sum()
    }
}

/// The planned outputs with secrets redacted, or why they are omitted.
pub(super) fn redacted_outputs(outcome: &RunOutcome) -> Result<BTreeMap<String, Value>, String> {
    if let Some(problem) = outcome.outputs_problem() {
        return Err(problem);
    }
    let bytes = outcome.output_bytes();
    if bytes > MAX_PLANNED_BYTES {
        return Err(format!(
            "the planned outputs have {bytes} bytes, more than the limit of {MAX_PLANNED_BYTES} for a \
             status, and are omitted"
        ));
    }
    let texts = outcome.outputs.values().filter(|output| !output.secret);
    let texts = texts.filter_map(|output| std::str::from_utf8(&output.json).ok());
    let levels = texts.map(|text| measure(text).depth).max().unwrap_or(0);
    if levels > MAX_PLANNED_LEVELS {
        return Err(format!(
            "the planned outputs have {levels} levels, more than the limit of {MAX_PLANNED_LEVELS} for a status, and are omitted"
        ));
    }
    let redact = |(name, output): (&String, &StackOutput)| {
        let plain = (!output.secret).then(|| serde_json::from_slice(&output.json).ok());
        let redacted = || SECRET_OUTPUT.into();
        (name.clone(), plain.flatten().unwrap_or_else(redacted))
    };
    Ok(outcome.outputs.iter().map(redact).collect())
}

/// The Secret with an Update's outputs; `None` if there are no outputs, or too many.
#[must_use]
pub fn outputs_secret(update: &Update, outcome: &RunOutcome) -> Option<Secret> {
    if outcome.outputs.is_empty() || outcome.outputs_problem().is_some() {
        return None;
    }
    let name = update.metadata.name.clone().unwrap_or_default();
    let keys = data_keys(outcome.outputs.keys());
    let key = |name: &String| keys.get(name).cloned().unwrap_or_default();
    let is_secret = |(_, output): &(&String, &StackOutput)| output.secret;
    let secret = outcome.outputs.iter().filter(is_secret);
    let secret_keys: BTreeSet<String> = secret.map(|(name, _)| key(name)).collect();
    let all = outcome.outputs.iter();
    let data = all.map(|(name, output)| (key(name), ByteString(output.json.clone())));
    Some(Secret {
        metadata: ObjectMeta {
            name: Some(format!("{name}-stack-outputs")),
            namespace: update.metadata.namespace.clone(),
            labels: Some(BTreeMap::from([
                (
                    labels::AUTO_COMPONENT_KEY.to_owned(),
                    labels::UPDATE_COMPONENT.to_owned(),
                ),
                (labels::UPDATE_NAME.to_owned(), name.clone()),
            ])),
            annotations: Some(BTreeMap::from([(
                annotations::SECRET_OUTPUTS.to_owned(),
                json!(secret_keys).to_string(),
            )])),
            owner_references: Some(vec![OwnerReference {
                api_version: Update::API_VERSION.to_owned(),
                kind: Update::KIND.to_owned(),
                name,
                uid: update.metadata.uid.clone().unwrap_or_default(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        immutable: Some(true),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    })
}

/// The name of the outputs Secret if the usual name belongs to another owner.
#[must_use]
pub fn other_outputs_name(secret: &Secret, uid: &str) -> String {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let suffix: String = uid.chars().take(8).collect();
    format!("{name}-{suffix}")
}

/// The key of each output. If several names map to a key, an unchanged name gets it, otherwise the
/// first in alphabetical order; the others get a number.
fn data_keys<'names>(
    names: impl Iterator<Item = &'names String> + Clone,
) -> BTreeMap<&'names String, String> {
    let is_key = |name: &&String| data_key(name) == **name;
    let mut keys: BTreeMap<&String, String> = BTreeMap::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    // The next number to try for a key to which many names map.
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    let unchanged = names.clone().filter(is_key);
    for name in unchanged.chain(names.filter(|name| !is_key(name))) {
        let plain = data_key(name);
        let mut key = plain.clone();
        let number = next.entry(plain.clone()).or_insert(2);
        while taken.contains(&key) {
            key = format!("{plain}_{number}");
            *number += 1;
        }
        taken.insert(key.clone());
        keys.insert(name, key);
    }
    keys
}

/// An output's name as a key of a Secret, which allows fewer characters and at least one.
pub(crate) fn data_key(output: &str) -> String {
    if output.is_empty() {
        return "_".to_owned();
    }
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
    output
        .chars()
        .map(|character| if allowed(character) { character } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_secret_names_the_secret_keys() {
        let update: Update = serde_json::from_value(json!({
            "metadata": { "name": "demo-1", "namespace": "shop", "uid": "u" },
        }))
        .unwrap();
        let output = |json: &str, secret| StackOutput {
            json: json.into(),
            secret,
        };
        let outcome = RunOutcome {
            outputs: BTreeMap::from([
                ("url".to_owned(), output("\"https://x\"", false)),
                ("pass word/1".to_owned(), output("\"hunter2\"", true)),
            ]),
            ..RunOutcome::default()
        };
        let secret = serde_json::to_value(outputs_secret(&update, &outcome).unwrap()).unwrap();
        assert_eq!(secret["metadata"]["name"], "demo-1-stack-outputs");
        assert_eq!(
            secret["metadata"]["annotations"]["pulumi.com/secrets"],
            r#"["pass_word_1"]"#
        );
        assert_eq!(secret["data"]["url"], "Imh0dHBzOi8veCI=");
        assert_eq!(
            (&secret["immutable"], &secret["type"]),
            (&json!(true), &json!("Opaque"))
        );
        assert!(!format!("{outcome:?}").contains("hunter2"));
        assert_eq!(outputs_secret(&update, &RunOutcome::default()), None);
    }

    #[test]
    fn oversized_outputs_are_reported_and_not_stored() {
        let of_bytes = |bytes: usize| RunOutcome {
            outputs: BTreeMap::from([(
                String::new(),
                StackOutput {
                    json: vec![b'1'; bytes],
                    secret: false,
                },
            )]),
            ..RunOutcome::default()
        };
        let update = Update::default();
        let kept = outputs_secret(&update, &of_bytes(MAX_BYTES)).unwrap();
        assert!(
            kept.data.unwrap().contains_key("_"),
            "a key needs a character"
        );
        assert_eq!(of_bytes(MAX_BYTES).outputs_problem(), None);
        assert_eq!(outputs_secret(&update, &of_bytes(MAX_BYTES + 1)), None);
        let problem = of_bytes(MAX_BYTES + 1).outputs_problem().unwrap();
        assert!(problem.contains("1048577 bytes"), "{problem}");
    }

    fn with_names(names: &[&str]) -> RunOutcome {
        let output = |name: &&str| StackOutput {
            json: json!(name).to_string().into_bytes(),
            secret: true,
        };
        let outputs = names.iter().map(|name| ((*name).to_owned(), output(name)));
        RunOutcome {
            outputs: outputs.collect(),
            ..RunOutcome::default()
        }
    }

    #[test]
    fn secret_output_keys_are_sorted() {
        // As names `a b` comes first, as keys `a_b` comes last.
        let secret = outputs_secret(&Update::default(), &with_names(&["a-", "a b"])).unwrap();
        let annotations = secret.metadata.annotations.unwrap();
        assert_eq!(annotations["pulumi.com/secrets"], r#"["a-","a_b"]"#);
    }

    #[test]
    fn outputs_with_the_same_key_are_both_stored() {
        let outcome = with_names(&["a b", "a/b", "a_b", "a_b_2", "", "_"]);
        let secret = outputs_secret(&Update::default(), &outcome).unwrap();
        let shown: Vec<(String, String)> = secret
            .data
            .unwrap()
            .into_iter()
            .map(|(key, value)| (key, String::from_utf8(value.0).unwrap()))
            .collect();
        let expected = [
            ("_", "_"),
            ("__2", ""),
            ("a_b", "a_b"),
            ("a_b_2", "a_b_2"),
            ("a_b_3", "a b"),
            ("a_b_4", "a/b"),
        ];
        let expected = expected.map(|(key, name)| (key.to_owned(), json!(name).to_string()));
        assert_eq!(shown, expected, "a name that is a key keeps it");
    }

    #[test]
    fn other_outputs_name_has_a_part_of_the_uid() {
        let secret = outputs_secret(&Update::default(), &with_names(&["a"])).unwrap();
        let name = other_outputs_name(&secret, "0b5a5ff4-7a0e-4d3c-9a52-1f1f1f1f1f1f");
        assert_eq!(name, "-stack-outputs-0b5a5ff4");
    }

    #[test]
    fn planned_outputs_are_redacted_and_limited() {
        let output = |json: &str, secret| StackOutput {
            json: json.into(),
            secret,
        };
        let mut outcome = RunOutcome {
            outputs: BTreeMap::from([
                ("list".to_owned(), output("[1,2.5]", false)),
                ("odd".to_owned(), output("no JSON", false)),
                ("password".to_owned(), output("\"hunter2\"", true)),
            ]),
            ..RunOutcome::default()
        };
        let expected = json!({ "list": [1, 2.5], "odd": "[secret]", "password": "[secret]" });
        assert_eq!(json!(redacted_outputs(&outcome).unwrap()), expected);
        let long = output(&"1".repeat(MAX_PLANNED_BYTES), false);
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        let mut of_depth = outcome.clone();
        of_depth
            .outputs
            .insert("deep".to_owned(), output(&deep, true));
        assert!(
            redacted_outputs(&of_depth).is_ok(),
            "a secret one is redacted"
        );
        of_depth
            .outputs
            .insert("deep".to_owned(), output(&deep, false));
        let problem = redacted_outputs(&of_depth).unwrap_err();
        assert!(problem.contains("have 65 levels"), "{problem}");
        outcome.outputs.insert("long".to_owned(), long);
        assert!(
            redacted_outputs(&outcome)
                .unwrap_err()
                .contains("are omitted")
        );
    }
}
