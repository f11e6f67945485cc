//! The status of a Program: its archive, and whether its body is right.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pko_api::{
    Program, Undecodable,
    auto::v1alpha1::FluxArtifact,
    names::{
        conditions::{ConditionStatus, ConditionType},
        events::ProgramEvent,
        reasons::ProgramReason,
    },
    pulumi::v1::{Artifact, ProgramStatus},
};

use super::{
    ObservedProgram,
    address::{self, program_at},
    artifact::archive,
    check::{self, check},
};
use crate::{
    Event,
    condition_set::{ConditionSet, find},
};

/// Whether a Program is right: a reason, and what there is to say.
type Verdict = (ProgramReason, String);

/// Whether this operator has published the Program's current generation. Upstream's operator writes no conditions, and
/// the digest that it left is of an archive that only it serves.
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

/// The artifact that this operator serves for the generation of a Program that an artifact is of.
#[must_use]
pub fn served_artifact(program: &Program, fetched: &FluxArtifact) -> Option<FluxArtifact> {
    let metadata = &program.metadata;
    let (namespace, name, generation) = program_at(fetched.url.as_deref()?)?;
    let is_current = metadata.namespace.as_deref() == Some(namespace)
        && metadata.name.as_deref() == Some(name)
        && metadata.generation == Some(generation);
    let status = program.status.as_ref();
    let artifact = status.and_then(|status| status.artifact.as_ref())?;
    (is_current && is_published(program)).then(|| FluxArtifact {
        url: Some(artifact.url.clone()),
        digest: artifact.digest.clone(),
        dir: fetched.dir.clone(),
    })
}

/// The status of a Program that is published. One that is wrong is published, too: whoever runs it hears from Pulumi.
pub(super) fn published_status(observed: &ObservedProgram, now: Timestamp) -> ProgramStatus {
    let program = &observed.program;
    let stored = program.status.as_ref();
    let (artifact, verdict) = match artifact(observed, now) {
        Ok(artifact) => (Some(artifact), verdict(observed)),
        Err(error) => {
            let text = format!(
                "{error}: {}",
                std::error::Error::source(&error).map_or_else(String::new, ToString::to_string)
            );
            (None, (ProgramReason::ArchiveFailed, text))
        }
    };
    ProgramStatus {
        observed_generation: Some(program.metadata.generation.unwrap_or_default()),
        artifact,
        conditions: conditions(
            stored.map_or(&[], |status| &status.conditions),
            program.metadata.generation,
            &verdict,
            now,
        ),
    }
}

/// The status of a Program that does not decode; the archive is that of the last one that did.
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

/// The event that goes with a new status: once for each thing that is wrong.
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

fn verdict(observed: &ObservedProgram) -> Verdict {
    let name = observed
        .program
        .metadata
        .name
        .as_deref()
        .unwrap_or_default();
    let found = check(name, &observed.program.program);
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

fn artifact(observed: &ObservedProgram, now: Timestamp) -> Result<Artifact, super::ArchiveError> {
    let metadata = &observed.program.metadata;
    let (namespace, name) = (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let generation = metadata.generation.unwrap_or_default();
    let archive = archive(&observed.program)?;
    let seal = observed.seal.as_deref();
    let mut artifact = Artifact {
        path: address::path(namespace, name, generation),
        url: address::url(&observed.advertised, namespace, name, generation, seal),
        revision: generation.to_string(),
        digest: Some(archive.digest.clone()),
        last_update_time: Time(now),
        size: i64::try_from(archive.bytes.len()).ok(),
        metadata: std::collections::BTreeMap::new(),
    };
    let stored = observed.program.status.as_ref();
    if let Some(before) = stored.and_then(|status| status.artifact.as_ref()) {
        // Nothing new was made: the time stays, and a restart of the operator writes nothing.
        let time = artifact.last_update_time.clone();
        artifact.last_update_time = before.last_update_time.clone();
        if artifact != *before {
            artifact.last_update_time = time;
        }
    }
    Ok(artifact)
}
