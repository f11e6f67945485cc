//! Starts or finds the run, watches it, and records its result.

use std::time::Duration;

use pko_api::{
    auto::v1alpha1::{OperationType, UpdateStatus},
    names::{events::UpdateEvent, failures::FailureClass, reasons::UpdateReason},
};

use super::{
    AgentState, RunError, RunOutcome, RunProgress, UpdateEffect, UpdateEvaluation, UpdateStep,
    UpdateWrite, cancel,
    outputs::{self, outputs_secret},
    rules::{end_without_result, requeue_at_expiry, wait_for_run},
    run_deadline::end_if_overdue,
    status,
};
use crate::{
    Event, Fact,
    condition_set::{shorten, shorten_to},
    step::{Requeue, finish},
};

/// In case the end of a run is missed.
const RUN_RECHECK: Duration = Duration::from_mins(1);
/// The limit for the stored output of a preview.
pub(super) const MAX_PRINTED_BYTES: usize = 8 * 1024;

/// Starts, finds or cancels the run, and records its result.
pub(super) fn run(evaluation: &UpdateEvaluation) -> Option<UpdateStep> {
    let (Fact::Known(Some(workspace)), Fact::Known(AgentState::Reachable(instance))) =
        (&evaluation.observed.workspace, &evaluation.observed.agent)
    else {
        return None;
    };
    let why = cancel::reason(evaluation);
    let publish = status::to_publish(evaluation, instance);
    let write = || match why {
        Some(_) => UpdateWrite::CancelRun(Box::new(workspace.clone())),
        None => UpdateWrite::StartRun(Box::new(workspace.clone()), publish.clone().map(Box::new)),
    };
    let run = match evaluation.observed.run.or_write(write) {
        Ok(run) => run.clone(),
        Err(request) => return Some(request),
    };
    let evaluation = &evaluation.after_publishing(publish);
    Some(match run {
        Ok(RunProgress::Running) => watch_run(evaluation, why),
        Ok(RunProgress::Ended(outcome)) => {
            let outcome = check_outcome(evaluation, *outcome);
            record_result(evaluation, &with_cancel_reason(outcome, why))
        }
        Ok(RunProgress::NotStarted) => end_without_result(
            evaluation,
            cancel::status_before_start(evaluation, why.unwrap_or_default()),
        ),
        Err(RunError::Unreachable(message)) => wait_for_run(evaluation, &message),
        Err(RunError::Lost(message)) => {
            end_without_result(evaluation, cancel::status_of_lost_run(evaluation, &message))
        }
        Err(RunError::Refused(message)) => record_result(
            evaluation,
            &failure_outcome(FailureClass::Configuration, message),
        ),
        Err(RunError::Oversized(message)) => {
            record_result(evaluation, &failure_outcome(FailureClass::Program, message))
        }
    })
}

fn watch_run(evaluation: &UpdateEvaluation, why: Option<&str>) -> UpdateStep {
    end_if_overdue(evaluation, || keep_watching(evaluation, why))
}

fn keep_watching(evaluation: &UpdateEvaluation, why: Option<&str>) -> UpdateStep {
    let message = why.map(|why| format!("the operation is being canceled: {why}"));
    let status = status::progressing(evaluation, &message.unwrap_or_default());
    let mut effects = status::patch_if_changed(evaluation, status);
    effects.push(UpdateEffect::WatchRun);
    finish(effects, Requeue::after(RUN_RECHECK))
}

/// The agent's report, without impossible values.
fn check_outcome(evaluation: &UpdateEvaluation, outcome: RunOutcome) -> RunOutcome {
    let created = &evaluation.observed.update.metadata.creation_timestamp;
    let created = created.as_ref().map(|time| time.0);
    let begun = status::run_start(evaluation).map(|time| time.0);
    outcome
        .within_limits()
        .with_checked_times(created, begun, evaluation.now)
}

/// Adds the reason of a cancel, which the agent does not have.
fn with_cancel_reason(mut outcome: RunOutcome, why: Option<&str>) -> RunOutcome {
    let is_canceled = outcome.reason.as_deref() == Some(UpdateReason::Canceled.as_str());
    if let Some(why) = why.filter(|_| is_canceled) {
        outcome.message = format!("canceled: {why}\n{}", outcome.message);
    }
    outcome
}

fn failure_outcome(class: FailureClass, message: String) -> RunOutcome {
    RunOutcome {
        class: Some(class),
        message,
        ..RunOutcome::default()
    }
}

/// Stores the outputs first, so that a recorded result never lacks them. A successful run is
/// recorded as such even if its outputs cannot be stored.
fn record_result(evaluation: &UpdateEvaluation, outcome: &RunOutcome) -> UpdateStep {
    let is_preview = evaluation.observed.update.spec.operation == Some(OperationType::Preview);
    let mut status = status::with_result(evaluation, outcome);
    if is_preview {
        show_plan(&mut status, outcome);
    } else if let Some(secret) = outputs_secret(&evaluation.observed.update, outcome) {
        let write = || UpdateWrite::StoreOutputs(Box::new(secret));
        match evaluation.observed.outputs.or_write(write) {
            Err(request) => return request,
            Ok(Ok(name)) => status.outputs = Some(name.clone()),
            Ok(Err(refusal)) => {
                append_message(
                    &mut status,
                    &format!("the outputs are not stored: {refusal}"),
                );
            }
        }
    } else if let Some(problem) = outcome.outputs_problem() {
        append_message(&mut status, &problem);
    }
    let effects = vec![
        UpdateEffect::PatchStatus(Box::new(status)),
        UpdateEffect::AcknowledgeRun,
        UpdateEffect::Emit(with_notes(
            result_event(evaluation, outcome.succeeded),
            outcome,
        )),
    ];
    finish(effects, requeue_at_expiry(evaluation))
}

fn show_plan(status: &mut UpdateStatus, outcome: &RunOutcome) {
    let printed = shorten_to(&outcome.printed, MAX_PRINTED_BYTES);
    status.output = Some(printed).filter(|text| !text.is_empty());
    match outputs::redacted_outputs(outcome) {
        Ok(planned) => status.planned_outputs = outcome.succeeded.then_some(planned),
        Err(problem) => append_message(status, &problem),
    }
}

/// Adds a line to the message.
fn append_message(status: &mut UpdateStatus, text: &str) {
    let message = status.message.take().unwrap_or_default();
    let lines = [message.as_str(), text];
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    status.message = Some(shorten(&lines.join("\n")));
}

fn with_notes(mut event: Event<UpdateEvent>, outcome: &RunOutcome) -> Event<UpdateEvent> {
    for note in &outcome.notes {
        event.message.push_str("; ");
        event.message.push_str(note);
    }
    event
}

/// The event for the end of an Update's operation.
pub(super) fn result_event(evaluation: &UpdateEvaluation, succeeded: bool) -> Event<UpdateEvent> {
    let spec = &evaluation.observed.update.spec;
    let stack = spec.stack_name.as_deref().unwrap_or_default();
    let (done, failed) = match &spec.operation {
        Some(OperationType::Preview) => ("Previewed", "preview"),
        Some(OperationType::Refresh) => ("Refreshed", "refresh"),
        Some(OperationType::Destroy) => ("Destroyed", "destroy"),
        _ => ("Updated", "update"),
    };
    if succeeded {
        Event {
            reason: UpdateEvent::UpdateSucceeded,
            message: format!("{done} stack \"{stack}\""),
            warning: false,
        }
    } else {
        Event {
            reason: UpdateEvent::UpdateFailed,
            message: format!("Failed to {failed} stack \"{stack}\""),
            warning: true,
        }
    }
}
