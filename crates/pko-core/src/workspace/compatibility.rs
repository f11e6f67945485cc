//! Config that only newer versions of Pulumi's CLI support.

use pko_api::auto::v1alpha1::{ConfigItem, WorkspaceSpec};
use serde_json::Value;

/// The first version that accepts config as JSON.
const FIRST_WITH_JSON: [u64; 3] = [3, 202, 0];

/// Why this CLI does not support the config. Programs match on the first words.
pub(super) fn problem(spec: &WorkspaceSpec, version: &str) -> Option<String> {
    let mut items = spec.stacks.iter().flat_map(|stack| &stack.config);
    if !items.any(needs_json) {
        return None;
    }
    let Some((numbers, is_early)) = parse_version(version) else {
        return Some(format!("Failed to parse Pulumi version \"{version}\""));
    };
    let is_old = numbers < FIRST_WITH_JSON || (numbers == FIRST_WITH_JSON && is_early);
    is_old.then(|| {
        format!(
            "Pulumi CLI version {version} does not support JSON configuration, require >= v3.202.0"
        )
    })
}

/// Whether a value is not a string.
fn needs_json(item: &ConfigItem) -> bool {
    match (&item.value_from, &item.value) {
        (Some(from), _) => from.json == Some(true),
        (None, Some(Value::String(_)) | None) => false,
        (None, Some(_)) => true,
    }
}

/// The numbers of a version, with 0 for missing ones, and whether it is a prerelease.
fn parse_version(version: &str) -> Option<([u64; 3], bool)> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let version = version.split('+').next().unwrap_or_default();
    let (numbers, early) = version.split_once('-').unwrap_or((version, ""));
    let mut parsed = [0; 3];
    let mut places = parsed.iter_mut();
    for part in numbers.split('.') {
        *places.next()? = part.parse().ok()?;
    }
    Some((parsed, !early.is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(item: &Value, version: &str) -> Option<String> {
        let spec = json!({ "stacks": [{ "name": "dev", "config": [item] }] });
        problem(&serde_json::from_value(spec).unwrap(), version)
    }

    #[test]
    fn structured_config_needs_a_new_cli() {
        for item in [
            json!({ "key": "a", "value": "text" }),
            json!({ "key": "a", "value": "true" }),
            json!({ "key": "a", "valueFrom": { "env": "A" } }),
            json!({ "key": "a", "valueFrom": { "path": "/a", "json": false } }),
        ] {
            assert_eq!(message(&item, "3.197.0"), None, "{item}");
        }
        for item in [
            json!({ "key": "a", "value": 1 }),
            json!({ "key": "a", "value": false }),
            json!({ "key": "a", "value": { "b": 1 } }),
            json!({ "key": "a", "value": [1] }),
            json!({ "key": "a", "valueFrom": { "env": "A", "json": true } }),
        ] {
            let text = message(&item, "3.197.0").unwrap();
            assert_eq!(
                text,
                "Pulumi CLI version 3.197.0 does not support JSON configuration, require >= v3.202.0"
            );
            assert_eq!(message(&item, "3.202.0"), None);
        }
    }

    #[test]
    fn cli_version_is_parsed_leniently() {
        let number = json!({ "key": "a", "value": 1 });
        for new in [
            "3.202.0",
            "v3.202.0",
            "3.202",
            "3.259.0+pko.0.1.0",
            "4",
            "3.203.0-alpha.1",
        ] {
            assert_eq!(message(&number, new), None, "{new}");
        }
        for old in ["3.201.9", "v3.197.0", "3", "2.300.0", "3.202.0-alpha.1"] {
            assert!(message(&number, old).is_some(), "{old}");
        }
        for odd in ["", "new", "3.x", "1.2.3.4"] {
            let text = message(&number, odd).unwrap();
            assert_eq!(text, format!("Failed to parse Pulumi version \"{odd}\""));
        }
    }
}
