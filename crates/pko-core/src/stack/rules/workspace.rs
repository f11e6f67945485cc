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
    Class,
    condition_set::{Summary, brief, find, is_true},
    stack::{Case, Question, Refusal, Source, Step, desired},
    step::Requeue,
    workspace::is_usual_start,
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
pub(in crate::stack) fn provision(case: &Case) -> Option<Step> {
    let source = source::known(case)?;
    // Before a pod is started for an Update that could not be made.
    if let Some(problem) = desired::refused_template(&case.world) {
        return Some(case.refused(problem));
    }
    let workspace = match workspace_for_run(case, &source) {
        Ok(RunWorkspace::Existing(workspace)) if is_ready(workspace) => return None,
        Ok(RunWorkspace::Existing(workspace)) => return Some(still_waiting(case, workspace)),
        Ok(RunWorkspace::Applied(workspace)) => workspace,
        Err(problem) => return Some(case.refused(problem)),
    };
    let published = published(case);
    let ask = || Question::ApplyWorkspace(workspace, Box::new(published.clone()));
    let workspace = match case.world.workspace.or_ask(ask) {
        Ok(workspace) => workspace,
        Err(question) => return Some(question),
    };
    let case = case.after_publishing(published);
    match workspace {
        Err(refusal) => Some(case.blocked(&refused(&case, refusal))),
        Ok(workspace) if is_ready(workspace) => None,
        Ok(workspace) => Some(match stall(workspace) {
            Some(class) => case.blocked(&class),
            None => still_waiting(&case, workspace),
        }),
    }
}

/// The Workspace in which the next Update runs.
enum RunWorkspace<'case> {
    /// One that exists, without a change.
    Existing(&'case Workspace),
    /// One that is applied first.
    Applied(Box<Workspace>),
}

fn workspace_for_run<'case>(
    case: &'case Case,
    source: &Source,
) -> Result<RunWorkspace<'case>, String> {
    let desired = desired::workspace(&case.world, &case.status, source);
    let desired = desired.map(|workspace| RunWorkspace::Applied(Box::new(workspace)));
    let Ok(Some(running)) = kept_workspace::find_running(case) else {
        return desired;
    };
    match desired {
        Ok(desired) if !kept_workspace::is_unchanged(case) => Ok(desired),
        _ if case.world.is_deleted_in_foreground() => {
            let disowned = desired::disowned(&case.world, running);
            Ok(RunWorkspace::Applied(Box::new(disowned)))
        }
        _ => Ok(RunWorkspace::Existing(running)),
    }
}

/// An Update waits for a Workspace that does not get ready. What mends it may be a spec or a source that is newer than
/// the Update, which nobody would hear of: the Update waits for the Workspace, and the Stack for the Update.
pub(super) fn keep_current(case: &Case) -> Step {
    let waiting = |summary: &Summary| case.waiting(summary, Requeue::after(LOOK_AGAIN));
    let source = match source::of(case) {
        Ok(source) => source,
        Err(question @ Step::Ask(_)) => return question,
        // Nothing else than a destroy waits then, and it waits for nothing else than this.
        Err(problem) if case.world.is_deleting() => return problem,
        Err(Step::Finish(_)) => return waiting(&update::processing()),
    };
    if let Some(question) = inputs::ask(case) {
        return question;
    }
    if let Some(problem) = inputs::problem(case).filter(|_| case.world.is_deleting()) {
        return inputs::refuse(case, problem);
    }
    let workspace = match workspace_for_run(case, &source) {
        Ok(RunWorkspace::Existing(workspace)) => return keep_waiting(case, workspace),
        Ok(RunWorkspace::Applied(workspace)) => workspace,
        Err(_) => return waiting(&update::processing()),
    };
    let stored = case.world.stack.status.clone().unwrap_or_default();
    let ask = || Question::ApplyWorkspace(workspace, Box::new(stored));
    match case.world.workspace.or_ask(ask) {
        Err(question) => question,
        Ok(Err(refusal)) => waiting(&refused(case, refusal).summary()),
        Ok(Ok(workspace)) => keep_waiting(case, workspace),
    }
}

/// The Update waits on, and the Stack reports what keeps the Workspace from being ready.
fn keep_waiting(case: &Case, workspace: &Workspace) -> Step {
    if let Some(class) = stuck_deletion(case, workspace) {
        return case.blocked(&class);
    }
    let summary = trouble(case, workspace).unwrap_or_else(update::processing);
    case.waiting(&summary, Requeue::after(LOOK_AGAIN))
}

/// For a Stack that goes and lacks something: a namespace that goes takes Secrets before Stacks,
/// and that is what its user should hear of then. Whether it goes is known by whether it takes a
/// new Workspace; one that exists is left alone.
pub(super) fn try_in_namespace(case: &Case) -> Option<Step> {
    if !case.world.is_deleting() || kept_workspace::find_existing(case).ok()?.is_some() {
        return None;
    }
    let source = source::known(case)?;
    let workspace = desired::workspace(&case.world, &case.status, &source).ok()?;
    let stored = case.world.stack.status.clone().unwrap_or_default();
    let ask = || Question::ApplyWorkspace(Box::new(workspace), Box::new(stored));
    match case.world.workspace.or_ask(ask) {
        Err(question) => Some(question),
        Ok(Err(Refusal::NamespaceTerminating)) => {
            Some(case.blocked(&finalize::namespace_terminating(case)))
        }
        Ok(_) => None,
    }
}

