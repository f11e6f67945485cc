//! The Workspace that an update needs.

use std::time::Duration;

use jiff::SignedDuration;
use pko_api::{
    Workspace,
    names::{
        conditions::ConditionType,
        reasons::{StackReason, WorkspaceReason},
    },
    pulumi::v1::StackStatus,
};

use crate::{
    Blocked,
    condition_set::{Summary, brief, find, is_true},
    stack::{
        ProgramSource, Refusal, StackEvaluation, StackStep, StackWrite, desired,
        facts::{
            current_update, existing_workspace, inputs,
            source::{self, NoSource},
        },
        outcome::processing,
    },
    step::Requeue,
    workspace::{has_condition, is_current, is_normal_startup, is_ready},
};

/// A Workspace's own events end the wait; this is in case one is lost.
const WAIT: Duration = Duration::from_mins(1);
/// How long a Workspace usually takes to start. After that its condition is reported.
const USUAL_START: SignedDuration = SignedDuration::from_secs(20);
/// How soon a Workspace that could not be applied is applied again.
const FAILED_AGAIN: Duration = Duration::from_secs(30);
/// For a Workspace that the API server rejects: the Stack has to change, or the owner of one of the
/// Workspace's fields.
const REJECTED_AGAIN: Duration = Duration::from_mins(2);
/// How long a deletion without anything to destroy waits for its Workspace.
const MAX_DELETE_WAIT: SignedDuration = SignedDuration::from_mins(5);
/// The same if the Workspace reports a problem.
const MAX_DELETE_WAIT_WITH_PROBLEM: SignedDuration = SignedDuration::from_mins(1);

/// Applies the Workspace and waits until it is ready.
pub(in crate::stack) fn provision(evaluation: &StackEvaluation) -> Option<StackStep> {
    let source = source::find(evaluation).ok()?;
    // Otherwise a pod would start for an Update that can't be created.
    if let Some(problem) = desired::update_template_problem(&evaluation.observed) {
        return Some(evaluation.reject_spec(problem));
    }
    let workspace = match workspace_for_run(evaluation, &source) {
        Ok(RunWorkspace::Existing(workspace)) if is_ready(workspace) => return None,
        Ok(RunWorkspace::Existing(workspace)) => return Some(wait_for_run(evaluation, workspace)),
        Ok(RunWorkspace::Applied(workspace)) => workspace,
        Err(problem) => return Some(evaluation.reject_spec(problem)),
    };
    let published = status_while_applying(evaluation);
    let write = || StackWrite::ApplyWorkspace(workspace, Box::new(published.clone()));
    let workspace = match evaluation.observed.workspace.or_write(write) {
        Ok(workspace) => workspace,
        Err(request) => return Some(request),
    };
    let evaluation = evaluation.after_publishing(published);
    match workspace {
        Err(refusal) => Some(evaluation.block(&apply_problem(&evaluation, refusal))),
        Ok(workspace) if is_ready(workspace) => None,
        Ok(workspace) => Some(match stall(workspace) {
            Some(blocked) => evaluation.block(&blocked),
            None => wait_for_run(&evaluation, workspace),
        }),
    }
}

/// The Workspace in which the next Update runs.
enum RunWorkspace<'evaluation> {
    /// One that exists, without a change.
    Existing(&'evaluation Workspace),
    /// One that is applied first.
    Applied(Box<Workspace>),
}

fn workspace_for_run<'evaluation>(
    evaluation: &'evaluation StackEvaluation,
    source: &ProgramSource,
) -> Result<RunWorkspace<'evaluation>, String> {
    let desired = desired::workspace(&evaluation.observed, &evaluation.status, source);
    let desired = desired.map(|workspace| RunWorkspace::Applied(Box::new(workspace)));
    let Ok(Some(running)) = existing_workspace::find_running(evaluation) else {
        return desired;
    };
    match desired {
        Ok(desired) if !existing_workspace::is_unchanged(evaluation) => Ok(desired),
        _ if evaluation.observed.is_deleted_in_foreground() => {
            let without_owner = desired::without_owner(&evaluation.observed, running);
            Ok(RunWorkspace::Applied(Box::new(without_owner)))
        }
        _ => Ok(RunWorkspace::Existing(running)),
    }
}

/// Applies the Workspace again if the current Update has waited for it for a while. A newer spec or
/// source may repair it, but the Stack waits for the Update, and the Update for the Workspace.
pub(in crate::stack) fn repair(evaluation: &StackEvaluation) -> Option<StackStep> {
    let left = current_update::patience_left(evaluation)?;
    if left.is_positive() {
        return None;
    }
    let wait = |summary: &Summary| evaluation.wait(summary, Requeue::after(WAIT));
    let source = match source::find(evaluation) {
        Ok(source) => source,
        Err(NoSource::Unread(read)) => return Some(read),
        // Only a destroy waits during a deletion, and it needs this source.
        Err(problem) if evaluation.observed.is_deleting() => {
            return Some(evaluation.wait_for_source(problem));
        }
        Err(_) => return Some(wait(&processing())),
    };
    if let Some(read) = inputs::next_read(evaluation) {
        return Some(read);
    }
    if let Some(problem) = inputs::problem(evaluation).filter(|_| evaluation.observed.is_deleting())
    {
        return Some(evaluation.wait_for_inputs(problem));
    }
    let workspace = match workspace_for_run(evaluation, &source) {
        Ok(RunWorkspace::Existing(workspace)) => {
            return Some(wait_for_current(evaluation, workspace));
        }
        Ok(RunWorkspace::Applied(workspace)) => workspace,
        Err(_) => return Some(wait(&processing())),
    };
    let stored = evaluation.observed.stack.status.clone().unwrap_or_default();
    let write = || StackWrite::ApplyWorkspace(workspace, Box::new(stored));
    Some(match evaluation.observed.workspace.or_write(write) {
        Err(request) => request,
        Ok(Err(refusal)) => wait(&apply_problem(evaluation, refusal).summary()),
        Ok(Ok(workspace)) => wait_for_current(evaluation, workspace),
    })
}

