//! The ConfigMaps and Secrets that a spec refers to, and the versions of them that a run goes with. Pure.
//!
//! # Flow
//! What is seen first of an object is recorded with the next status. Each Update names the versions that it goes with,
//! and once it has ended, they are what is recorded. A version other than the recorded one is a reason to run, and makes
//! the workspace's pod anew before that: it has read its environment once and for all.
//!
//! # Guarantees
//! - An Update that was never made leaves the record as it was, so a change is not lost with it.
//! - A workspace that was somebody else's keeps its pod until something does change: nothing is recorded of it, so nothing
//!   is different. From then on its pod always bears the versions, because leaving them out would make it anew, too.

use std::{collections::BTreeSet, fmt};

use pko_api::pulumi::v1::{
    GitAuth, ReferencesStatus, ResourceRef, ResourceRefType, StackSpec, StackStatus,
};
use sha2::{Digest as _, Sha256};

use super::{ObservedStack, StackEvaluation, StackRead, StackStep, Versions};
use crate::Fact;

/// So many digits tell versions apart.
const DIGITS: usize = 16;

/// An object that a spec refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'spec> {
    /// Its kind.
    pub kind: ReferenceKind,
    /// Its name; it is in the Stack's namespace.
    pub name: &'spec str,
    /// Who needs it.
    pub user: ReferenceUser,
    /// What refers to it.
    pub field: SpecField<'spec>,
}

/// A kind of objects that specs refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// ConfigMaps.
    ConfigMap,
    /// Secrets.
    Secret,
}

/// Who needs an object that a spec refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceUser {
    /// The workspace: without it there is no run, and another version of it is a reason for one.
    Workspace,
    /// Whoever fetches the program. New credentials for a repository are no change of what is in it.
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

/// Everything that a spec refers to; an object as often as it is referred to.
pub fn references(spec: &StackSpec) -> impl Iterator<Item = Reference<'_>> {
    of_environment(spec)
        .chain(of_config(spec))
        .chain(of_source(spec))
        .filter(|reference| !reference.name.is_empty())
}

fn of_environment(spec: &StackSpec) -> impl Iterator<Item = Reference<'_>> {
    use ReferenceKind::{ConfigMap, Secret};

    let token = spec.access_token_secret.iter();
    let token = token.map(|name| whole(Secret, name, "accessTokenSecret"));
    let variables = spec.env_refs.iter();
    let variables = variables.filter_map(|(key, value)| followed(value, field("envRefs", key)));
    let config_maps = spec.envs.iter();
    let config_maps = config_maps.map(|name| whole(ConfigMap, name, "envs"));
    let secrets = spec.env_secrets.iter();
    let secrets = secrets.map(|name| whole(Secret, name, "envSecrets"));
    token.chain(variables).chain(config_maps).chain(secrets)
}

fn of_config(spec: &StackSpec) -> impl Iterator<Item = Reference<'_>> {
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
    let secrets = secrets.filter_map(|(key, value)| followed(value, field("secretsRef", key)));
    config.chain(secrets)
}

fn of_source(spec: &StackSpec) -> impl Iterator<Item = Reference<'_>> {
    let whole = spec.git_auth_secret.iter();
    let whole = whole.map(|name| self::whole(ReferenceKind::Secret, name, "gitAuthSecret"));
    let leaves = spec.git_auth.iter().flat_map(leaves);
    let leaves = leaves.filter_map(|(name, leaf)| followed(leaf, SpecField { name, key: None }));
    whole.chain(leaves).map(|reference| Reference {
        user: ReferenceUser::Source,
        ..reference
    })
}

/// The values of which git's credentials consist.
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

