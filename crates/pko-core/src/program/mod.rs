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

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use pko_api::{Program, Undecodable, names::events::ProgramEvent, pulumi::v1::ProgramStatus};

pub use address::{FOLDER, generation_at, program_at};
pub use artifact::{Archive, ArchiveError, PROJECT_FILE, archive, archive_of};
pub use generations::{Generations, document_in, generation_in, program_label, revision_name};
pub use status::{is_published, served_artifact};

use crate::step::{self, Known, Machine, Plan, Requeue};

/// While an older generation is kept for a Workspace. No event comes when that lets go of it: most changes of a
/// Workspace are no such thing.
const LOOK_AGAIN: Duration = Duration::from_mins(5);

/// What is known of a Program.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The object.
    pub program: Program,
    /// Where workspaces reach the operator's file server, with or without `http://`.
    pub advertised: String,
    /// The last segment of its address, where addresses are not to be guessed.
    pub seal: Option<String>,
    /// The generations that there are.
    pub generations: Known<Generations>,
}

/// What may have to be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which generations are kept, and which are referred to?
    Generations,
}

/// What is done for a Program.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Keeps the current generation, for the time after the next edit.
    Keep(Box<ControllerRevision>),
    /// Writes the status.
    PatchStatus(Box<ProgramStatus>),
    /// Lets go of a generation that nobody needs: the ControllerRevision of this name.
    LetGo(String),
    /// Reports an event.
    Emit(Event),
}

/// An event about a Program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// One word for programs.
    pub reason: ProgramEvent,
    /// A sentence for people.
    pub message: String,
}

/// What to do next for a Program.
pub type Step = step::Step<Question, Effect>;

/// Publishes the archive of the Program's current generation, says so once, and keeps it for later.
///
/// The first generation has none before it, and a status that speaks of the current one was written after that was
/// kept: then nothing has to be asked.
#[must_use]
pub fn decide(world: &World, now: Timestamp) -> Step {
    let status = status::published(world, now);
    let stored = world.program.status.as_ref();
    let current = world.program.metadata.generation.unwrap_or_default();
    let known = match &world.generations {
        Known::Known(generations) => generations.clone(),
        Known::Unknown if current > 1 => return Step::Ask(Question::Generations),
        Known::Unknown => Generations::default(),
    };
    let is_published = stored == Some(&status);
    let is_kept = known.kept.contains(&current) || (current <= 1 && is_published);
    let keep = (!is_kept).then(|| generations::revision(&world.program).ok());
    let mut effects: Vec<Effect> = keep
        .flatten()
        .map(|revision| Effect::Keep(Box::new(revision)))
        .into_iter()
        .collect();
    let event = status::event(stored, &status);
    if !is_published {
        effects.push(Effect::PatchStatus(Box::new(status)));
    }
    let let_go = known.let_go(current).into_iter();
    effects.extend(
        let_go.map(|generation| Effect::LetGo(revision_name(&world.program.metadata, generation))),
    );
    effects.extend(event.map(Effect::Emit));
    let requeue = if known.is_waited_for(current) {
        Requeue::after(LOOK_AGAIN)
    } else {
        Requeue::Settled
    };
    Step::Finish(Plan {
        rule: "publish",
        effects,
        requeue,
    })
}

/// What is done for a Program that does not decode: its status says so, and what was kept of it is still served.
#[must_use]
pub fn decide_undecodable(undecodable: &Undecodable, now: Timestamp) -> Plan<Effect> {
    let stored: ProgramStatus = step::stored_status(undecodable);
    let status = status::undecodable(&stored, undecodable, now);
    let event = status::event(Some(&stored), &status);
    let mut plan = step::undecodable_plan(&stored, status, Effect::PatchStatus);
    plan.effects.extend(event.map(Effect::Emit));
    plan
}

impl Machine for World {
    type Question = Question;
    type Answer = Generations;
    type Effect = Effect;

    fn decide(&self, now: Timestamp) -> Step {
        decide(self, now)
    }

    fn learn(&mut self, answer: Generations) {
        self.generations = Known::Known(answer);
    }
}