/// A Stack that goes and for which nothing was ever applied does not wait for ever for a place to destroy nothing.
fn still_waiting(case: &Case, workspace: &Workspace) -> Step {
    let deleted = case.world.stack.metadata.deletion_timestamp.as_ref();
    let waited = deleted.map(|time| case.now.duration_since(time.0));
    let trouble = trouble(case, workspace);
    let longest = if trouble.is_some() {
        TROUBLED_FAREWELL
    } else {
        LONGEST_FAREWELL
    };
    if case.never_applied() && waited.is_some_and(|waited| waited > longest) {
        return finalize::release(case);
    }
    if let Some(class) = stuck_deletion(case, workspace) {
        return case.blocked(&class);
    }
    match trouble {
        Some(summary) => case.waiting(&summary, Requeue::after(LOOK_AGAIN)),
        None => case.waiting(&waiting(), Requeue::after(USUAL_WAIT.unsigned_abs())),
    }
}

/// A deletion that waits for a Workspace whose problem has lasted: somebody has to repair it, or do
/// without a destroy.
fn stuck_deletion(case: &Case, workspace: &Workspace) -> Option<Class> {
    let conditions = &workspace.status.as_ref()?.conditions;
    let ready = find(conditions, ConditionType::Ready)?;
    let lasts = case.now.duration_since(ready.last_transition_time.0) > TROUBLED_FAREWELL;
    if !case.world.is_deleting() || case.never_applied() || !lasts || is_usual_start(ready) {
        return None;
    }
    let Summary::Reconciling(_, message) = trouble(case, workspace)? else {
        return None;
    };
    Some(Class::Wait(
        StackReason::WorkspaceFailed,
        message,
        LOOK_AGAIN,
    ))
}

/// What keeps the Workspace from being ready: a problem at once, a step of a usual start only if it takes unusually
/// long.
fn trouble(case: &Case, workspace: &Workspace) -> Option<Summary> {
    let status = workspace
        .status
        .as_ref()
        .filter(|_| is_current(workspace))?;
    let ready = find(&status.conditions, ConditionType::Ready)?;
    let lasts = case.now.duration_since(ready.last_transition_time.0) > USUAL_WAIT;
    let said =
        (lasts || !is_usual_start(ready)) && ready.status == "False" && !ready.message.is_empty();
    let message = || format!("{WAITING} ({}: {})", ready.reason, brief(&ready.message));
    said.then(|| Summary::Reconciling(StackReason::StackProcessing, message()))
}

fn refused(case: &Case, refusal: &Refusal) -> Class {
    let failed =
        |message: &String, again| Class::Wait(StackReason::WorkspaceFailed, message.clone(), again);
    match refusal {
        Refusal::NamespaceTerminating => finalize::namespace_terminating(case),
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
fn published(case: &Case) -> StackStatus {
    let status = &case.status;
    let same = status.observed_generation == Some(case.world.generation())
        && status.observed_reconcile_request.as_deref() == Some(case.world.request().as_ref());
    let is = |kind| is_true(&status.conditions, kind);
    if same
        && !is(ConditionType::Ready)
        && (is(ConditionType::Stalled) || is(ConditionType::Reconciling))
    {
        return status.clone();
    }
    case.summarised(&waiting())
}

/// Ready, and for the spec that it has now.
#[must_use]
pub fn is_ready(workspace: &Workspace) -> bool {
    let deleting = workspace.metadata.deletion_timestamp.is_some();
    !deleting && is_current(workspace) && has(workspace, ConditionType::Ready)
}

/// A stall counts only if it is about the spec of now: an old one may just have been mended.
fn stall(workspace: &Workspace) -> Option<Class> {
    let conditions = &workspace.status.as_ref()?.conditions;
    let stalled = find(conditions, ConditionType::Stalled)
        .filter(|_| is_current(workspace) && has(workspace, ConditionType::Stalled))?;
    let message = format!("{}: {}", stalled.reason, stalled.message);
    if stalled.reason == WorkspaceReason::IncompatibleConfiguration.as_str() {
        return Some(Class::Stall(StackReason::PulumiVersionTooLow, message));
    }
    // The Workspace is tried again, so this one may pass without a change of the spec.
    Some(Class::Wait(
        StackReason::WorkspaceFailed,
        message,
        LOOK_AGAIN,
    ))
}

pub(super) fn is_current(workspace: &Workspace) -> bool {
    let status = workspace.status.as_ref();
    status.and_then(|status| status.observed_generation) == workspace.metadata.generation
}

fn has(workspace: &Workspace, kind: ConditionType) -> bool {
    let status = workspace.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, kind))
}
