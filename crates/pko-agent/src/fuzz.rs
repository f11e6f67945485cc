//! Entry points for fuzzing: no input may panic, and some invariants hold for all inputs.

use std::path::Path;

use pko_proto::{agent::ConfigItem, convert::literal_config};
use serde_json::json;

use crate::{
    pulumi::event_log::EventDigest,
    workspace::{config_plan, env_file},
};

pub fn env_file(text: &str) {
    if let Ok(variables) = env_file::parse(text) {
        for (name, _) in &variables {
            assert!(
                !name.is_empty() && !name.contains(['=', '\0', '\n']),
                "{name:?}"
            );
        }
    }
}

pub fn config_key(key: &str, value: &str, path: bool, secret: bool) {
    let items: [ConfigItem; 1] = [literal_config(key, &json!(value), path, secret)];
    let sources = config_plan::ConfigSources {
        variable: &|_| None,
        file: &|_: &Path| None,
    };
    let Ok(resolved) = config_plan::resolve(&items, "my.project", &sources) else {
        return;
    };
    let calls = config_plan::plan(&resolved);
    assert_eq!(calls.len(), 1, "one value is one call");
    let argument = match &calls[..] {
        [config_plan::ConfigCommand::Paths(pairs)] => pairs.concat(),
        [config_plan::ConfigCommand::Document(document)] => {
            let parsed: serde_json::Value = serde_json::from_str(document).unwrap_or_default();
            assert!(parsed.is_object(), "{document}");
            document.clone()
        }
        _ => String::new(),
    };
    // Long enough not to occur in a key by chance.
    let marked = secret && value.len() > 6 && !key.contains(value);
    assert!(
        !(marked && argument.contains(value)),
        "a secret is in no argument"
    );
}

pub fn event_log(bytes: &[u8]) {
    let mut digest = EventDigest::default();
    let mut lines = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        digest.add(line);
        lines += 1;
    }
    assert_eq!(digest.lines, lines);
    if let Some(outputs) = &digest.outputs {
        let shown = crate::pulumi::outputs::from_event(outputs);
        assert!(shown.is_none_or(|shown| shown.len() == outputs.len()));
    }
}
