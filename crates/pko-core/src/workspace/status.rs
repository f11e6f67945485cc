//! The status of a Workspace: Ready or why not, and Stalled.

use pko_api::{
    auto::v1alpha1::WorkspaceStatus,
    names::{
        conditions::{ConditionStatus, ConditionType},
        reasons::WorkspaceReason,
    },
};

use super::{Case, Effect};
use crate::condition_set::{ConditionSet, find, is_true};

/// Whether the stored status is about the spec of now.
fn stored(case: &Case) -> Option<&WorkspaceStatus> {
    let workspace = &case.world.workspace;
    let status = workspace.status.as_ref()?;
    (status.observed_generation == workspace.metadata.generation).then_some(status)
}

/// Whether the stored status says Ready, about the spec of now.
pub(super) fn is_ready(case: &Case) -> bool {
    stored(case).is_some_and(|status| is_true(&status.conditions, ConditionType::Ready))
}

/// The status while the agent is asked to install what it needs. One that says what went wrong the last time
/// stays until it is known to be over: a try now and then does not make it come and go.
pub(super) fn published(case: &Case) -> Option<WorkspaceStatus> {
    if is_ready(case) {
        return None;
    }
    let failed = [
        WorkspaceReason::ConnectionFailed,
        WorkspaceReason::InstallationFailed,
    ];
    let before = stored(case).filter(|status| {
        find(&status.conditions, ConditionType::Ready)
            .is_some_and(|ready| failed.iter().any(|reason| reason.as_str() == ready.reason))
    });
    let installing = || {
        let message = "Installing packages and plugins required by the program";
        not_ready(case, WorkspaceReason::Installing, message)
    };
    Some(before.cloned().unwrap_or_else(installing))
}

/// Ready for Updates.
pub(super) fn ready(case: &Case) -> WorkspaceStatus {
    with_conditions(
        case,
        ConditionStatus::True,
        WorkspaceReason::Succeeded,
        "",
        false,
    )
}

/// Not ready, and why.
pub(super) fn not_ready(case: &Case, reason: WorkspaceReason, message: &str) -> WorkspaceStatus {
    with_conditions(case, ConditionStatus::False, reason, message, false)
}

/// Not ready, and not soon.
pub(super) fn stalled(case: &Case, reason: WorkspaceReason, message: &str) -> WorkspaceStatus {
    with_conditions(case, ConditionStatus::False, reason, message, true)
}

/// The status of a Workspace that nobody can reach.
pub(super) fn without_address(status: WorkspaceStatus) -> WorkspaceStatus {
    WorkspaceStatus {
        address: None,
        ..status
    }
}

fn with_conditions(
    case: &Case,
    ready: ConditionStatus,
    reason: WorkspaceReason,
    message: &str,
    stalled: bool,
) -> WorkspaceStatus {
    use ConditionType::{Ready, Stalled};

    let mut status = case.world.workspace.status.clone().unwrap_or_default();
    let mut conditions = ConditionSet::new(&status.conditions, case.now);
    conditions.set(Ready, ready, reason.as_str(), message);
    if stalled {
        conditions.set(Stalled, ConditionStatus::True, reason.as_str(), message);
    } else {
        conditions.remove(Stalled);
    }
    status.conditions = conditions.into_conditions();
    status.observed_generation = case.world.workspace.metadata.generation;
    status
}

/// The write of a status, unless it is stored already.
pub(super) fn written(case: &Case, status: WorkspaceStatus) -> Vec<Effect> {
    let stored = case.world.workspace.status.as_ref();
    let write = (stored != Some(&status)).then(|| Effect::PatchStatus(Box::new(status)));
    write.into_iter().collect()
}
