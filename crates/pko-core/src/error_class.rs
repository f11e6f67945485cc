//! What kind of failure something is, and so who has to act: the user, another object, or time.

use std::time::Duration;

use pko_api::names::reasons::StackReason;

use crate::{condition_set::Summary, step::Requeue};

/// Who ends a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// The user: nothing helps but a change of the spec.
    Stall(StackReason, String),
    /// Something else that may appear or change; looked at again after a while in any case.
    Wait(StackReason, String, Duration),
    /// Time: tried again after a while.
    Retry(StackReason, String, Duration),
}

impl Class {
    /// How it is reported.
    #[must_use]
    pub fn summary(&self) -> Summary {
        match self {
            Self::Stall(reason, message) | Self::Wait(reason, message, _) => {
                Summary::Stalled(*reason, message.clone())
            }
            Self::Retry(reason, message, _) => Summary::Reconciling(*reason, message.clone()),
        }
    }

    /// What is said of it.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Stall(_, message) | Self::Wait(_, message, _) | Self::Retry(_, message, _) => {
                message
            }
        }
    }

    /// When to look again.
    #[must_use]
    pub fn requeue(&self) -> Requeue {
        match self {
            Self::Stall(..) => Requeue::Settled,
            Self::Wait(_, _, delay) | Self::Retry(_, _, delay) => Requeue::after(*delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_says_who_has_to_act() {
        let delay = Duration::from_secs(30);
        let reason = StackReason::SourceUnavailable;
        let stall = Class::Stall(StackReason::SpecInvalid, "bad".into());
        assert_eq!(
            stall.summary(),
            Summary::Stalled(StackReason::SpecInvalid, "bad".into())
        );
        assert_eq!(stall.requeue(), Requeue::Settled);
        let wait = Class::Wait(reason, "gone".into(), delay);
        assert_eq!(wait.summary(), Summary::Stalled(reason, "gone".into()));
        assert_eq!(wait.requeue(), Requeue::After(delay));
        let retry = Class::Retry(reason, "busy".into(), delay);
        assert_eq!(retry.summary(), Summary::Reconciling(reason, "busy".into()));
        assert_eq!(retry.requeue(), Requeue::After(delay));
    }
}
