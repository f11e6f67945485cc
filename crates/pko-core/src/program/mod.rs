//! A Program becomes an archive that workspaces fetch: its document, its digest, its status; its older generations
//! are kept as long as somebody needs them, and what is wrong with its body is said.

mod address;
mod artifact;
pub mod check;
mod generations;
#[cfg(test)]
mod scenarios;
mod status;
#[cfg(test)]
mod tests;

use std::{convert::Infallible, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use pko_api::{Program, Undecodable, names::events::ProgramEvent, pulumi::v1::ProgramStatus};

pub use address::{FOLDER, generation_at, program_at};
pub use artifact::{Archive, ArchiveError, PROJECT_FILE, archive, archive_of};
pub use generations::{Generations, document_in, generation_in, program_label, revision_name};
pub use status::{is_published, served_artifact};

use crate::step::{Evaluation, Event, Fact, Machine, Requeue, Rule, StepOf, finish};

/// While an older generation is kept for a Workspace. No event comes when that lets go of it: most changes of a
/// Workspace are no such thing.
const LOOK_AGAIN: Duration = Duration::from_mins(5);

/// What is observed of a Program.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedProgram {
    pub program: Program,
    /// The address under which workspaces reach the operator's file server, with or without `http://`.
    pub advertised: String,
    /// The last segment of the archive's address, where addresses must not be guessable.
    pub seal: Option<String>,
    pub generations: Fact<Generations>,
}

/// What a Program's rules can look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramRead {
    /// The stored generations, and those that Workspaces refer to.
    Generations,
}

/// What is done for a Program.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramEffect {
    /// Stores the current generation, which the next edit replaces.
    StoreRevision(Box<ControllerRevision>),
    PatchStatus(Box<ProgramStatus>),
    /// Deletes the ControllerRevision of this name: no Workspace needs that generation.
    DeleteRevision(String),
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
    type Response = Generations;
    type Effect = ProgramEffect;

    const RULES: &'static [Rule<Self>] = &[
        // Read(Generations), except for the first generation
        Rule::new("publish", |evaluation| Some(publish(evaluation))),
    ];

    fn evaluate(&self, now: Timestamp) -> Result<ProgramEvaluation, ProgramStep> {
        Ok(Evaluation {
            observed: self.clone(),
            now,
        })
    }

    fn observe(&mut self, response: Generations) {
        self.generations = Fact::Known(response);
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
/// The first generation has none before it, so its rule reads nothing.
fn publish(evaluation: &ProgramEvaluation) -> ProgramStep {
    let observed = &evaluation.observed;
    let status = status::published_status(observed, evaluation.now);
    let stored = observed.program.status.as_ref();
    let current = observed.program.metadata.generation.unwrap_or_default();
    let known = match &observed.generations {
        Fact::Known(generations) => generations.clone(),
        Fact::Unknown if current > 1 => return ProgramStep::Read(ProgramRead::Generations),
        Fact::Unknown => Generations::default(),
    };
    let is_published = stored == Some(&status);
    let is_kept = known.kept.contains(&current) || (current <= 1 && is_published);
    let keep = (!is_kept).then(|| generations::revision(&observed.program).ok());
    let mut effects: Vec<ProgramEffect> = keep
        .flatten()
        .map(|revision| ProgramEffect::StoreRevision(Box::new(revision)))
        .into_iter()
        .collect();
    let event = status::event(stored, &status);
    if !is_published {
        effects.push(ProgramEffect::PatchStatus(Box::new(status)));
    }
    let to_delete = known.to_delete(current).into_iter();
    effects.extend(to_delete.map(|generation| {
        ProgramEffect::DeleteRevision(revision_name(&observed.program.metadata, generation))
    }));
    effects.extend(event.map(ProgramEffect::Emit));
    let requeue = if known.has_older_in_use(current) {
        Requeue::after(LOOK_AGAIN)
    } else {
        Requeue::Settled
    };
    finish(effects, requeue)
}
