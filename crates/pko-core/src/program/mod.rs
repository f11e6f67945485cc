//! A Program becomes an archive that workspaces fetch: its document, its digest, its status; its older generations
//! are kept as long as somebody needs them, and what is wrong with its body is said.

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

/// While an older generation is kept for a Workspace. No event comes when that lets go of it: most changes of a
/// Workspace are no such thing.
const LOOK_AGAIN: Duration = Duration::from_mins(5);

/// What is observed of a Program.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedProgram {
    /// Without its body, which no cache has.
    pub program: Program,
    /// The address under which workspaces reach the operator's file server, with or without `http://`.
    pub advertised: String,
    /// The last segment of the archive's address, where addresses must not be guessable.
    pub seal: Option<String>,
    pub generations: Fact<Generations>,
    /// What was made of the generation that `program` has; nothing if it has another one by now.
    pub publication: Fact<Option<Box<Publication>>>,
}

/// What a Program's rules can look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramRead {
    /// The stored generations, and those that Workspaces refer to.
    Generations,
    /// What is made of the current generation's body.
    Publication,
}

/// What a read returns.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramResponse {
    Generations(Generations),
    Publication(Option<Box<Publication>>),
}

/// What is done for a Program.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramEffect {
    /// Stores the current generation, which the next edit replaces.
    StoreRevision(Box<ControllerRevision>),
    PatchStatus(Box<ProgramStatus>),
    /// Deletes the ControllerRevision of this name: no Workspace needs that generation.
    DeleteRevision {
        generation: i64,
        name: String,
    },
    Emit(Event<ProgramEvent>),
}

/// A step of the Program's machine.
pub type ProgramStep = StepOf<ObservedProgram>;
/// What a Program's rules read.
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
/// The first generation has none before it, so its rule reads no others.
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
        // An event of that edit, or of the deletion, is on its way.
        Fact::Known(None) => return finish(Vec::new(), Requeue::after(LOOK_AGAIN)),
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
        Requeue::after(LOOK_AGAIN)
    } else {
        Requeue::Settled
    };
    finish(effects, requeue)
}
