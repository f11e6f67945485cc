//! What kind of failure something is, and so who has to act: the user, another object, or time.

use std::time::Duration;

use pko_api::names::reasons::StackReason;

use crate::{condition_set::Summary, step::Requeue};

/// Who ends a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// The user: nothing helps but a change of the spec.
    OnUser(StackReason, String),
    /// Something else that may appear or change; looked at again after a while in any case.
    OnDependency(StackReason, String, Duration),
    /// Time: tried again after a while.
    Transient(StackReason, String, Duration),
}

impl Blocked {
    /// How it is reported.
    #[must_use]
    pub fn summary(&self) -> Summary {
        match self {
            Self::OnUser(reason, message) | Self::OnDependency(reason, message, _) => {
                Summary::Stalled(*reason, message.clone())
            }
            Self::Transient(reason, message, _) => Summary::Reconciling(*reason, message.clone()),
        }
    }

    /// What is said of it.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::OnUser(_, message)
            | Self::OnDependency(_, message, _)
            | Self::Transient(_, message, _) => message,
        }
    }

    /// When to look again.
    #[must_use]
    pub fn requeue(&self) -> Requeue {
        match self {
            Self::OnUser(..) => Requeue::Settled,
            Self::OnDependency(_, _, delay) | Self::Transient(_, _, delay) => {
                Requeue::after(*delay)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_decides_summary_and_requeue() {
        let delay = Duration::from_secs(30);
        let reason = StackReason::SourceUnavailable;
        let stall = Blocked::OnUser(StackReason::SpecInvalid, "bad".into());
        assert_eq!(
            stall.summary(),
            Summary::Stalled(StackReason::SpecInvalid, "bad".into())
        );
        assert_eq!(stall.requeue(), Requeue::Settled);
        let wait = Blocked::OnDependency(reason, "gone".into(), delay);
        assert_eq!(wait.summary(), Summary::Stalled(reason, "gone".into()));
        assert_eq!(wait.requeue(), Requeue::After(delay));
        let retry = Blocked::Transient(reason, "busy".into(), delay);
        assert_eq!(retry.summary(), Summary::Reconciling(reason, "busy".into()));
        assert_eq!(retry.requeue(), Requeue::After(delay));
    }
}
