//! The ConfigMaps and Secrets that a spec refers to, and their versions.
//!
//! # Flow
//! The first version of an object is recorded with the next status. Each Update names the versions
//! that it runs with, and its result records them. A version that differs from the recorded one
//! starts a run, and replaces the workspace's pod before that, because a pod reads its environment
//! only at its start.
//!
//! # Guarantees
//! - An Update that was never created leaves the record unchanged, so a change is not lost with it.
//! - A Workspace that was taken over from upstream keeps its pod until something changes: without a
//!   record there is no difference. From then on its pod always has the annotation with the
//!   versions, because its removal would replace the pod, too.

use std::{collections::BTreeSet, fmt};

use pko_api::pulumi::v1::{
    GitAuth, ReferencesStatus, ResourceRef, ResourceRefType, StackSpec, StackStatus,
};
use sha2::{Digest as _, Sha256};

use super::{ObservedStack, StackEvaluation, StackRead, StackStep, Versions};
use crate::Fact;

/// Digits of the hash in the pod's annotation.
const DIGITS: usize = 16;

/// An object that a spec refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'spec> {
    pub kind: ReferenceKind,
    /// Its name, in the Stack's namespace.
    pub name: &'spec str,
    pub user: ReferenceUser,
    /// The field that refers to it.
    pub field: SpecField<'spec>,
}

/// The kind of an object that a spec refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    ConfigMap,
    Secret,
}

/// What needs an object that a spec refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceUser {
    /// The workspace. No run starts without the object, and a new version of it starts one.
    Workspace,
    /// The download of the program. New credentials for a repository do not change its content.
    Source,
}

/// A field of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecField<'spec> {
    name: &'static str,
    key: Option<&'spec str>,
}

impl fmt::Display for ReferenceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        })
    }
}

impl fmt::Display for SpecField<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "spec.{}", self.name)?;
        self.key.map_or(Ok(()), |key| write!(formatter, ".{key}"))
    }
}

/// All references of a spec. An object with several references occurs several times.
pub fn references(spec: &StackSpec) -> impl Iterator<Item = Reference<'_>> {
    environment_references(spec)
        .chain(config_references(spec))
        .chain(source_references(spec))
        .filter(|reference| !reference.name.is_empty())
}

fn environment_references(spec: &StackSpec) -> impl Iterator<Item = Reference<'_>> {
    use ReferenceKind::{ConfigMap, Secret};

    let token = spec.access_token_secret.iter();
    let token = token.map(|name| whole_object(Secret, name, "accessTokenSecret"));
    let variables = spec.env_refs.iter();
    let variables =
        variables.filter_map(|(key, value)| selected_object(value, field("envRefs", key)));
    let config_maps = spec.envs.iter();
    let config_maps = config_maps.map(|name| whole_object(ConfigMap, name, "envs"));
    let secrets = spec.env_secrets.iter();
    let secrets = secrets.map(|name| whole_object(Secret, name, "envSecrets"));
    token.chain(variables).chain(config_maps).chain(secrets)
}

fn config_references(spec: &StackSpec) -> impl Iterator<Item = Reference<'_>> {
    let both = [
        ("configRef", &spec.config_ref),
        ("configRefs", &spec.config_refs),
    ];
    let config = both.into_iter().flat_map(|(name, references)| {
        references.iter().map(move |(key, reference)| Reference {
            kind: ReferenceKind::ConfigMap,
            name: &reference.name,
            user: ReferenceUser::Workspace,
            field: field(name, key),
        })
    });
    let secrets = spec.secrets_ref.iter();
    let secrets =
        secrets.filter_map(|(key, value)| selected_object(value, field("secretsRef", key)));
    config.chain(secrets)
}

fn source_references(spec: &StackSpec) -> impl Iterator<Item = Reference<'_>> {
    let whole = spec.git_auth_secret.iter();
    let whole = whole.map(|name| whole_object(ReferenceKind::Secret, name, "gitAuthSecret"));
    let leaves = spec.git_auth.iter().flat_map(leaves);
    let leaves =
        leaves.filter_map(|(name, leaf)| selected_object(leaf, SpecField { name, key: None }));
    whole.chain(leaves).map(|reference| Reference {
        user: ReferenceUser::Source,
        ..reference
    })
}

