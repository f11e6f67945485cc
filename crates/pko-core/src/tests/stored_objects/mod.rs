//! Whole objects, of any depth, width and length, from the text that the API server stores to the
//! status that is written: none panics, runs out of stack, or leaves a status that could not be
//! read again.

mod generator;

use std::env;

use jiff::Timestamp;
use pko_api::{Decoded, Program, Stack, StoredKind, Update, Workspace, raw_json::measure};
use serde::Serialize;
use serde_json::Value;

use self::generator::Generator;
use crate::{
    Fact, Machine, Step, StepOf, program,
    program::ObservedProgram,
    stack::{self, ObservedStack},
    update::{self, ObservedUpdate},
    workspace::{self, ObservedWorkspace},
};

/// With `PKO_FULL=1`, and without.
const ALL: u64 = 20_000;
const SOME: u64 = 600;
/// What we add to a status that is stored.
const MAX_STATUS_BYTES: usize = 128 * 1024;
/// More requests than any machine has.
const MAX_REQUESTS: usize = 16;

fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

/// A machine of this kind that answers its own requests, or stops where it would need a cluster.
trait Fuzzed: StoredKind {
    type Observed: Machine;

    fn observed(self) -> Self::Observed;

    fn respond(step: &StepOf<Self::Observed>) -> Option<<Self::Observed as Machine>::Response>;

    /// The status that an effect writes.
    fn status(effect: <Self::Observed as Machine>::Effect) -> Option<Value>;
}

fn json(status: impl Serialize) -> Value {
    serde_json::to_value(status).unwrap()
}

impl Fuzzed for Stack {
    type Observed = ObservedStack;

    fn observed(self) -> ObservedStack {
        ObservedStack::new(self)
    }

    fn respond(step: &stack::StackStep) -> Option<stack::StackResponse> {
        use stack::{StackRead as Read, StackResponse as Response, StackWrite as Write};

        Some(match step {
            Step::Finish(_) => return None,
            Step::Read(Read::CurrentUpdate(_)) => Response::CurrentUpdate(None),
            Step::Read(Read::Outputs(_)) => Response::NoOutputs,
            Step::Read(Read::Source(_)) => Response::Source(Ok(source())),
            Step::Read(Read::ConfigMaps(names)) => Response::ConfigMaps(versions(names)),
            Step::Read(Read::Secrets(names)) => Response::Secrets(versions(names)),
            Step::Read(Read::Prerequisites) => Response::Prerequisites(stack::Prerequisites::new()),
            Step::Read(Read::ExistingWorkspace(_)) => Response::ExistingWorkspace(None),
            Step::Write(Write::PublishOutputs(_)) => Response::Published(Ok(())),
            Step::Write(Write::ApplyWorkspace(workspace, _)) => {
                assert_readable(workspace.as_ref());
                Response::Workspace(Ok(workspace.clone()))
            }
            Step::Write(Write::CreateUpdate(update, _)) => {
                assert_readable(update.as_ref());
                Response::Created(Ok(()))
            }
        })
    }

    fn status(effect: stack::StackEffect) -> Option<Value> {
        match effect {
            stack::StackEffect::PatchStatus(status) => Some(json(status)),
            _ => None,
        }
    }
}

fn source() -> stack::ProgramSource {
    stack::ProgramSource {
        revision: "1".to_owned(),
        location: stack::Location::Artifact(pko_api::auto::v1alpha1::FluxArtifact {
            url: Some("http://operator/1".to_owned()),
            ..Default::default()
        }),
    }
}

fn versions(names: &std::collections::BTreeSet<String>) -> stack::Versions {
    let names = names.iter().cloned();
    names.map(|name| (name, Some("1".to_owned()))).collect()
}

impl Fuzzed for Program {
    type Observed = ObservedProgram;

    fn observed(self) -> ObservedProgram {
        let made = program::Publication::of(&self);
        ObservedProgram {
            publication: Fact::Known(Some(Box::new(made))),
            program: self,
            advertised: "operator".to_owned(),
            seal: None,
            generations: Fact::Known(program::Generations::default()),
        }
    }

    fn respond(_: &program::ProgramStep) -> Option<program::ProgramResponse> {
        None
    }

    fn status(effect: program::ProgramEffect) -> Option<Value> {
        match effect {
            program::ProgramEffect::PatchStatus(status) => Some(json(status)),
            _ => None,
        }
    }
}

