//! Invalid targets of outputs.

use pko_api::{
    Stack,
    pulumi::v1::{OutputsKind, ResourceRef, ResourceRefType, StackSpec},
};

/// The longest name of an object, and of a key in it.
const LONGEST: usize = 253;

/// Rejects names and keys that the API server does not accept, and keys without an output.
pub(super) fn invalid_name(stack: &Stack) -> Option<String> {
    let targets = stack.spec.outputs_to.iter().enumerate();
    targets.into_iter().find_map(|(index, target)| {
        let field = format!("spec.outputsTo[{index}]");
        if !is_name(&target.name) {
            return Some(format!(
                "{field}.name is {:?}, which is not a valid object name: use lowercase letters, digits, `-` and `.`",
                target.name
            ));
        }
        let mut keys = target.keys.iter();
        let bad = keys.find(|(key, output)| !is_key(key) || output.is_empty());
        bad.map(|(key, output)| {
            if output.is_empty() {
                return format!("{field}.keys.{key} has no output: name one or remove the key");
            }
            format!(
                "{field}.keys has {key:?}, which is not a valid key: use letters, digits, `-`, `_` and `.`"
            )
        })
    })
}

/// Kubernetes' rule for Secrets and ConfigMaps: labels between dots, which begin and end with a
/// letter or a digit.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
            return false;
        };
        is_allowed(*first)
            && is_allowed(*last)
            && bytes.iter().all(|byte| is_allowed(*byte) || *byte == b'-')
    };
    name.len() <= LONGEST && name.split('.').all(is_part)
}

/// Kubernetes' rule for keys: they become file names, so none begins with two dots.
fn is_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=LONGEST).contains(&key.len())
        && key.bytes().all(allowed)
        && key != "."
        && !key.starts_with("..")
}

/// Rejects a target that the Stack itself reads, because each update would start the next one.
pub(super) fn target_is_input(stack: &Stack) -> Option<String> {
    let inputs = inputs(&stack.spec);
    let targets = stack.spec.outputs_to.iter().enumerate();
    targets.into_iter().find_map(|(index, target)| {
        let mut inputs = inputs.iter();
        let is_same = |(_, kind, name): &&TargetInput| *kind == target.kind && **name == target.name;
        let (field, kind, name) = inputs.find(is_same)?;
        Some(format!(
            "spec.outputsTo[{index}] writes the {kind:?} \"{name}\" that spec.{field} reads: choose another name"
        ))
    })
}

/// A field, and the object that it reads.
type TargetInput<'spec> = (&'static str, OutputsKind, &'spec String);

fn inputs(spec: &StackSpec) -> Vec<TargetInput<'_>> {
    use OutputsKind::{ConfigMap, Secret};

    let mut inputs: Vec<TargetInput<'_>> = Vec::new();
    inputs.extend(spec.envs.iter().map(|name| ("envs", ConfigMap, name)));
    inputs.extend(
        spec.env_secrets
            .iter()
            .map(|name| ("envSecrets", Secret, name)),
    );
    let token = spec.access_token_secret.iter();
    inputs.extend(token.map(|name| ("accessTokenSecret", Secret, name)));
    let git = spec.git_auth_secret.iter();
    inputs.extend(git.map(|name| ("gitAuthSecret", Secret, name)));
    let config = spec.config_ref.values();
    inputs.extend(config.map(|reference| ("configRef", ConfigMap, &reference.name)));
    let config = spec.config_refs.values();
    inputs.extend(config.map(|reference| ("configRefs", ConfigMap, &reference.name)));
    for (field, references) in [
        ("envRefs", &spec.env_refs),
        ("secretsRef", &spec.secrets_ref),
    ] {
        let references = references.values().filter_map(selected_object);
        inputs.extend(references.map(|(kind, name)| (field, kind, name)));
    }
    inputs
}

fn selected_object(reference: &ResourceRef) -> Option<(OutputsKind, &String)> {
    match reference.reference_type {
        ResourceRefType::Secret => {
            let selected = reference.secret.as_ref()?;
            Some((OutputsKind::Secret, &selected.name))
        }
        ResourceRefType::ConfigMap => {
            let selected = reference.config_map.as_ref()?;
            Some((OutputsKind::ConfigMap, &selected.name))
        }
        _ => None,
    }
}
