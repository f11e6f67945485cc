//! Repeated names. Variables and config are lists by name, so the API server rejects a Workspace
//! that repeats one. Upstream's operator retries such a Workspace forever and reports nothing.

use pko_api::Stack;

use crate::stack::desired;

/// Rejects a variable that another field sets, too.
pub(super) fn repeated_variable(stack: &Stack) -> Option<String> {
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

/// Rejects a config key in two of the five fields.
pub(super) fn repeated_key(stack: &Stack) -> Option<String> {
    let spec = &stack.spec;
    let keys = spec.config.keys().map(|key| (key, "config"));
    let keys = keys.chain(spec.config_ref.keys().map(|key| (key, "configRef")));
    let keys = keys.chain(spec.config_refs.keys().map(|key| (key, "configRefs")));
    let keys = keys.chain(spec.secrets.keys().map(|key| (key, "secrets")));
    let keys = keys.chain(spec.secrets_ref.keys().map(|key| (key, "secretsRef")));
    let mut keys: Vec<(&String, &str)> = keys.collect();
    // A stable sort keeps the order of the fields.
    keys.sort_by_key(|(key, _)| *key);
    let mut neighbours = keys.iter().zip(keys.iter().skip(1));
    neighbours.find_map(|((key, field), (next, other))| {
        (key == next).then(|| format!("spec.{field} and spec.{other} both set {key:?}: keep one"))
    })
}
