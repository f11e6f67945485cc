//! The Update under way, and the next one.

use std::time::Duration;

use pko_api::{
    names::{events::StackEvent, reasons::StackReason},
    pulumi::v1::CurrentUpdate,
};

use super::{source, sync};
use crate::{
    condition_set::Summary,
    stack::{Case, Effect, Event, Step, absorb, desired},
    step::Requeue,
};

/// An Update's own events end the wait; this is for one that was missed.
const LOOK_AGAIN: Duration = Duration::from_mins(5);

fn processing() -> Summary {
    Summary::Reconciling(
        StackReason::StackProcessing,
        "stack is being processed".to_owned(),
    )
}

/// Waits for the Update that runs. One that has ended is in the status already, and no longer current.
pub(in crate::stack) fn wait_for_current(case: &Case) -> Option<Step> {
    let running = case.status.current_update.is_some();
    running.then(|| case.waiting(&processing(), Requeue::after(LOOK_AGAIN)))
}

/// Starts an Update. The status names it before it exists: after a crash in between it is found missing
/// and counts as failed, and no run is started twice.
pub(in crate::stack) fn launch(case: &Case) -> Option<Step> {
    let revision = source::known(case)?.revision;
    let sync::Need::Update(message) = sync::needed(case) else {
        return None;
    };
    let name = desired::UpdateName::at(&case.world.stack, case.now);
    let update = desired::update(&case.world, &message, &name);
    let mut status = case.summarised(&processing());
    status.current_update = Some(CurrentUpdate {
        generation: Some(case.world.generation()),
        reconcile_request: Some(case.world.request().to_owned()),
        name: update.metadata.name.clone(),
        commit: Some(revision),
    });
    let create = Effect::CreateUpdate {
        update: Box::new(update),
        undo: Box::new(absorb::without_current(&status)),
    };
    let deeds = case.release_again().into_iter().chain([create]);
    let detected = Event {
        reason: StackEvent::StackUpdateDetected,
        message,
        warning: false,
    };
    Some(case.plan(status, deeds, Some(detected), Requeue::after(LOOK_AGAIN)))
}
