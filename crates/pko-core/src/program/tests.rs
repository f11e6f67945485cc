//! Decisions about a Program, as tables.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{Decoded, names::conditions::ConditionType, pulumi::v1::ProgramBody};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Plan, condition_set::find};

pub(super) fn observed(body: &Value) -> ObservedProgram {
    let program = serde_json::from_value(json!({
        "metadata": {
            "name": "hello", "namespace": "shop", "generation": 1,
            "uid": "1f3a9c2e-aaaa-bbbb-cccc-000000000001",
        },
        "program": body,
    }));
    ObservedProgram {
        program: program.unwrap(),
        advertised: "operator.svc:9090".into(),
        seal: None,
        generations: Fact::Unknown,
        publication: Fact::Unknown,
    }
}

fn right() -> ObservedProgram {
    observed(&json!({ "outputs": { "greeting": "hi" } }))
}

fn wrong() -> ObservedProgram {
    observed(&json!({ "outputs": { "greeting": "${" } }))
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The plan, with these responses.
pub(super) fn plan(
    observed: &ObservedProgram,
    second: i64,
    kept: &[i64],
    referred: &[i64],
) -> Plan<ProgramEffect> {
    let mut observed = observed.clone();
    for _ in 0..2 {
        let ProgramStep::Read(read) = observed.decide(at(second)) else {
            break;
        };
        observed.observe(match read {
            ProgramRead::Generations => ProgramResponse::Generations(Generations {
                kept: kept.iter().copied().collect(),
                referred: referred.iter().copied().collect(),
            }),
            ProgramRead::Publication => {
                let made = Publication::of(&observed.program);
                ProgramResponse::Publication(Some(Box::new(made)))
            }
        });
    }
    match observed.decide(at(second)) {
        ProgramStep::Finish(plan) => plan,
        request => panic!("{request:?} is repeated"),
    }
}

/// One word for each effect.
pub(super) fn shown(plan: &Plan<ProgramEffect>) -> Vec<String> {
    let shown = plan.effects.iter().map(|effect| match effect {
        ProgramEffect::StoreRevision(revision) => {
            format!("keep {}", revision.metadata.name.as_ref().unwrap())
        }
        ProgramEffect::PatchStatus(_) => "status".to_owned(),
        ProgramEffect::DeleteRevision { name, .. } => format!("delete {name}"),
        ProgramEffect::Emit(event) => format!("emit {}", event.reason),
    });
    shown.collect()
}

/// The observed state after the plan, as the API server stores it.
pub(super) fn carried_out(
    observed: &ObservedProgram,
    plan: &Plan<ProgramEffect>,
) -> ObservedProgram {
    let mut observed = observed.clone();
    for effect in &plan.effects {
        if let ProgramEffect::PatchStatus(status) = effect {
            let stored = serde_json::to_string(&status).unwrap();
            observed.program.status = Some(serde_json::from_str(&stored).unwrap());
        }
    }
    observed.generations = Fact::Unknown;
    observed.publication = Fact::Unknown;
    observed
}

pub(super) fn edited(observed: &ObservedProgram, generation: i64) -> ObservedProgram {
    let mut observed = observed.clone();
    observed.program.metadata.generation = Some(generation);
    observed
}

fn condition(observed: &ObservedProgram, kind: ConditionType) -> Option<(String, String, String)> {
    let status = observed.program.status.as_ref()?;
    let condition = find(&status.conditions, kind)?.clone();
    Some((condition.status, condition.reason, condition.message))
}

#[test]
fn new_program_is_stored_and_published_once() {
    let first = plan(&right(), 5, &[], &[]);
    assert_eq!(shown(&first), ["keep hello-1f3a9c2e-1", "status"]);
    assert_eq!((first.rule, first.requeue), ("publish", Requeue::Settled));
    let observed = carried_out(&right(), &first);
    // A restarted manager reads and writes nothing for it.
    let ProgramStep::Finish(again) = observed.decide(at(6)) else {
        panic!("something is asked")
    };
    assert_eq!(shown(&again), [""; 0]);
}

#[test]
fn generations_are_stored_while_referenced() {
    let published = carried_out(&right(), &plan(&right(), 5, &[], &[]));
    for (generation, kept, referred, expected, requeue) in [
        (
            2,
            vec![1],
            vec![1],
            vec!["keep hello-1f3a9c2e-2", "status"],
            Requeue::Settled,
        ),
        (
            3,
            vec![1, 2],
            vec![1],
            vec!["keep hello-1f3a9c2e-3", "status"],
            Requeue::After(GENERATIONS_RECHECK),
        ),
        (
            3,
            vec![1, 2],
            vec![2],
            vec!["keep hello-1f3a9c2e-3", "status", "delete hello-1f3a9c2e-1"],
            Requeue::Settled,
        ),
        // The last pass ended before it wrote the status.
        (3, vec![2, 3], vec![], vec!["status"], Requeue::Settled),
        (
            9,
            vec![],
            vec![],
            vec!["keep hello-1f3a9c2e-9", "status"],
            Requeue::Settled,
        ),
    ] {
        let plan = plan(&edited(&published, generation), 6, &kept, &referred);
        assert_eq!(shown(&plan), expected, "{kept:?} {referred:?}");
        assert_eq!(plan.requeue, requeue, "{kept:?} {referred:?}");
    }
}

#[test]
fn published_program_deletes_old_revisions_later() {
    let edited = edited(&right(), 3);
    let published = carried_out(&edited, &plan(&edited, 5, &[1, 2], &[1]));
    let waiting = plan(&published, 6, &[1, 2, 3], &[1, 3]);
    assert_eq!(
        (shown(&waiting), waiting.requeue),
        (vec![], Requeue::After(GENERATIONS_RECHECK))
    );
    let over = plan(&published, 7, &[1, 2, 3], &[3]);
    assert_eq!(shown(&over), ["delete hello-1f3a9c2e-1"]);
    assert_eq!(over.requeue, Requeue::Settled);
    // A generation that a user deleted is stored again.
    assert_eq!(
        shown(&plan(&published, 8, &[2], &[])),
        ["keep hello-1f3a9c2e-3"]
    );
}

#[test]
fn valid_program_is_ready() {
    let observed = carried_out(&right(), &plan(&right(), 5, &[], &[]));
    let ready = condition(&observed, ConditionType::Ready).unwrap();
    assert_eq!(ready, ("True".into(), "Published".into(), String::new()));
    assert_eq!(condition(&observed, ConditionType::Stalled), None);
}

#[test]
fn ready_program_reports_remarks() {
    let observed = observed(&json!({ "outputs": { "a": "${size}" } }));
    let observed = carried_out(&observed, &plan(&observed, 5, &[], &[]));
    let (status, _, message) = condition(&observed, ConditionType::Ready).unwrap();
    assert_eq!(status, "True");
    assert!(
        message.starts_with("program.outputs.a: \"size\""),
        "{message}"
    );
}

#[test]
fn invalid_program_is_published_and_reported_once() {
    let first = plan(&wrong(), 5, &[], &[]);
    assert_eq!(
        shown(&first),
        ["keep hello-1f3a9c2e-1", "status", "emit ProgramInvalid"]
    );
    let observed = carried_out(&wrong(), &first);
    for (kind, expected) in [
        (ConditionType::Ready, "False"),
        (ConditionType::Stalled, "True"),
    ] {
        let (status, reason, message) = condition(&observed, kind).unwrap();
        assert_eq!(
            (status.as_str(), reason.as_str()),
            (expected, "ProgramInvalid")
        );
        assert!(
            message.starts_with("program.outputs.greeting: \"${\""),
            "{message}"
        );
    }
    assert!(observed.program.status.as_ref().unwrap().artifact.is_some());
    assert_eq!(shown(&plan(&observed, 6, &[], &[])), [""; 0]);
    // An edit with the same problem emits no event.
    let plan = plan(&edited(&observed, 2), 7, &[1], &[]);
    assert_eq!(shown(&plan), ["keep hello-1f3a9c2e-2", "status"]);
}

#[test]
fn corrected_program_is_ready_with_new_transition_time() {
    let first = carried_out(&wrong(), &plan(&wrong(), 5, &[], &[]));
    let ready = |observed: &ObservedProgram| {
        let status = observed.program.status.as_ref().unwrap();
        let ready = find(&status.conditions, ConditionType::Ready).unwrap();
        (
            ready.last_transition_time.clone(),
            ready.observed_generation,
        )
    };
    assert_eq!(ready(&first), (Time(at(5)), Some(1)));
    let still = edited(&first, 2);
    let still = carried_out(&still, &plan(&still, 6, &[1], &[]));
    assert_eq!(ready(&still), (Time(at(5)), Some(2)));
    let mut corrected = edited(&still, 3);
    corrected.program.program = right().program.program;
    let corrected = carried_out(&corrected, &plan(&corrected, 7, &[1, 2], &[]));
    assert_eq!(ready(&corrected), (Time(at(7)), Some(3)));
    assert_eq!(condition(&corrected, ConditionType::Stalled), None);
}

#[test]
fn seal_changes_only_the_address() {
    let mut observed = right();
    observed.seal = Some("5ea1".into());
    let observed = carried_out(&observed, &plan(&observed, 5, &[], &[]));
    let artifact = observed.program.status.unwrap().artifact.unwrap();
    assert_eq!(
        artifact.url,
        "http://operator.svc:9090/programs/shop/hello/1/5ea1"
    );
    assert_eq!(artifact.path, "programs/shop/hello/1.tar.gz");
}

#[test]
fn moved_program_needs_no_body() {
    let published = carried_out(&right(), &plan(&right(), 5, &[], &[]));
    let mut moved = published.clone();
    moved.program.program = ProgramBody::default();
    moved.seal = Some("5ea1".into());
    let ProgramStep::Finish(plan) = moved.decide(at(6)) else {
        panic!("something is read")
    };
    assert_eq!(shown(&plan), ["status"]);
    let moved = carried_out(&moved, &plan).program.status.unwrap();
    let (before, after) = (
        published.program.status.unwrap().artifact.unwrap(),
        moved.artifact.unwrap(),
    );
    assert!(after.url.ends_with("/1/5ea1"), "{}", after.url);
    assert_eq!((after.digest, after.size), (before.digest, before.size));
    assert_eq!(after.last_update_time.0, at(6));
}

#[test]
fn program_of_another_version_is_published_again() {
    let mut published = carried_out(&right(), &plan(&right(), 5, &[], &[]));
    let status = published.program.status.as_mut().unwrap();
    let artifact = status.artifact.as_mut().unwrap();
    artifact.metadata.clear();
    artifact.digest = Some("sha256:of-another-version".to_owned());
    assert_eq!(
        published.decide(at(6)),
        ProgramStep::Read(ProgramRead::Publication)
    );
    let again = carried_out(&published, &plan(&published, 6, &[], &[]));
    let artifact = again.program.status.unwrap().artifact.unwrap();
    assert_eq!(
        artifact.digest,
        archive(&right().program).ok().map(|it| it.digest)
    );
}

#[test]
fn program_edited_meanwhile_is_left_alone() {
    let mut observed = right();
    observed.observe(ProgramResponse::Publication(None));
    let ProgramStep::Finish(plan) = observed.decide(at(5)) else {
        panic!("something is read")
    };
    assert_eq!(
        (shown(&plan), plan.requeue),
        (vec![], Requeue::After(GENERATIONS_RECHECK))
    );
}

#[test]
fn undecodable_program_is_reported_once() {
    let bad = |status: &Value| {
        let metadata = json!({ "name": "hello", "generation": 4 });
        let bad = json!({ "metadata": metadata, "program": { "resources": [] }, "status": status });
        let Decoded::Undecodable(bad) = Decoded::<Program>::from_value(bad).unwrap() else {
            panic!("it decodes")
        };
        *bad
    };
    let plan = ObservedProgram::decide_undecodable(&bad(&json!({})), at(5));
    assert_eq!(shown(&plan), ["status", "emit ProgramInvalid"]);
    let ProgramEffect::PatchStatus(status) = &plan.effects[0] else {
        panic!("{plan:?}")
    };
    assert_eq!(status.observed_generation, Some(4));
    let ready = find(&status.conditions, ConditionType::Ready).unwrap();
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str()),
        ("False", "ProgramInvalid")
    );
    assert!(
        ready.message.starts_with("program.resources"),
        "{}",
        ready.message
    );
    let again =
        ObservedProgram::decide_undecodable(&bad(&serde_json::to_value(status).unwrap()), at(6));
    assert_eq!(shown(&again), [""; 0]);
}

