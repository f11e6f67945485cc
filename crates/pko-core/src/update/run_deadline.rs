//! The manager's own deadline for a run. An agent should enforce the time limit itself; if it does
//! not, its run must not block the run queue for ever.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pko_api::{Update, names::conditions::ConditionType};

use super::{
    PrecedingRuns, UpdateEvaluation, UpdateRead, UpdateStep, cancel, rules::end_without_result,
    status,
};
use crate::condition_set::{find, is_true};

/// An agent interrupts `pulumi` at its limit, waits nine minutes and kills it.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);

/// Replaces a step that waits for a run by its end, if the run is overdue: 15 minutes after its
/// time limit or its deletion.
pub(super) fn end_if_overdue(
    evaluation: &UpdateEvaluation,
    wait: impl FnOnce() -> UpdateStep,
) -> UpdateStep {
    // A manager that has just started may not have asked the agent yet.
    if !has_passed(
        evaluation,
        evaluation.observed.leading_since,
        Duration::ZERO,
    ) {
        return wait();
    }
    let deleted = &evaluation.observed.update.metadata.deletion_timestamp;
    if let Some(deleted) = deleted
        && has_passed(evaluation, deleted.0, Duration::ZERO)
    {
        return end(evaluation, "the deletion of the Update");
    }
    let Some((begun, limit)) = begun_and_limit(evaluation) else {
        return wait();
    };
    if !has_passed(evaluation, begun, limit) {
        return wait();
    }
    let read = || UpdateRead::PrecedingRuns;
    match evaluation.observed.preceding_runs.or_read(read) {
        Err(request) => request,
        Ok(PrecedingRuns::InProgress) => wait(),
        Ok(PrecedingRuns::Ended(last)) => {
            let started = last.map_or(begun, |last| last.max(begun));
            if !has_passed(evaluation, started, limit) {
                return wait();
            }
            end(evaluation, &format!("its time limit of {limit:?}"))
        }
    }
}

fn end(evaluation: &UpdateEvaluation, cause: &str) -> UpdateStep {
    let what = format!(
        "the workspace's agent did not end the operation within {} minutes after {cause}; \
         what it had done by then is in the stack's state",
        PATIENCE.as_mins(),
    );
    end_without_result(evaluation, cancel::status_of_lost_run(evaluation, &what))
}

fn begun_and_limit(evaluation: &UpdateEvaluation) -> Option<(Timestamp, Duration)> {
    let begun = status::run_start(evaluation)?.0;
    let own = evaluation.observed.update.spec.timeout_seconds;
    let own = own.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
    Some((begun, own.or(evaluation.observed.run_timeout)?))
}

fn has_passed(evaluation: &UpdateEvaluation, since: Timestamp, limit: Duration) -> bool {
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    evaluation.now.duration_since(since) >= limit.saturating_add(PATIENCE)
}

/// The runs that the agent of this Update received before it. An agent executes one run at a time,
/// and a run's time limit counts from its start there.
pub fn preceding_runs<'a>(
    update: &Update,
    others: impl IntoIterator<Item = &'a Update>,
) -> PrecedingRuns {
    let place = |update: &Update| {
        let instance = update.status.as_ref()?.workspace_instance.clone()?;
        let workspace = update.spec.workspace_name.clone();
        Some((update.metadata.namespace.clone(), workspace, instance))
    };
    let order = |update: &Update| {
        Some((
            transition(update, ConditionType::Progressing)?,
            update.metadata.uid.clone(),
        ))
    };
    let own = (place(update), order(update));
    let is_other = |other: &&Update| {
        place(other).is_some() && place(other) == own.0 && other.metadata.uid != update.metadata.uid
    };
    let mut last = None;
    for other in others.into_iter().filter(is_other) {
        match transition(other, ConditionType::Complete) {
            Some(ended) => last = last.max(Some(ended)),
            None if order(other).is_some_and(|began| Some(began) < own.1) => {
                return PrecedingRuns::InProgress;
            }
            None => {}
        }
    }
    PrecedingRuns::Ended(last)
}

/// The transition time of the condition, if it is True.
fn transition(update: &Update, kind: ConditionType) -> Option<Timestamp> {
    let conditions = &update.status.as_ref()?.conditions;
    let condition = find(conditions, kind).filter(|_| is_true(conditions, kind))?;
    Some(condition.last_transition_time.0)
}
