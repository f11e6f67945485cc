//! Stack outputs as the status shows them: secret ones are masked.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use pko_api::names::{SECRET_OUTPUT, annotations};
use serde_json::Value;

/// The outputs in the Secret of an Update.
#[must_use]
pub fn masked_outputs(secret: &Secret) -> BTreeMap<String, Value> {
    let masked = masked_keys(secret);
    let data = secret.data.iter().flatten();
    data.map(|(key, value)| {
        let shown = match masked.as_ref() {
            Some(masked) if !masked.contains(key) => serde_json::from_slice(&value.0).ok(),
            // Without a readable list of the secret ones, all are masked.
            _ => None,
        };
        (key.clone(), shown.unwrap_or_else(|| SECRET_OUTPUT.into()))
    })
    .collect()
}

fn masked_keys(secret: &Secret) -> Option<BTreeSet<String>> {
    let list = secret
        .metadata
        .annotations
        .as_ref()?
        .get(annotations::SECRET_OUTPUTS)?;
    serde_json::from_str(list).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(annotations: &Value) -> Secret {
        serde_json::from_value(json!({
            "metadata": { "annotations": annotations },
            // "https://x", "hunter2", and a value that is not JSON
            "data": { "url": "Imh0dHBzOi8veCI=", "password": "Imh1bnRlcjIi", "odd": "b29wcw==" },
        }))
        .unwrap()
    }

    #[test]
    fn secret_outputs_are_masked() {
        let outputs = masked_outputs(&secret(&json!({ "pulumi.com/secrets": "[\"password\"]" })));
        assert_eq!(
            json!(outputs),
            json!({ "url": "https://x", "password": "[secret]", "odd": "[secret]" })
        );
    }

    #[test]
    fn without_a_readable_list_every_output_is_masked() {
        for annotations in [json!({}), json!({ "pulumi.com/secrets": "password" })] {
            let outputs = masked_outputs(&secret(&annotations));
            assert!(
                outputs.values().all(|value| value == "[secret]"),
                "{outputs:?}"
            );
        }
    }
}