proptest! {
    /// Every plan settles, stores the generation before the status, and emits events last.
    #[test]
    fn program_plan_settles(
        kept in prop::collection::btree_set(1_i64..9, 0..6),
        referred in prop::collection::btree_set(1_i64..9, 0..3),
        generation in 1_i64..9, is_right: bool,
    ) {
        let observed = edited(&if is_right { right() } else { wrong() }, generation);
        let (mut kept, referred) = (kept, Vec::from_iter(referred));
        let first = plan(&observed, 5, &Vec::from_iter(kept.clone()), &referred);
        let order = |effect: &ProgramEffect| match effect {
            ProgramEffect::StoreRevision(_) => 0,
            ProgramEffect::PatchStatus(_) => 1,
            ProgramEffect::DeleteRevision { .. } => 2,
            ProgramEffect::Emit(_) => 3,
        };
        prop_assert!(first.effects.is_sorted_by_key(order));
        for gone in &first.effects {
            if let ProgramEffect::DeleteRevision { generation, name } = gone {
                prop_assert_eq!(&revision_name(&observed.program.metadata, *generation), name);
                kept.remove(generation);
            }
        }
        kept.insert(generation);
        let again = plan(&carried_out(&observed, &first), 6, &Vec::from_iter(kept), &referred);
        prop_assert_eq!(shown(&again), Vec::<String>::new());
    }
}
