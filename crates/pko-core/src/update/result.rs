//! A run's result as an Update shows it, and its outputs as a Secret.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::{ByteString, Resource as _, api::core::v1::Secret};
use pko_api::{
    Update,
    auto::v1alpha1::ProjectInfo,
    names::{annotations, labels},
};
use serde_json::json;

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunOutcome {
    /// It did what it should.
    pub succeeded: bool,
    /// Why not, in one word; for a condition's reason.
    pub reason: Option<String>,
    /// What went wrong, or what the run had to say.
    pub message: String,
    /// When it began.
    pub start: Option<Timestamp>,
    /// When it ended.
    pub end: Option<Timestamp>,
    /// Where Pulumi Cloud shows it.
    pub permalink: Option<String>,
    /// The program's project.
    pub project: Option<ProjectInfo>,
    /// The stack's outputs, after `up`.
    pub outputs: BTreeMap<String, Output>,
}

/// An output of a stack.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Its value, as JSON.
    pub json: Vec<u8>,
    /// It is a secret.
    pub secret: bool,
}

impl std::fmt::Debug for Output {
    /// Never the value: it may be a secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Output")
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}

/// What the API server takes as the data of a Secret.
const MOST_BYTES: usize = 1024 * 1024;

impl RunOutcome {
    /// Why the outputs can't be kept, if they can't: a Secret that is refused would be tried for ever, and the
    /// result of a good update would never be recorded.
    #[must_use]
    pub fn outputs_problem(&self) -> Option<String> {
        let bytes: usize = self.outputs.values().map(|output| output.json.len()).sum();
        (bytes > MOST_BYTES).then(|| {
            format!("the outputs have {bytes} bytes and a Secret holds {MOST_BYTES}: they are not kept; export less")
        })
    }
}

/// The Secret that holds an Update's outputs; nothing where there are none, or more than it holds.
#[must_use]
pub fn outputs_secret(update: &Update, outcome: &RunOutcome) -> Option<Secret> {
    if outcome.outputs.is_empty() || outcome.outputs_problem().is_some() {
        return None;
    }
    let name = update.metadata.name.clone().unwrap_or_default();
    let secret_keys: BTreeSet<String> = outcome
        .outputs
        .iter()
        .filter(|(_, output)| output.secret)
        .map(|(key, _)| data_key(key))
        .collect();
    let data = outcome
        .outputs
        .iter()
        .map(|(key, output)| (data_key(key), ByteString(output.json.clone())));
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

/// An output's name as a key of a Secret, which takes fewer characters, and one at least.
fn data_key(output: &str) -> String {
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
    fn outputs_become_a_secret_that_says_which_are_secret() {
        let update: Update = serde_json::from_value(json!({
            "metadata": { "name": "demo-1", "namespace": "shop", "uid": "u" },
        }))
        .unwrap();
        let output = |json: &str, secret| Output {
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
    fn outputs_that_no_secret_holds_are_said_and_not_kept() {
        let of_bytes = |bytes: usize| RunOutcome {
            outputs: BTreeMap::from([(
                String::new(),
                Output {
                    json: vec![b'1'; bytes],
                    secret: false,
                },
            )]),
            ..RunOutcome::default()
        };
        let update = Update::default();
        let kept = outputs_secret(&update, &of_bytes(MOST_BYTES)).unwrap();
        assert!(
            kept.data.unwrap().contains_key("_"),
            "a key needs a character"
        );
        assert_eq!(of_bytes(MOST_BYTES).outputs_problem(), None);
        assert_eq!(outputs_secret(&update, &of_bytes(MOST_BYTES + 1)), None);
        let problem = of_bytes(MOST_BYTES + 1).outputs_problem().unwrap();
        assert!(problem.contains("1048577 bytes"), "{problem}");
    }
    #[test]
    fn the_secret_keys_are_sorted_as_they_are_written() {
        let secret = Output {
            json: b"1".to_vec(),
            secret: true,
        };
        // As names `a b` comes first, as keys `a_b` comes last; two names may become one key.
        let names = ["a-", "a b", "a/b"].map(|name| (name.to_owned(), secret.clone()));
        let outcome = RunOutcome {
            outputs: BTreeMap::from(names),
            ..RunOutcome::default()
        };
        let secret = outputs_secret(&Update::default(), &outcome).unwrap();
        let annotations = secret.metadata.annotations.unwrap();
        assert_eq!(annotations["pulumi.com/secrets"], r#"["a-","a_b"]"#);
        assert_eq!(secret.data.unwrap().len(), 2);
    }
}