/// Waits for the current Update, and reports why its Workspace is not ready.
fn wait_for_current(evaluation: &StackEvaluation, workspace: &Workspace) -> StackStep {
    if let Some(blocked) = stuck_deletion(evaluation, workspace) {
        return evaluation.block(&blocked);
    }
    let summary = problem(evaluation, workspace).unwrap_or_else(processing);
    evaluation.wait(&summary, Requeue::after(WAIT))
}

/// Waits for the Workspace of the next Update. A deleted Stack that never applied anything does not
/// wait forever to destroy nothing.
fn wait_for_run(evaluation: &StackEvaluation, workspace: &Workspace) -> StackStep {
    let deleted = &evaluation.observed.stack.metadata.deletion_timestamp;
    let waited = deleted
        .as_ref()
        .map(|time| evaluation.now.duration_since(time.0));
    let problem = problem(evaluation, workspace);
    let longest = if problem.is_some() {
        MAX_DELETE_WAIT_WITH_PROBLEM
    } else {
        MAX_DELETE_WAIT
    };
    if evaluation.never_applied() && waited.is_some_and(|waited| waited > longest) {
        return evaluation.release();
    }
    if let Some(blocked) = stuck_deletion(evaluation, workspace) {
        return evaluation.block(&blocked);
    }
    match problem {
        Some(summary) => evaluation.wait(&summary, Requeue::after(WAIT)),
        None => evaluation.wait(&waiting(), Requeue::after(USUAL_START.unsigned_abs())),
    }
}

/// A deletion whose Workspace has had a problem for a while: the user has to repair it, or skip the
/// destroy.
fn stuck_deletion(evaluation: &StackEvaluation, workspace: &Workspace) -> Option<Blocked> {
    let conditions = &workspace.status.as_ref()?.conditions;
    let ready = find(conditions, ConditionType::Ready)?;
    let age = evaluation.now.duration_since(ready.last_transition_time.0);
    if !evaluation.observed.is_deleting()
        || evaluation.never_applied()
        || age <= MAX_DELETE_WAIT_WITH_PROBLEM
        || is_normal_startup(ready)
    {
        return None;
    }
    let Summary::Reconciling(_, message) = problem(evaluation, workspace)? else {
        return None;
    };
    Some(Blocked::OnDependency(
        StackReason::WorkspaceFailed,
        message,
        WAIT,
    ))
}

/// Why the Workspace is not ready: a problem at once, a step of a normal start only if it takes
/// longer than usual.
fn problem(evaluation: &StackEvaluation, workspace: &Workspace) -> Option<Summary> {
    let status = workspace
        .status
        .as_ref()
        .filter(|_| is_current(workspace))?;
    let ready = find(&status.conditions, ConditionType::Ready)?;
    let is_late = evaluation.now.duration_since(ready.last_transition_time.0) > USUAL_START;
    let is_problem = (is_late || !is_normal_startup(ready))
        && ready.status == "False"
        && !ready.message.is_empty();
    let message = || format!("{WAITING} ({}: {})", ready.reason, brief(&ready.message));
    is_problem.then(|| Summary::Reconciling(StackReason::StackProcessing, message()))
}

fn apply_problem(evaluation: &StackEvaluation, refusal: &Refusal) -> Blocked {
    let failed = |message: &String, again| {
        Blocked::OnDependency(StackReason::WorkspaceFailed, message.clone(), again)
    };
    match refusal {
        Refusal::NamespaceTerminating => evaluation.namespace_terminating(),
        Refusal::Invalid(message) => failed(message, REJECTED_AGAIN),
        Refusal::Failed(message) => failed(message, FAILED_AGAIN),
    }
}

const WAITING: &str = "waiting for workspace readiness";

fn waiting() -> Summary {
    Summary::Reconciling(StackReason::StackProcessing, WAITING.to_owned())
}

/// The status while the Workspace is applied. One that explains why the Stack is not ready for the
/// current spec stays until that is over, so that a retry does not make it flicker.
fn status_while_applying(evaluation: &StackEvaluation) -> StackStatus {
    let status = &evaluation.status;
    let is_same = status.observed_generation == Some(evaluation.observed.generation())
        && status.observed_reconcile_request.as_deref()
            == Some(evaluation.observed.request().as_ref());
    let is = |kind| is_true(&status.conditions, kind);
    if is_same
        && !is(ConditionType::Ready)
        && (is(ConditionType::Stalled) || is(ConditionType::Reconciling))
    {
        return status.clone();
    }
    evaluation.status_with(&waiting())
}

/// What stalls the Workspace. A stall about an older spec does not count, because it may be
/// repaired.
fn stall(workspace: &Workspace) -> Option<Blocked> {
    let conditions = &workspace.status.as_ref()?.conditions;
    let stalled = find(conditions, ConditionType::Stalled)
        .filter(|_| is_current(workspace) && has_condition(workspace, ConditionType::Stalled))?;
    let message = format!("{}: {}", stalled.reason, stalled.message);
    if stalled.reason == WorkspaceReason::IncompatibleConfiguration.as_str() {
        return Some(Blocked::OnUser(StackReason::PulumiVersionTooLow, message));
    }
    // Workspaces are retried, so this one may recover without a change of the spec.
    Some(Blocked::OnDependency(
        StackReason::WorkspaceFailed,
        message,
        WAIT,
    ))
}