impl Fuzzed for Workspace {
    type Observed = ObservedWorkspace;

    fn observed(self) -> ObservedWorkspace {
        ObservedWorkspace::new(self)
    }

    fn respond(step: &workspace::WorkspaceStep) -> Option<workspace::WorkspaceResponse> {
        match step {
            Step::Read(workspace::WorkspaceRead::Awaited(_)) => {
                Some(workspace::WorkspaceResponse::Awaited(true))
            }
            _ => None,
        }
    }

    fn status(effect: workspace::WorkspaceEffect) -> Option<Value> {
        match effect {
            workspace::WorkspaceEffect::PatchStatus(status) => Some(json(status)),
            _ => None,
        }
    }
}

impl Fuzzed for Update {
    type Observed = ObservedUpdate;

    fn observed(self) -> ObservedUpdate {
        ObservedUpdate::new(self, now())
    }

    fn respond(step: &update::UpdateStep) -> Option<update::UpdateResponse> {
        match step {
            Step::Read(update::UpdateRead::Awaited(_)) => {
                Some(update::UpdateResponse::Awaited(false))
            }
            Step::Read(update::UpdateRead::Workspace(_)) => {
                Some(update::UpdateResponse::Workspace(None))
            }
            _ => None,
        }
    }

    fn status(effect: update::UpdateEffect) -> Option<Value> {
        match effect {
            update::UpdateEffect::PatchStatus(status) => Some(json(status)),
            _ => None,
        }
    }
}

/// An object that we write is one that we can read.
fn assert_readable<K: StoredKind + Serialize>(object: &K) {
    let text = serde_json::to_string(object).unwrap();
    let decoded = Decoded::<K>::from_json(&text).unwrap();
    let error = decoded.as_result().err().map(|bad| bad.error.to_string());
    assert_eq!(error, None, "{} {}", K::KIND, &text[..text.len().min(2000)]);
}

/// The statuses that are written of this object, and whether it decoded.
fn written<K: Fuzzed>(text: &str) -> (Vec<Value>, bool) {
    let effects = match Decoded::<K>::from_json(text).unwrap() {
        Decoded::Undecodable(bad) => {
            let plan = K::Observed::decide_undecodable(&bad, now());
            let statuses = plan.effects.into_iter().filter_map(K::status);
            return (statuses.collect(), false);
        }
        Decoded::Object(object) => {
            let mut observed = object.observed();
            let mut effects = Vec::new();
            for _ in 0..MAX_REQUESTS {
                let step = observed.decide(now());
                match (K::respond(&step), step) {
                    (Some(response), _) => observed.observe(response),
                    (None, Step::Finish(plan)) => {
                        effects = plan.effects;
                        break;
                    }
                    (None, _) => break,
                }
            }
            effects
        }
    };
    (effects.into_iter().filter_map(K::status).collect(), true)
}

fn check<K: Fuzzed>(generator: &Generator, number: u64) -> bool {
    let text = generator.object(number);
    let (statuses, is_decoded) = written::<K>(&text);
    for status in statuses {
        let json = status.to_string();
        let size = measure(&json);
        let stored = generator.stored_status_bytes(number);
        assert!(
            size.bytes <= stored + MAX_STATUS_BYTES,
            "{} bytes",
            size.bytes
        );
        assert!(size.depth < pko_api::MAX_DEPTH, "{} levels", size.depth);
    }
    is_decoded
}

fn fuzz<K: Fuzzed>() {
    let generator = Generator::new(K::KIND);
    let all = if env::var_os("PKO_FULL").is_some() {
        ALL
    } else {
        SOME
    };
    let decoded = (0..all / 4)
        .filter(|number| check::<K>(&generator, *number))
        .count();
    let all = usize::try_from(all / 4).unwrap();
    assert!(
        decoded > all / 10 && decoded < all,
        "{decoded} of {all} decoded"
    );
}

#[test]
fn any_stack_object_ends_in_a_status() {
    fuzz::<Stack>();
}

#[test]
fn any_program_object_ends_in_a_status() {
    fuzz::<Program>();
}

#[test]
fn any_workspace_object_ends_in_a_status() {
    fuzz::<Workspace>();
}

#[test]
fn any_update_object_ends_in_a_status() {
    fuzz::<Update>();
}
