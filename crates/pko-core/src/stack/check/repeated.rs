//! Names that are given twice. Variables and config are lists by name: the API server refuses a Workspace that has one
//! of them twice, and upstream's operator tries that for ever without a word.

use pko_api::Stack;

use crate::stack::desired;

/// A variable that a field of its own sets, too.
pub(super) fn variable(stack: &Stack) -> Option<String> {
    let spec = &stack.spec;
    let own = [
        (desired::BACKEND_VARIABLE, "backend", &spec.backend),
        (
            desired::TOKEN_VARIABLE,
            "accessTokenSecret",
            &spec.access_token_secret,
        ),
    ];
    own.into_iter().find_map(|(variable, field, value)| {
        let set = value.as_ref().is_some_and(|value| !value.is_empty());
        (set && spec.env_refs.contains_key(variable)).then(|| {
            format!("spec.envRefs.{variable} and spec.{field} set the same variable: keep one")
        })
    })
}

/// A config key in two of the five fields.
pub(super) fn key(stack: &Stack) -> Option<String> {
    let spec = &stack.spec;
    let keys = spec.config.keys().map(|key| (key, "config"));
    let keys = keys.chain(spec.config_ref.keys().map(|key| (key, "configRef")));
    let keys = keys.chain(spec.config_refs.keys().map(|key| (key, "configRefs")));
    let keys = keys.chain(spec.secrets.keys().map(|key| (key, "secrets")));
    let keys = keys.chain(spec.secrets_ref.keys().map(|key| (key, "secretsRef")));
    let mut keys: Vec<(&String, &str)> = keys.collect();
    // Stable: of two fields the one that comes first in the config is named first.
    keys.sort_by_key(|(key, _)| *key);
    let mut neighbours = keys.iter().zip(keys.iter().skip(1));
    neighbours.find_map(|((key, field), (next, other))| {
        (key == next).then(|| format!("spec.{field} and spec.{other} both set {key:?}: keep one"))
    })
}
