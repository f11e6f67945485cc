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

use super::{finalize, inputs, kept_workspace, source, update};
use crate::{
    Blocked,
    condition_set::{Summary, brief, find, is_true},
    stack::{ProgramSource, Refusal, StackEvaluation, StackStep, StackWrite, desired},
    step::Requeue,
    workspace::{has_condition, is_current, is_normal_startup, is_ready},
};

/// A Workspace's own events end the wait; this is for one that was missed.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// Workspaces that take longer have something to say about it.
const USUAL_WAIT: SignedDuration = SignedDuration::from_secs(20);
/// How soon a Workspace that the API server could not take is applied again.
const FAILED_AGAIN: Duration = Duration::from_secs(30);
/// For one that it does not take as it is: the Stack has to change, or whoever holds a field of the Workspace.
const REFUSED_AGAIN: Duration = Duration::from_mins(2);
/// How long a Stack that goes, and owes nothing, waits for its Workspace.
const LONGEST_FAREWELL: SignedDuration = SignedDuration::from_mins(5);
/// The same for a Workspace that says what is wrong with it.
const TROUBLED_FAREWELL: SignedDuration = SignedDuration::from_mins(1);

/// Applies the Workspace and waits until it is ready.
pub(in crate::stack) fn provision(evaluation: &StackEvaluation) -> Option<StackStep> {
    let source = source::known(evaluation)?;
    // Before a pod is started for an Update that could not be made.
    if let Some(problem) = desired::refused_template(&evaluation.observed) {
        return Some(evaluation.refused(problem));
    }
    let workspace = match workspace_for_run(evaluation, &source) {
        Ok(RunWorkspace::Existing(workspace)) if is_ready(workspace) => return None,
        Ok(RunWorkspace::Existing(workspace)) => return Some(still_waiting(evaluation, workspace)),
        Ok(RunWorkspace::Applied(workspace)) => workspace,
        Err(problem) => return Some(evaluation.refused(problem)),
    };
    let published = published(evaluation);
    let write = || StackWrite::ApplyWorkspace(workspace, Box::new(published.clone()));
    let workspace = match evaluation.observed.workspace.or_write(write) {
        Ok(workspace) => workspace,
        Err(question) => return Some(question),
    };
    let evaluation = evaluation.after_publishing(published);
    match workspace {
        Err(refusal) => Some(evaluation.blocked(&refused(&evaluation, refusal))),
        Ok(workspace) if is_ready(workspace) => None,
        Ok(workspace) => Some(match stall(workspace) {
            Some(blocked) => evaluation.blocked(&blocked),
            None => still_waiting(&evaluation, workspace),
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
    let Ok(Some(running)) = kept_workspace::find_running(evaluation) else {
        return desired;
    };
    match desired {
        Ok(desired) if !kept_workspace::is_unchanged(evaluation) => Ok(desired),
        _ if evaluation.observed.is_deleted_in_foreground() => {
            let disowned = desired::disowned(&evaluation.observed, running);
            Ok(RunWorkspace::Applied(Box::new(disowned)))
        }
        _ => Ok(RunWorkspace::Existing(running)),
    }
}

/// An Update waits for a Workspace that does not get ready. What mends it may be a spec or a source that is newer than
/// the Update, which nobody would hear of: the Update waits for the Workspace, and the Stack for the Update.
pub(super) fn keep_current(evaluation: &StackEvaluation) -> StackStep {
    let waiting = |summary: &Summary| evaluation.waiting(summary, Requeue::after(LOOK_AGAIN));
    let source = match source::of(evaluation) {
        Ok(source) => source,
        // Nothing else than a destroy waits then, and it waits for nothing else than this.
        Err(problem @ StackStep::Finish(_)) if evaluation.observed.is_deleting() => return problem,
        Err(StackStep::Finish(_)) => return waiting(&update::processing()),
        Err(request) => return request,
    };
    if let Some(question) = inputs::ask(evaluation) {
        return question;
    }
    if let Some(problem) = inputs::problem(evaluation).filter(|_| evaluation.observed.is_deleting())
    {
        return inputs::refuse(evaluation, problem);
    }
    let workspace = match workspace_for_run(evaluation, &source) {
        Ok(RunWorkspace::Existing(workspace)) => return keep_waiting(evaluation, workspace),
        Ok(RunWorkspace::Applied(workspace)) => workspace,
        Err(_) => return waiting(&update::processing()),
    };
    let stored = evaluation.observed.stack.status.clone().unwrap_or_default();
    let write = || StackWrite::ApplyWorkspace(workspace, Box::new(stored));
    match evaluation.observed.workspace.or_write(write) {
        Err(question) => question,
        Ok(Err(refusal)) => waiting(&refused(evaluation, refusal).summary()),
        Ok(Ok(workspace)) => keep_waiting(evaluation, workspace),
    }
}

/// The Update waits on, and the Stack reports what keeps the Workspace from being ready.
fn keep_waiting(evaluation: &StackEvaluation, workspace: &Workspace) -> StackStep {
    if let Some(blocked) = stuck_deletion(evaluation, workspace) {
        return evaluation.blocked(&blocked);
    }
    let summary = trouble(evaluation, workspace).unwrap_or_else(update::processing);
    evaluation.waiting(&summary, Requeue::after(LOOK_AGAIN))
}

/// For a Stack that goes and lacks something: a namespace that goes takes Secrets before Stacks,
/// and that is what its user should hear of then. Whether it goes is known by whether it takes a
/// new Workspace; one that exists is left alone.
pub(super) fn try_in_namespace(evaluation: &StackEvaluation) -> Option<StackStep> {
    if !evaluation.observed.is_deleting()
        || kept_workspace::find_existing(evaluation).ok()?.is_some()
    {
        return None;
    }
    let source = source::known(evaluation)?;
    let workspace = desired::workspace(&evaluation.observed, &evaluation.status, &source).ok()?;
    let stored = evaluation.observed.stack.status.clone().unwrap_or_default();
    let write = || StackWrite::ApplyWorkspace(Box::new(workspace), Box::new(stored));
    match evaluation.observed.workspace.or_write(write) {
        Err(question) => Some(question),
        Ok(Err(Refusal::NamespaceTerminating)) => {
            Some(evaluation.blocked(&finalize::namespace_terminating(evaluation)))
        }
        Ok(_) => None,
    }
}

/// A Stack that goes and for which nothing was ever applied does not wait for ever for a place to destroy nothing.
fn still_waiting(evaluation: &StackEvaluation, workspace: &Workspace) -> StackStep {
    let deleted = evaluation
        .observed
        .stack
        .metadata
        .deletion_timestamp
        .as_ref();
    let waited = deleted.map(|time| evaluation.now.duration_since(time.0));
    let trouble = trouble(evaluation, workspace);
    let longest = if trouble.is_some() {
        TROUBLED_FAREWELL
    } else {
        LONGEST_FAREWELL
    };
    if evaluation.never_applied() && waited.is_some_and(|waited| waited > longest) {
        return finalize::release(evaluation);
    }
    if let Some(blocked) = stuck_deletion(evaluation, workspace) {
        return evaluation.blocked(&blocked);
    }
    match trouble {
        Some(summary) => evaluation.waiting(&summary, Requeue::after(LOOK_AGAIN)),
        None => evaluation.waiting(&waiting(), Requeue::after(USUAL_WAIT.unsigned_abs())),
    }
}

/// A deletion that waits for a Workspace whose problem has lasted: somebody has to repair it, or do
/// without a destroy.
fn stuck_deletion(evaluation: &StackEvaluation, workspace: &Workspace) -> Option<Blocked> {
    let conditions = &workspace.status.as_ref()?.conditions;
    let ready = find(conditions, ConditionType::Ready)?;
    let lasts = evaluation.now.duration_since(ready.last_transition_time.0) > TROUBLED_FAREWELL;
    if !evaluation.observed.is_deleting()
        || evaluation.never_applied()
        || !lasts
        || is_normal_startup(ready)
    {
        return None;
    }
    let Summary::Reconciling(_, message) = trouble(evaluation, workspace)? else {
        return None;
    };
    Some(Blocked::OnDependency(
        StackReason::WorkspaceFailed,
        message,
        LOOK_AGAIN,
    ))
}

/// What keeps the Workspace from being ready: a problem at once, a step of a usual start only if it takes unusually
/// long.
fn trouble(evaluation: &StackEvaluation, workspace: &Workspace) -> Option<Summary> {
    let status = workspace
        .status
        .as_ref()
        .filter(|_| is_current(workspace))?;
    let ready = find(&status.conditions, ConditionType::Ready)?;
    let lasts = evaluation.now.duration_since(ready.last_transition_time.0) > USUAL_WAIT;
    let said = (lasts || !is_normal_startup(ready))
        && ready.status == "False"
        && !ready.message.is_empty();
    let message = || format!("{WAITING} ({}: {})", ready.reason, brief(&ready.message));
    said.then(|| Summary::Reconciling(StackReason::StackProcessing, message()))
}

fn refused(evaluation: &StackEvaluation, refusal: &Refusal) -> Blocked {
    let failed = |message: &String, again| {
        Blocked::OnDependency(StackReason::WorkspaceFailed, message.clone(), again)
    };
    match refusal {
        Refusal::NamespaceTerminating => finalize::namespace_terminating(evaluation),
        Refusal::Invalid(message) => failed(message, REFUSED_AGAIN),
        Refusal::Failed(message) => failed(message, FAILED_AGAIN),
    }
}

const WAITING: &str = "waiting for workspace readiness";

fn waiting() -> Summary {
    Summary::Reconciling(StackReason::StackProcessing, WAITING.to_owned())
}

/// The status while the Workspace is applied. One about this very spec that says why the Stack is not ready
/// stays until it is known to be over: a look at it now and then does not make it come and go.
fn published(evaluation: &StackEvaluation) -> StackStatus {
    let status = &evaluation.status;
    let same = status.observed_generation == Some(evaluation.observed.generation())
        && status.observed_reconcile_request.as_deref()
            == Some(evaluation.observed.request().as_ref());
    let is = |kind| is_true(&status.conditions, kind);
    if same
        && !is(ConditionType::Ready)
        && (is(ConditionType::Stalled) || is(ConditionType::Reconciling))
    {
        return status.clone();
    }
    evaluation.summarised(&waiting())
}

/// A stall counts only if it is about the spec of now: an old one may just have been mended.
fn stall(workspace: &Workspace) -> Option<Blocked> {
    let conditions = &workspace.status.as_ref()?.conditions;
    let stalled = find(conditions, ConditionType::Stalled)
        .filter(|_| is_current(workspace) && has_condition(workspace, ConditionType::Stalled))?;
    let message = format!("{}: {}", stalled.reason, stalled.message);
    if stalled.reason == WorkspaceReason::IncompatibleConfiguration.as_str() {
        return Some(Blocked::OnUser(StackReason::PulumiVersionTooLow, message));
    }
    // The Workspace is tried again, so this one may pass without a change of the spec.
    Some(Blocked::OnDependency(
        StackReason::WorkspaceFailed,
        message,
        LOOK_AGAIN,
    ))
}
