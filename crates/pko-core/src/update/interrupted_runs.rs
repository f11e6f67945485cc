//! Interrupted runs, which may have left a lock in the backend.

use jiff::Timestamp;
use pko_api::{
    Update,
    names::{conditions::ConditionType, failures::FailureClass, reasons::UpdateReason},
};

use crate::condition_set::{find, is_true};

/// A run that was interrupted: its pod was replaced, its agent died, or its `pulumi` was killed,
/// for lack of memory or after an interrupt. The agent records it too, until its pod is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptedRun {
    /// The Update's uid.
    pub id: String,
    /// When the run started.
    pub begun: Timestamp,
    /// When the run was found to have ended.
    pub lost: Timestamp,
}

/// The interrupted runs among these Updates for the same stack in the same Workspace. A lock from
/// the time of such a run is stale.
pub fn interrupted_runs<'a>(
    update: &Update,
    others: impl IntoIterator<Item = &'a Update>,
) -> Vec<InterruptedRun> {
    let of_the_same = others
        .into_iter()
        .filter(|other| is_same_stack(other, update));
    of_the_same.filter_map(interrupted_run).collect()
}

fn is_same_stack(other: &Update, update: &Update) -> bool {
    let place = |update: &Update| {
        let spec = &update.spec;
        let (workspace, stack) = (spec.workspace_name.clone(), spec.stack_name.clone());
        (update.metadata.namespace.clone(), workspace, stack)
    };
    place(other) == place(update) && other.metadata.uid != update.metadata.uid
}

/// Includes runs that another operator started: their pod had the same name, so it is gone before
/// an agent of ours runs.
fn interrupted_run(update: &Update) -> Option<InterruptedRun> {
    let status = update.status.as_ref()?;
    let failed = find(&status.conditions, ConditionType::Failed)
        .filter(|_| is_true(&status.conditions, ConditionType::Failed))?;
    let complete = find(&status.conditions, ConditionType::Complete)
        .filter(|_| is_true(&status.conditions, ConditionType::Complete))?;
    let class = status.failure_class.as_deref();
    let is_lost = failed.reason == UpdateReason::Aborted.as_str()
        || [FailureClass::Interrupted, FailureClass::Canceled]
            .iter()
            .any(|cut_short| class == Some(cut_short.as_str()));
    if !is_lost {
        return None;
    }
    Some(InterruptedRun {
        id: update.metadata.uid.clone()?,
        begun: status.start_time.as_ref()?.0,
        lost: complete.last_transition_time.0,
    })
}
