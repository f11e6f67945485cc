//! The status of a Program: its archive, and the result of the check.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pko_api::{
    Program, Undecodable,
    names::{
        annotations,
        conditions::{ConditionStatus, ConditionType},
        events::ProgramEvent,
        reasons::ProgramReason,
    },
    pulumi::v1::{Artifact, ProgramStatus},
};

use super::{
    ObservedProgram, address,
    artifact::Archive,
    check::{self, check},
    publication::{Publication, maker},
};
use crate::{
    Event,
    condition_set::{ConditionSet, find},
};

/// The result of the check: a reason and a message.
pub(super) type Verdict = (ProgramReason, String);

/// Whether this operator has published the Program's current generation. Upstream's operator writes
/// no conditions, and its digest belongs to an archive that only it serves.
#[must_use]
pub fn is_published(program: &Program) -> bool {
    let generation = program.metadata.generation;
    let Some(status) = &program.status else {
        return false;
    };
    let ready = find(&status.conditions, ConditionType::Ready);
    status.observed_generation == generation
        && ready.is_some_and(|ready| ready.observed_generation == generation)
}

/// The status of a published Program. An invalid Program is published too; Pulumi reports its
/// errors.
pub(super) fn published_status(
    observed: &ObservedProgram,
    made: &Publication,
    now: Timestamp,
) -> ProgramStatus {
    let program = &observed.program;
    let stored = program.status.as_ref();
    let archive = made.archive.as_ref().ok();
    ProgramStatus {
        observed_generation: Some(program.metadata.generation.unwrap_or_default()),
        artifact: archive.map(|archive| artifact(observed, archive, now)),
        conditions: conditions(
            stored.map_or(&[], |status| &status.conditions),
            program.metadata.generation,
            &made.verdict,
            now,
        ),
    }
}

/// The status of a Program whose archive is unchanged; its address may have changed.
pub(super) fn moved_status(observed: &ObservedProgram, now: Timestamp) -> ProgramStatus {
    let mut status = observed.program.status.clone().unwrap_or_default();
    if let Some(artifact) = &mut status.artifact {
        let (path, url) = addresses(observed);
        if (&artifact.path, &artifact.url) != (&path, &url) {
            artifact.last_update_time = Time(now);
            (artifact.path, artifact.url) = (path, url);
        }
    }
    status
}

/// The status of a Program that does not decode. The archive of the last decoded generation stays.
pub(super) fn undecodable(
    stored: &ProgramStatus,
    undecodable: &Undecodable,
    now: Timestamp,
) -> ProgramStatus {
    let generation = undecodable.metadata.generation;
    let verdict = (ProgramReason::ProgramInvalid, undecodable.error.to_string());
    ProgramStatus {
        observed_generation: generation,
        conditions: conditions(&stored.conditions, generation, &verdict, now),
        ..stored.clone()
    }
}

/// The event for a new status, once for each problem.
pub(super) fn event(
    stored: Option<&ProgramStatus>,
    status: &ProgramStatus,
) -> Option<Event<ProgramEvent>> {
    let wrong = find(&status.conditions, ConditionType::Stalled)?;
    let before = stored.and_then(|status| find(&status.conditions, ConditionType::Stalled));
    let known = before
        .is_some_and(|before| (&before.reason, &before.message) == (&wrong.reason, &wrong.message));
    (!known).then(|| Event {
        reason: ProgramEvent::ProgramInvalid,
        message: wrong.message.clone(),
        warning: true,
    })
}

/// Checks a Program.
pub(super) fn verdict(program: &Program, archive: &Result<Archive, String>) -> Verdict {
    if let Err(error) = archive {
        return (ProgramReason::ArchiveFailed, error.clone());
    }
    let name = program.metadata.name.as_deref().unwrap_or_default();
    let found = check(name, &program.program);
    if found.problems.is_empty() {
        (ProgramReason::Published, check::summary(&found.remarks))
    } else {
        (
            ProgramReason::ProgramInvalid,
            check::summary(&found.problems),
        )
    }
}

fn conditions(
    stored: &[Condition],
    generation: Option<i64>,
    (reason, message): &Verdict,
    now: Timestamp,
) -> Vec<Condition> {
    use ConditionStatus::{False, True};
    use ConditionType::{Ready, Stalled};

    let mut conditions = ConditionSet::new(stored, now);
    if *reason == ProgramReason::Published {
        conditions.set(Ready, True, reason.as_str(), message);
        conditions.remove(Stalled);
    } else {
        conditions.set(Ready, False, reason.as_str(), message);
        conditions.set(Stalled, True, reason.as_str(), message);
    }
    let mut conditions = conditions.into_conditions();
    for condition in &mut conditions {
        condition.observed_generation = generation;
    }
    conditions
}

/// The path and the URL of the current generation's archive.
fn addresses(observed: &ObservedProgram) -> (String, String) {
    let metadata = &observed.program.metadata;
    let (namespace, name) = (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let generation = metadata.generation.unwrap_or_default();
    let seal = observed.seal.as_deref();
    (
        address::path(namespace, name, generation),
        address::url(&observed.advertised, namespace, name, generation, seal),
    )
}

fn artifact(observed: &ObservedProgram, archive: &Archive, now: Timestamp) -> Artifact {
    let generation = observed.program.metadata.generation.unwrap_or_default();
    let (path, url) = addresses(observed);
    let made_by = (annotations::MADE_BY.to_owned(), maker().to_owned());
    let mut artifact = Artifact {
        path,
        url,
        revision: generation.to_string(),
        digest: Some(archive.digest.clone()),
        last_update_time: Time(now),
        size: i64::try_from(archive.bytes.len()).ok(),
        metadata: [made_by].into(),
    };
    let stored = observed.program.status.as_ref();
    if let Some(before) = stored.and_then(|status| status.artifact.as_ref()) {
        // An unchanged archive keeps its time, so that a restart of the operator writes nothing.
        let time = artifact.last_update_time.clone();
        artifact.last_update_time = before.last_update_time.clone();
        if artifact != *before {
            artifact.last_update_time = time;
        }
    }
    artifact
}
