//! Runs that did not end by themselves, and may have left a lock behind.

use jiff::Timestamp;
use pko_api::{
    Update,
    names::{conditions::ConditionType, failures::FailureClass, reasons::UpdateReason},
};

use crate::condition_set::{find, is_true};

/// A run that is over, and was not let end by itself: the pod that it ran in was replaced, its agent died and the next one
/// has found it interrupted, or its `pulumi` was killed, for want of memory or because it did not stop when it was told
/// to. Its agent knows that too, until its pod is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptedRun {
    /// Its id, which is the Update's uid.
    pub id: String,
    /// When it was begun.
    pub begun: Timestamp,
    /// When it was known to be over.
    pub lost: Timestamp,
}

/// The lost runs among these Updates that were of the same stack in the same Workspace as this one. A lock that was
/// taken there in the time of one of them is nobody's any more.
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

/// One that another operator began counts, too: it ran in a pod of the same name, which is gone before an agent of ours
/// runs in its place.
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
