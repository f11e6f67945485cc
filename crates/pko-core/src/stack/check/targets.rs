//! Where outputs can't go.

use pko_api::{
    Stack,
    pulumi::v1::{OutputsKind, ResourceRef, ResourceRefType, StackSpec},
};

/// The longest name of an object, and of a key in it.
const LONGEST: usize = 253;

/// An object or a key of a name that the API server does not take, or a key without an output.
pub(super) fn unnameable(stack: &Stack) -> Option<String> {
    let targets = stack.spec.outputs_to.iter().enumerate();
    targets.into_iter().find_map(|(index, target)| {
        let field = format!("spec.outputsTo[{index}]");
        if !is_name(&target.name) {
            return Some(format!(
                "{field}.name is {:?}, which is no name of an object: use small letters, digits, `-` and `.`",
                target.name
            ));
        }
        let mut keys = target.keys.iter();
        let bad = keys.find(|(key, output)| !is_key(key) || output.is_empty());
        bad.map(|(key, output)| {
            if output.is_empty() {
                return format!("{field}.keys.{key} names no output: fill it in or leave it out");
            }
            format!(
                "{field}.keys has {key:?}, which is no key of an object: use letters, digits, `-`, `_` and `.`"
            )
        })
    })
}

/// As Kubernetes names Secrets and ConfigMaps: parts between dots that begin and end with a letter or a digit.
fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
            return false;
        };
        inner(*first) && inner(*last) && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
    };
    name.len() <= LONGEST && name.split('.').all(is_part)
}

/// As Kubernetes names keys: they become files, so two dots may not begin one.
fn is_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=LONGEST).contains(&key.len())
        && key.bytes().all(allowed)
        && key != "."
        && !key.starts_with("..")
}

/// An object that the Stack itself reads: each update would be the cause of the next one.
pub(super) fn read_back(stack: &Stack) -> Option<String> {
    let read = read(&stack.spec);
    let targets = stack.spec.outputs_to.iter().enumerate();
    targets.into_iter().find_map(|(index, target)| {
        let mut read = read.iter();
        let same = |(_, kind, name): &&Read| *kind == target.kind && **name == target.name;
        let (field, kind, name) = read.find(same)?;
        Some(format!(
            "spec.outputsTo[{index}] writes the {kind:?} \"{name}\" that spec.{field} reads: choose another name"
        ))
    })
}

/// A field, and the object that it reads.
type Read<'spec> = (&'static str, OutputsKind, &'spec String);

fn read(spec: &StackSpec) -> Vec<Read<'_>> {
    use OutputsKind::{ConfigMap, Secret};

    let mut read: Vec<Read<'_>> = Vec::new();
    read.extend(spec.envs.iter().map(|name| ("envs", ConfigMap, name)));
    read.extend(
        spec.env_secrets
            .iter()
            .map(|name| ("envSecrets", Secret, name)),
    );
    let token = spec.access_token_secret.iter();
    read.extend(token.map(|name| ("accessTokenSecret", Secret, name)));
    let git = spec.git_auth_secret.iter();
    read.extend(git.map(|name| ("gitAuthSecret", Secret, name)));
    let config = spec.config_ref.values();
    read.extend(config.map(|reference| ("configRef", ConfigMap, &reference.name)));
    let config = spec.config_refs.values();
    read.extend(config.map(|reference| ("configRefs", ConfigMap, &reference.name)));
    for (field, references) in [
        ("envRefs", &spec.env_refs),
        ("secretsRef", &spec.secrets_ref),
    ] {
        let references = references.values().filter_map(referred);
        read.extend(references.map(|(kind, name)| (field, kind, name)));
    }
    read
}

fn referred(reference: &ResourceRef) -> Option<(OutputsKind, &String)> {
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