/// An object all of whose keys are used.
fn whole<'spec>(kind: ReferenceKind, name: &'spec str, field: &'static str) -> Reference<'spec> {
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

/// The object in which a value is, if it is in one.
fn followed<'spec>(value: &'spec ResourceRef, field: SpecField<'spec>) -> Option<Reference<'spec>> {
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

/// What the workspace needs.
pub(super) fn inputs(spec: &StackSpec) -> impl Iterator<Item = Reference<'_>> {
    references(spec).filter(|reference| reference.user == ReferenceUser::Workspace)
}

/// What is known of the objects of a kind.
fn known(observed: &ObservedStack, kind: ReferenceKind) -> &Fact<Versions> {
    match kind {
        ReferenceKind::ConfigMap => &observed.config_maps,
        ReferenceKind::Secret => &observed.secrets,
    }
}

/// The version of an input, if it is known and there is such an object.
fn version<'observed>(
    observed: &'observed ObservedStack,
    input: &Reference,
) -> Option<&'observed str> {
    match known(observed, input.kind) {
        Fact::Unknown => None,
        Fact::Known(versions) => versions.get(input.name)?.as_deref(),
    }
}

/// Whether it is known that there is no such object.
pub(super) fn is_missing(observed: &ObservedStack, input: &Reference) -> bool {
    matches!(known(observed, input.kind), Fact::Known(_)) && version(observed, input).is_none()
}

/// Asks for the inputs of a kind, unless there are none or their versions are known. It is always all of them, so that
/// one question is enough for all rules.
pub(super) fn ask(observed: &ObservedStack, kind: ReferenceKind) -> Option<StackStep> {
    if matches!(known(observed, kind), Fact::Known(_)) {
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

/// Asks for those inputs whose change is seen as it happens, if an earlier version of one is recorded.
pub(super) fn ask_for_watched(evaluation: &StackEvaluation) -> Option<StackStep> {
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
        .find_map(|kind| ask(&evaluation.observed, kind))
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

/// The first input that is there and not what is recorded.
pub(super) fn changed<'observed>(
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

/// The case with what was never seen before in its status.
pub(super) fn remembered(mut evaluation: StackEvaluation) -> StackEvaluation {
    let seen = seen(&evaluation.observed);
    if seen == ReferencesStatus::default() {
        return evaluation;
    }
    let recorded = evaluation.status.references.get_or_insert_default();
    for (name, version) in seen.config_maps {
        recorded.config_maps.entry(name).or_insert(version);
    }
    for (name, version) in seen.secrets {
        recorded.secrets.entry(name).or_insert(version);
    }
    evaluation
}

/// What is known of the inputs now.
fn seen(observed: &ObservedStack) -> ReferencesStatus {
    let mut seen = ReferencesStatus::default();
    for input in inputs(&observed.stack.spec) {
        let Some(version) = version(observed, &input) else {
            continue;
        };
        let versions = match input.kind {
            ReferenceKind::ConfigMap => &mut seen.config_maps,
            ReferenceKind::Secret => &mut seen.secrets,
        };
        versions.insert(input.name.to_owned(), version.to_owned());
    }
    seen
}

/// What a run that begins now goes with; nothing where the spec refers to nothing.
pub(super) fn of_run(observed: &ObservedStack, status: &StackStatus) -> Option<ReferencesStatus> {
    let seen = seen(observed);
    let marked = is_marked(observed, status);
    (seen != ReferencesStatus::default()).then(|| ReferencesStatus {
        changed: marked.then_some(true),
        ..seen
    })
}

/// Whether the workspace's pod bears the versions.
fn is_marked(observed: &ObservedStack, status: &StackStatus) -> bool {
    let before = status.references.as_ref();
    before.is_some_and(|before| before.changed == Some(true)) || changed(observed, status).is_some()
}

/// What the workspace's pod bears, if it bears anything: other versions give another one. What is not known, or gone,
/// is no other version.
pub(super) fn mark(observed: &ObservedStack, status: &StackStatus) -> Option<String> {
    if !is_marked(observed, status) {
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
        // Neither a name nor a version has a space or a line's end in it.
        digest.update(format!("{kind} {name} {version}\n"));
    }
    Some(
        hex::encode(digest.finalize())
            .chars()
            .take(DIGITS)
            .collect(),
    )
}