/// The parts of git's credentials.
fn leaves(auth: &GitAuth) -> impl Iterator<Item = (&'static str, &ResourceRef)> {
    let (ssh, basic) = (auth.ssh_auth.as_ref(), auth.basic_auth.as_ref());
    let (token, app) = (auth.access_token.as_ref(), auth.github_app.as_ref());
    [
        (
            "gitAuth.sshAuth.sshPrivateKey",
            ssh.map(|ssh| &ssh.ssh_private_key),
        ),
        (
            "gitAuth.sshAuth.password",
            ssh.and_then(|ssh| ssh.password.as_ref()),
        ),
        ("gitAuth.accessToken", token),
        (
            "gitAuth.basicAuth.userName",
            basic.map(|basic| &basic.user_name),
        ),
        (
            "gitAuth.basicAuth.password",
            basic.map(|basic| &basic.password),
        ),
        ("gitAuth.githubApp.appID", app.map(|app| &app.app_id)),
        (
            "gitAuth.githubApp.installationID",
            app.map(|app| &app.installation_id),
        ),
        (
            "gitAuth.githubApp.privateKey",
            app.map(|app| &app.private_key),
        ),
    ]
    .into_iter()
    .filter_map(|(name, leaf)| Some((name, leaf?)))
}

fn field<'spec>(name: &'static str, key: &'spec str) -> SpecField<'spec> {
    let key = Some(key);
    SpecField { name, key }
}

/// A reference to all keys of an object.
fn whole_object<'spec>(
    kind: ReferenceKind,
    name: &'spec str,
    field: &'static str,
) -> Reference<'spec> {
    Reference {
        kind,
        name,
        user: ReferenceUser::Workspace,
        field: SpecField {
            name: field,
            key: None,
        },
    }
}

/// The object that contains a value, unless the value is a literal.
fn selected_object<'spec>(
    value: &'spec ResourceRef,
    field: SpecField<'spec>,
) -> Option<Reference<'spec>> {
    let (kind, selected) = match &value.reference_type {
        ResourceRefType::Secret => (ReferenceKind::Secret, value.secret.as_ref()?),
        ResourceRefType::ConfigMap => (ReferenceKind::ConfigMap, value.config_map.as_ref()?),
        _ => return None,
    };
    Some(Reference {
        kind,
        name: &selected.name,
        user: ReferenceUser::Workspace,
        field,
    })
}

/// The references that the workspace needs.
pub(super) fn inputs(spec: &StackSpec) -> impl Iterator<Item = Reference<'_>> {
    references(spec).filter(|reference| reference.user == ReferenceUser::Workspace)
}

/// The versions of the objects of a kind.
fn versions(observed: &ObservedStack, kind: ReferenceKind) -> &Fact<Versions> {
    match kind {
        ReferenceKind::ConfigMap => &observed.config_maps,
        ReferenceKind::Secret => &observed.secrets,
    }
}

/// The version of an input, if it has been read and the object exists.
fn version<'observed>(
    observed: &'observed ObservedStack,
    input: &Reference,
) -> Option<&'observed str> {
    match versions(observed, input.kind) {
        Fact::Unknown => None,
        Fact::Known(versions) => versions.get(input.name)?.as_deref(),
    }
}

/// The inputs that were read and do not exist, one for each object.
pub(super) fn missing(observed: &ObservedStack) -> Vec<Reference<'_>> {
    let mut missing: Vec<Reference> = Vec::new();
    for input in inputs(&observed.stack.spec) {
        let is_same = |other: &Reference| (other.kind, other.name) == (input.kind, input.name);
        if is_missing(observed, &input) && !missing.iter().any(is_same) {
            missing.push(input);
        }
    }
    missing
}

fn is_missing(observed: &ObservedStack, input: &Reference) -> bool {
    matches!(versions(observed, input.kind), Fact::Known(_)) && version(observed, input).is_none()
}

/// The read of the inputs of a kind, unless there are none or they have been read. It reads all of
/// them, so that one read is enough for all rules.
pub(super) fn next_read(observed: &ObservedStack, kind: ReferenceKind) -> Option<StackStep> {
    if matches!(versions(observed, kind), Fact::Known(_)) {
        return None;
    }
    let inputs = inputs(&observed.stack.spec).filter(|input| input.kind == kind);
    let names: BTreeSet<String> = inputs.map(|input| input.name.to_owned()).collect();
    if names.is_empty() {
        return None;
    }
    Some(StackStep::Read(match kind {
        ReferenceKind::ConfigMap => StackRead::ConfigMaps(names),
        ReferenceKind::Secret => StackRead::Secrets(names),
    }))
}

