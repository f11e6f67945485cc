//! The Program's state machine: build and check the archive that workspaces fetch, publish it in
//! the status, and keep older generations while Workspaces refer to them.

mod absent_reads;
mod address;
mod archive_cache;
mod artifact;
pub mod check;
mod generations;
mod publication;
#[cfg(test)]
mod scenarios;
mod served;
mod status;
#[cfg(test)]
mod tests;

use std::{convert::Infallible, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use pko_api::{Program, Undecodable, names::events::ProgramEvent, pulumi::v1::ProgramStatus};

pub use absent_reads::{AbsentReads, ReadAdmission};
pub use address::{FOLDER, generation_at, program_at};
pub use archive_cache::{ArchiveCache, ArchiveKey};
pub use artifact::{Archive, ArchiveError, PROJECT_FILE, archive, archive_of};
pub use generations::{
    Generations, document_in, generation_in, generation_named_in, program_label, revision_name,
};
pub use publication::Publication;
pub use served::{ProgramAddresses, fetched_program, served_artifact};
pub use status::is_published;

use crate::step::{Evaluation, Event, Fact, Machine, Requeue, Rule, StepOf, finish};

/// While an older generation is kept for a Workspace. No event reports that the Workspace no longer
/// refers to it.
const GENERATIONS_RECHECK: Duration = Duration::from_mins(5);

/// The observed state of a Program.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedProgram {
    /// Without its body, which is not cached.
    pub program: Program,
    /// The address of the operator's file server for workspaces, with or without `http://`.
    pub advertised: String,
    /// The last segment of the archive's address, if addresses must not be guessable.
    pub seal: Option<String>,
    pub generations: Fact<Generations>,
    /// The result for the current generation; `None` if the Program has changed meanwhile.
    pub publication: Fact<Option<Box<Publication>>>,
}

/// A request for a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramRead {
    /// The stored generations, and those to which Workspaces refer.
    Generations,
    /// The result for the current generation's body.
    Publication,
}

/// A response to a [`ProgramRead`].
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramResponse {
    Generations(Generations),
    Publication(Option<Box<Publication>>),
}

/// A change that ends a pass.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramEffect {
    /// Stores the current generation, because the next edit replaces it.
    StoreRevision(Box<ControllerRevision>),
    PatchStatus(Box<ProgramStatus>),
    /// Deletes the ControllerRevision of this name: no Workspace needs that generation.
    DeleteRevision {
        generation: i64,
        name: String,
    },
    Emit(Event<ProgramEvent>),
}

pub type ProgramStep = StepOf<ObservedProgram>;
pub type ProgramEvaluation = Evaluation<ObservedProgram>;

impl Machine for ObservedProgram {
    type Evaluation = ProgramEvaluation;
    type Status = ProgramStatus;
    type Read = ProgramRead;
    type Write = Infallible;
    type Response = ProgramResponse;
    type Effect = ProgramEffect;

    const RULES: &'static [Rule<Self>] = &[
        // Read(Generations), except for the first generation
        // Read(Publication), unless the status has it
        Rule::new("publish", |evaluation| Some(publish(evaluation))),
    ];

    fn evaluate(&self, now: Timestamp) -> Result<ProgramEvaluation, ProgramStep> {
        Ok(Evaluation {
            observed: self.clone(),
            now,
        })
    }

    fn observe(&mut self, response: ProgramResponse) {
        match response {
            ProgramResponse::Generations(known) => self.generations = Fact::Known(known),
            ProgramResponse::Publication(made) => self.publication = Fact::Known(made),
        }
    }

    fn patch_status(status: Box<ProgramStatus>) -> ProgramEffect {
        ProgramEffect::PatchStatus(status)
    }

    /// The stored generations are still served.
    fn undecodable_status(
        stored: &ProgramStatus,
        undecodable: &Undecodable,
        now: Timestamp,
    ) -> ProgramStatus {
        status::undecodable(stored, undecodable, now)
    }

    fn undecodable_event(stored: &ProgramStatus, status: &ProgramStatus) -> Option<ProgramEffect> {
        status::event(Some(stored), status).map(ProgramEffect::Emit)
    }
}

/// Publishes the archive of the Program's current generation and stores that generation.
///
/// The first generation has no predecessors, so the rule reads none.
fn publish(evaluation: &ProgramEvaluation) -> ProgramStep {
    let observed = &evaluation.observed;
    let stored = observed.program.status.as_ref();
    let current = observed.program.metadata.generation.unwrap_or_default();
    let known = match &observed.generations {
        Fact::Known(generations) => generations.clone(),
        Fact::Unknown if current > 1 => return ProgramStep::Read(ProgramRead::Generations),
        Fact::Unknown => Generations::default(),
    };
    let is_up_to_date = publication::is_up_to_date(&observed.program);
    let is_kept = known.kept.contains(&current) || (current <= 1 && is_up_to_date);
    let made = match &observed.publication {
        Fact::Unknown if is_kept && is_up_to_date => None,
        Fact::Unknown => return ProgramStep::Read(ProgramRead::Publication),
        // An event for that edit, or for the deletion, will follow.
        Fact::Known(None) => return finish(Vec::new(), Requeue::after(GENERATIONS_RECHECK)),
        Fact::Known(Some(made)) => Some(made.as_ref()),
    };
    let status = match made {
        Some(made) => status::published_status(observed, made, evaluation.now),
        None => status::moved_status(observed, evaluation.now),
    };
    let revision = made.and_then(|made| made.revision.clone());
    let mut effects: Vec<ProgramEffect> = revision
        .filter(|_| !is_kept)
        .map(ProgramEffect::StoreRevision)
        .into_iter()
        .collect();
    let event = status::event(stored, &status);
    if stored != Some(&status) {
        effects.push(ProgramEffect::PatchStatus(Box::new(status)));
    }
    let to_delete = known.to_delete(current).into_iter();
    effects.extend(to_delete.map(|generation| ProgramEffect::DeleteRevision {
        generation,
        name: revision_name(&observed.program.metadata, generation),
    }));
    effects.extend(event.map(ProgramEffect::Emit));
    let requeue = if known.has_older_in_use(current) {
        Requeue::after(GENERATIONS_RECHECK)
    } else {
        Requeue::Settled
    };
    finish(effects, requeue)
}
