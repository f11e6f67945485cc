//! A Program becomes an archive that workspaces fetch: its document, its digest, its status.

mod artifact;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    Program,
    names::{
        conditions::{ConditionStatus, ConditionType},
        reasons::WorkspaceReason,
    },
    pulumi::v1::{Artifact, ProgramStatus},
};

pub use artifact::{Archive, ArchiveError, archive};

use crate::{
    condition_set::ConditionSet,
    step::{Plan, Requeue},
};

/// What is known of a Program.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The object.
    pub program: Program,
    /// Where workspaces reach the operator's file server, with or without `http://`.
    pub advertised: String,
}

/// What is done for a Program.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Writes the status.
    PatchStatus(Box<ProgramStatus>),
}

/// Publishes the archive of the Program's current generation, and says so once.
///
/// # Errors
/// The archive can't be made: the body is not JSON, which no stored object shows.
pub fn decide(world: &World, now: Timestamp) -> Result<Plan<Effect>, ArchiveError> {
    let status = published(world, now)?;
    let effects = if world.program.status.as_ref() == Some(&status) {
        Vec::new()
    } else {
        vec![Effect::PatchStatus(Box::new(status))]
    };
    Ok(Plan {
        rule: "publish",
        effects,
        requeue: Requeue::Settled,
    })
}

fn published(world: &World, now: Timestamp) -> Result<ProgramStatus, ArchiveError> {
    let metadata = &world.program.metadata;
    let (namespace, name) = (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let generation = metadata.generation.unwrap_or_default();
    let archive = archive(&world.program)?;
    let path = format!("programs/{namespace}/{name}/{generation}");
    let mut artifact = Artifact {
        path: format!("{path}.tar.gz"),
        url: format!("{}/{path}", with_scheme(&world.advertised)),
        revision: generation.to_string(),
        digest: Some(archive.digest.clone()),
        last_update_time: Time(now),
        size: i64::try_from(archive.bytes.len()).ok(),
        metadata: std::collections::BTreeMap::new(),
    };
    let stored = world.program.status.as_ref();
    if let Some(before) = stored.and_then(|status| status.artifact.as_ref()) {
        // Nothing new was made: the time stays, and a restart of the operator writes nothing.
        let time = artifact.last_update_time.clone();
        artifact.last_update_time = before.last_update_time.clone();
        if artifact != *before {
            artifact.last_update_time = time;
        }
    }
    let mut conditions = ConditionSet::new(stored.map_or(&[], |status| &status.conditions), now);
    conditions.set(
        ConditionType::Ready,
        ConditionStatus::True,
        WorkspaceReason::Succeeded.as_str(),
        "",
    );
    Ok(ProgramStatus {
        observed_generation: Some(generation),
        artifact: Some(artifact),
        conditions: conditions.into_conditions(),
    })
}

fn with_scheme(advertised: &str) -> String {
    let address = advertised.trim_end_matches('/');
    if address.starts_with("http://") || address.starts_with("https://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn world() -> World {
        let program = serde_json::from_value(json!({
            "metadata": { "name": "hello", "namespace": "shop", "generation": 3 },
            "program": { "outputs": { "greeting": "hi" } },
        }));
        World {
            program: program.unwrap(),
            advertised: "operator.svc:9090".into(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn status(world: &World, second: i64) -> Option<ProgramStatus> {
        let plan = decide(world, at(second)).unwrap();
        plan.effects
            .into_iter()
            .next()
            .map(|Effect::PatchStatus(status)| *status)
    }

    #[test]
    fn a_new_program_is_published() {
        let artifact = status(&world(), 5).unwrap().artifact.unwrap();
        assert_eq!(
            artifact.url,
            "http://operator.svc:9090/programs/shop/hello/3"
        );
        assert_eq!(artifact.path, "programs/shop/hello/3.tar.gz");
        assert_eq!(artifact.revision, "3");
        assert!(artifact.digest.unwrap().starts_with("sha256:"));
        assert_eq!(artifact.last_update_time, Time(at(5)));
    }

    #[test]
    fn a_published_program_is_left_alone() {
        let mut world = world();
        world.program.status = status(&world, 5);
        assert_eq!(status(&world, 6), None);
    }

    #[test]
    fn a_new_generation_or_address_is_published_anew() {
        let mut world = world();
        world.program.status = status(&world, 5);
        world.program.metadata.generation = Some(4);
        let artifact = status(&world, 6).unwrap().artifact.unwrap();
        assert_eq!(
            (artifact.revision.as_str(), artifact.last_update_time),
            ("4", Time(at(6)))
        );
        world.advertised = "https://elsewhere/".into();
        let artifact = status(&world, 7).unwrap().artifact.unwrap();
        assert_eq!(artifact.url, "https://elsewhere/programs/shop/hello/4");
    }
}