/// The read of the inputs that are watched, if an earlier version of one is recorded.
pub(super) fn next_watched_read(evaluation: &StackEvaluation) -> Option<StackStep> {
    let secrets = evaluation.observed.settings.watches_secrets;
    let kinds = [ReferenceKind::ConfigMap]
        .into_iter()
        .chain(secrets.then_some(ReferenceKind::Secret));
    let recorded = evaluation.status.references.as_ref()?;
    kinds
        .filter(|kind| {
            let mut inputs = inputs(&evaluation.observed.stack.spec);
            inputs.any(|input| input.kind == *kind && recorded_version(recorded, &input).is_some())
        })
        .find_map(|kind| next_read(&evaluation.observed, kind))
}

fn recorded_version<'status>(
    recorded: &'status ReferencesStatus,
    input: &Reference,
) -> Option<&'status str> {
    let versions = match input.kind {
        ReferenceKind::ConfigMap => &recorded.config_maps,
        ReferenceKind::Secret => &recorded.secrets,
    };
    versions.get(input.name).map(String::as_str)
}

/// The first input that exists in another version than the recorded one.
pub(super) fn first_change<'observed>(
    observed: &'observed ObservedStack,
    status: &StackStatus,
) -> Option<Reference<'observed>> {
    let recorded = status.references.as_ref()?;
    inputs(&observed.stack.spec).find(|input| {
        let now = version(observed, input);
        let before = recorded_version(recorded, input);
        now.is_some() && before.is_some() && now != before
    })
}

/// Records the first versions of objects in the status.
pub(super) fn record_first_versions(mut evaluation: StackEvaluation) -> StackEvaluation {
    let current = current_versions(&evaluation.observed);
    if current == ReferencesStatus::default() {
        return evaluation;
    }
    let recorded = evaluation.status.references.get_or_insert_default();
    for (name, version) in current.config_maps {
        recorded.config_maps.entry(name).or_insert(version);
    }
    for (name, version) in current.secrets {
        recorded.secrets.entry(name).or_insert(version);
    }
    evaluation
}

/// The versions of the inputs that have been read.
fn current_versions(observed: &ObservedStack) -> ReferencesStatus {
    let mut current = ReferencesStatus::default();
    for input in inputs(&observed.stack.spec) {
        let Some(version) = version(observed, &input) else {
            continue;
        };
        let versions = match input.kind {
            ReferenceKind::ConfigMap => &mut current.config_maps,
            ReferenceKind::Secret => &mut current.secrets,
        };
        versions.insert(input.name.to_owned(), version.to_owned());
    }
    current
}

/// The versions that a run would have now, if the spec refers to anything.
pub(super) fn versions_of_run(
    observed: &ObservedStack,
    status: &StackStatus,
) -> Option<ReferencesStatus> {
    let current = current_versions(observed);
    let has_hash = has_hash(observed, status);
    (current != ReferencesStatus::default()).then(|| ReferencesStatus {
        changed: has_hash.then_some(true),
        ..current
    })
}

/// Whether the workspace's pod has the annotation with the versions.
fn has_hash(observed: &ObservedStack, status: &StackStatus) -> bool {
    let before = status.references.as_ref();
    before.is_some_and(|before| before.changed == Some(true))
        || first_change(observed, status).is_some()
}

/// The pod's annotation: a hash of the versions. An object that was not read, or is gone, keeps its
/// recorded version.
pub(super) fn version_hash(observed: &ObservedStack, status: &StackStatus) -> Option<String> {
    if !has_hash(observed, status) {
        return None;
    }
    let recorded = status.references.as_ref();
    let inputs = inputs(&observed.stack.spec);
    let versions: BTreeSet<_> = inputs
        .map(|input| {
            let before = || recorded_version(recorded?, &input);
            let version = version(observed, &input).or_else(before);
            (input.kind, input.name, version.unwrap_or_default())
        })
        .collect();
    let mut digest = Sha256::new();
    for (kind, name, version) in versions {
        // Neither names nor versions contain spaces or line ends.
        digest.update(format!("{kind} {name} {version}\n"));
    }
    Some(
        hex::encode(digest.finalize())
            .chars()
            .take(DIGITS)
            .collect(),
    )
}
