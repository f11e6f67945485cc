//! Stack outputs in the status: secret ones are masked, and those that would make the Stack too
//! large to read or write are omitted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use pko_api::{
    names::{SECRET_OUTPUT, annotations},
    raw_json::measure,
};
use serde_json::Value;

use super::StackOutputs;

/// The deepest nesting of an output.
const MAX_DEPTH: usize = 64;
/// The limit for all outputs together: a Stack is read often, and etcd accepts 1.5 MiB.
const MAX_BYTES: usize = 256 * 1024;
/// The limit for the number of values: short ones take more memory than their text.
const MAX_VALUES: usize = 50_000;
/// The most outputs that a remark names.
const NAMED: usize = 5;

/// The outputs in the Secret of an Update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShownOutputs {
    pub values: StackOutputs,
    /// Which outputs are omitted, and why.
    pub remark: Option<String>,
}

impl From<StackOutputs> for ShownOutputs {
    fn from(values: StackOutputs) -> Self {
        Self {
            values,
            remark: None,
        }
    }
}

/// The outputs in the Secret of an Update, as the status shows them.
#[must_use]
pub fn shown_outputs(secret: &Secret) -> ShownOutputs {
    let masked = masked_keys(secret);
    let mut space = Space::default();
    let (mut values, mut left_out) = (BTreeMap::new(), Vec::new());
    for (key, value) in secret.data.iter().flatten() {
        // Without a readable list of the secret ones, all are masked.
        let is_plain = masked.as_ref().is_some_and(|masked| !masked.contains(key));
        let text = std::str::from_utf8(&value.0).ok().filter(|_| is_plain);
        if !space.take(key, text.unwrap_or(SECRET_OUTPUT)) {
            left_out.push(key.as_str());
            continue;
        }
        let shown = text.and_then(|text| serde_json::from_str(text).ok());
        let shown: Value = shown.unwrap_or_else(|| SECRET_OUTPUT.into());
        values.insert(key.clone(), shown);
    }
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let remark = (!left_out.is_empty()).then(|| remark(&left_out, name));
    ShownOutputs { values, remark }
}

fn masked_keys(secret: &Secret) -> Option<BTreeSet<String>> {
    let annotations = secret.metadata.annotations.as_ref()?;
    serde_json::from_str(annotations.get(annotations::SECRET_OUTPUTS)?).ok()
}

/// The used part of the limits.
#[derive(Default)]
struct Space {
    bytes: usize,
    values: usize,
}

impl Space {
    /// Takes the space of an output if there is enough.
    fn take(&mut self, key: &str, json: &str) -> bool {
        let size = measure(json);
        let bytes = self.bytes + key.len() + size.bytes;
        let values = self.values + size.values + 1;
        let fits = size.depth <= MAX_DEPTH && bytes <= MAX_BYTES && values <= MAX_VALUES;
        if fits {
            (self.bytes, self.values) = (bytes, values);
        }
        fits
    }
}

fn remark(left_out: &[&str], secret: &str) -> String {
    let named: Vec<String> = left_out
        .iter()
        .take(NAMED)
        .map(|key| format!("{key:?}"))
        .collect();
    let more = match left_out.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "the status does not show the outputs {}{more}: it holds {MAX_DEPTH} levels, {} KiB and \
         {MAX_VALUES} values; the Secret {secret} has them all",
        named.join(", "),
        MAX_BYTES / 1024,
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    fn secret(masked: Option<&str>, data: &[(&str, &str)]) -> Secret {
        let data = data
            .iter()
            .map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())));
        let mut secret = Secret {
            data: Some(data.collect()),
            ..Secret::default()
        };
        secret.metadata.name = Some("demo-1-stack-outputs".to_owned());
        let annotation =
            masked.map(|list| (annotations::SECRET_OUTPUTS.to_owned(), list.to_owned()));
        secret.metadata.annotations = Some(annotation.into_iter().collect());
        secret
    }

    const DATA: [(&str, &str); 3] = [
        ("url", "\"https://x\""),
        ("password", "\"hunter2\""),
        ("odd", "oops"),
    ];

    #[test]
    fn secret_outputs_are_masked() {
        let shown = shown_outputs(&secret(Some("[\"password\"]"), &DATA));
        assert_eq!(
            json!(shown.values),
            json!({ "url": "https://x", "password": "[secret]", "odd": "[secret]" })
        );
        assert_eq!(shown.remark, None);
    }

    #[test]
    fn without_a_readable_list_every_output_is_masked() {
        for list in [None, Some("password")] {
            let shown = shown_outputs(&secret(list, &DATA)).values;
            assert!(shown.values().all(|value| value == "[secret]"), "{shown:?}");
            assert_eq!(shown.len(), 3);
        }
    }

    #[test]
    fn outputs_that_are_too_deep_or_large_are_left_out_by_name() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let (deep, deepest) = (nested(MAX_DEPTH), nested(10_000));
        let long = format!("\"{}\"", "x".repeat(MAX_BYTES));
        let wide = format!("[0{}]", ",0".repeat(MAX_VALUES));
        let data = [
            ("deep", deep.as_str()),
            ("deepest", &deepest),
            ("long", &long),
            ("small", "1"),
            ("wide", &wide),
        ];
        let shown = shown_outputs(&secret(Some("[]"), &data));
        let names: Vec<&String> = shown.values.keys().collect();
        assert_eq!(names, ["deep", "small"]);
        assert_eq!(
            shown.remark.unwrap(),
            "the status does not show the outputs \"deepest\", \"long\", \"wide\": it holds 64 \
             levels, 256 KiB and 50000 values; the Secret demo-1-stack-outputs has them all"
        );
        // A masked one takes no space.
        let shown = shown_outputs(&secret(Some("[\"long\"]"), &[("long", &long)]));
        assert_eq!(json!(shown.values), json!({ "long": "[secret]" }));
    }

    #[test]
    fn many_outputs_left_out_are_counted() {
        let long = format!("\"{}\"", "x".repeat(MAX_BYTES));
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let data = names.map(|name| (name, long.as_str()));
        let remark = shown_outputs(&secret(Some("[]"), &data)).remark.unwrap();
        assert!(remark.contains("\"e\" and 2 more:"), "{remark}");
    }
}
