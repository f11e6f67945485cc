//! Classes of failures: blocked on the user, blocked on a dependency, or transient.

use std::time::Duration;

use pko_api::names::reasons::StackReason;

use crate::{condition_set::Summary, step::Requeue};

/// Why a Stack cannot proceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Only a change of the spec by the user helps.
    OnUser(StackReason, String),
    /// Another object may appear or change. The Stack is requeued in any case.
    OnDependency(StackReason, String, Duration),
    /// Retried after the delay.
    Transient(StackReason, String, Duration),
}

impl Blocked {
    #[must_use]
    pub fn summary(&self) -> Summary {
        match self {
            Self::OnUser(reason, message) | Self::OnDependency(reason, message, _) => {
                Summary::Stalled(*reason, message.clone())
            }
            Self::Transient(reason, message, _) => Summary::Reconciling(*reason, message.clone()),
        }
    }

    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::OnUser(_, message)
            | Self::OnDependency(_, message, _)
            | Self::Transient(_, message, _) => message,
        }
    }

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
