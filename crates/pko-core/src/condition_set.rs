//! [`ConditionSet`]: keeps Ready, Reconciling and Stalled exclusive, and changes a transition time
//! only with the status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pko_api::names::{
    conditions::{ConditionStatus, ConditionType},
    reasons::StackReason,
};

/// The API server's limit for a condition's message. Other messages have the same limit, so that no
/// object becomes too large to be written.
const MAX_MESSAGE_BYTES: usize = 32_768;
/// The API server's limit for a condition's reason.
const MAX_REASON_BYTES: usize = 1_024;

/// The message of the condition Ready of a Stack that is up to date; upstream's text.
pub(crate) const UP_TO_DATE: &str = "the stack has been processed and is up to date";

/// The conditions of an object while its next status is built.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionSet {
    conditions: Vec<Condition>,
    now: Timestamp,
}

/// The state of a Stack in terms of kstatus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    /// Up to date.
    Ready,
    /// Up to date, with a remark: the source does not respond, or a part of the spec is ignored.
    ReadyBut(StackReason, String),
    /// In progress, or waiting for a retry.
    Reconciling(StackReason, String),
    /// Waiting for the user or for another object.
    Stalled(StackReason, String),
}

impl ConditionSet {
    /// Starts with the stored conditions.
    #[must_use]
    pub fn new(stored: &[Condition], now: Timestamp) -> Self {
        Self {
            conditions: stored.to_vec(),
            now,
        }
    }

    /// Sets one condition; its transition time moves only if its status does.
    pub fn set(
        &mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: &str,
        message: &str,
    ) {
        let stored = self
            .conditions
            .iter()
            .position(|condition| condition.type_ == kind.as_str());
        let previous = stored.and_then(|index| self.conditions.get(index));
        let last_transition_time = previous
            .filter(|condition| condition.status == status.as_str())
            .map_or(Time(self.now), |condition| {
                condition.last_transition_time.clone()
            });
        let condition = Condition {
            type_: kind.as_str().to_owned(),
            status: status.as_str().to_owned(),
            reason: reason.to_owned(),
            message: shorten(message),
            observed_generation: None,
            last_transition_time,
        };
        match stored.and_then(|index| self.conditions.get_mut(index)) {
            Some(slot) => *slot = condition,
            None => self.conditions.push(condition),
        }
    }

    pub fn remove(&mut self, kind: ConditionType) {
        self.conditions
            .retain(|condition| condition.type_ != kind.as_str());
    }

    /// Sets Ready, Reconciling and Stalled, which exclude each other.
    pub fn set_summary(&mut self, summary: &Summary) {
        use ConditionStatus::{False, True};
        use ConditionType::{Ready, Reconciling, Stalled};

        let (ready, reason, message) = match summary {
            Summary::Ready => (True, StackReason::ProcessingCompleted, UP_TO_DATE),
            Summary::ReadyBut(reason, message) => (True, *reason, message.as_str()),
            Summary::Reconciling(..) => (
                False,
                StackReason::NotReadyInProgress,
                "reconciliation is in progress",
            ),
            Summary::Stalled(..) => (
                False,
                StackReason::NotReadyStalled,
                "reconciliation is stalled",
            ),
        };
        self.set(Ready, ready, reason.as_str(), message);
        match summary {
            Summary::Ready | Summary::ReadyBut(..) => {
                self.remove(Reconciling);
                self.remove(Stalled);
            }
            Summary::Reconciling(reason, message) => {
                self.remove(Stalled);
                self.set(Reconciling, True, reason.as_str(), message);
            }
            Summary::Stalled(reason, message) => {
                self.remove(Reconciling);
                self.set(Stalled, True, reason.as_str(), message);
            }
        }
    }

    #[must_use]
    pub fn into_conditions(self) -> Vec<Condition> {
        self.conditions
    }
}

#[must_use]
pub fn is_true(conditions: &[Condition], kind: ConditionType) -> bool {
    find(conditions, kind)
        .is_some_and(|condition| condition.status == ConditionStatus::True.as_str())
}

#[must_use]
pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == kind.as_str())
}

/// Whether the API server accepts this text, such as one from an agent, as a condition's reason.
#[must_use]
pub fn is_reason(text: &str) -> bool {
    let word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.len() <= MAX_REASON_BYTES
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.ends_with(word)
        && text
            .chars()
            .all(|character| word(character) || ",:".contains(character))
}

/// Cuts out the middle of a message that is too long. The cause is often in the last lines.
#[must_use]
pub fn shorten(message: &str) -> String {
    shorten_to(message, MAX_MESSAGE_BYTES)
}

/// The limit for a quoted message of another object.
const MAX_QUOTE_BYTES: usize = 1_024;

/// A message of another object, short enough to be quoted in a message.
#[must_use]
pub(crate) fn brief(message: &str) -> String {
    shorten_to(message.trim(), MAX_QUOTE_BYTES)
}

/// Cuts out the middle of a text of more than this many bytes.
#[must_use]
pub(crate) fn shorten_to(message: &str, most: usize) -> String {
    if message.len() <= most {
        return message.to_owned();
    }
    let half = (most / 2).saturating_sub(8);
    let head = message
        .get(..message.floor_char_boundary(half))
        .unwrap_or_default();
    let tail = message
        .get(message.ceil_char_boundary(message.len() - half)..)
        .unwrap_or_default();
    format!("{head}\n…\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn conditions_for(stored: &[Condition], second: i64, summary: &Summary) -> Vec<Condition> {
        let mut set = ConditionSet::new(stored, at(second));
        set.set_summary(summary);
        set.into_conditions()
    }

    fn texts(conditions: &[Condition]) -> Vec<String> {
        conditions
            .iter()
            .map(|condition| {
                format!(
                    "{}={} {}",
                    condition.type_, condition.status, condition.reason
                )
            })
            .collect()
    }

    #[test]
    fn summary_decides_the_conditions() {
        let reconciling = Summary::Reconciling(StackReason::StackProcessing, "busy".into());
        let stalled = Summary::Stalled(StackReason::SpecInvalid, "bad".into());
        let mut conditions = Vec::new();
        for (summary, expected) in [
            (&Summary::Ready, vec!["Ready=True ProcessingCompleted"]),
            (
                &reconciling,
                vec![
                    "Ready=False NotReadyInProgress",
                    "Reconciling=True StackProcessing",
                ],
            ),
            (
                &stalled,
                vec!["Ready=False NotReadyStalled", "Stalled=True SpecInvalid"],
            ),
            (
                &reconciling,
                vec![
                    "Ready=False NotReadyInProgress",
                    "Reconciling=True StackProcessing",
                ],
            ),
            (&Summary::Ready, vec!["Ready=True ProcessingCompleted"]),
        ] {
            conditions = conditions_for(&conditions, 1, summary);
            assert_eq!(texts(&conditions), expected);
        }
    }

    #[test]
    fn condition_time_moves_only_with_the_status() {
        let first = conditions_for(
            &[],
            1,
            &Summary::Reconciling(StackReason::StackProcessing, "a".into()),
        );
        let second = conditions_for(
            &first,
            2,
            &Summary::Reconciling(StackReason::RetryingAfterFailure, "b".into()),
        );
        assert_eq!(second[1].last_transition_time, Time(at(1)));
        assert_eq!(second[1].message, "b");
        let third = conditions_for(&second, 3, &Summary::Ready);
        assert_eq!(third[0].last_transition_time, Time(at(3)));
        assert_eq!(conditions_for(&third, 4, &Summary::Ready), third);
    }

    #[test]
    fn long_message_keeps_both_ends() {
        let message = format!("begin {} end", "ü".repeat(40_000));
        let mut set = ConditionSet::new(&[], at(1));
        set.set(ConditionType::Ready, ConditionStatus::False, "R", &message);
        let stored = &set.into_conditions()[0].message;
        assert!(stored.len() <= MAX_MESSAGE_BYTES);
        assert!(stored.starts_with("begin") && stored.ends_with("end"));
    }
    #[test]
    fn reason_is_one_valid_word() {
        for reason in ["UpdateConflict", "a", "A_b,c:d1"] {
            assert!(is_reason(reason), "{reason}");
        }
        let long = "a".repeat(MAX_REASON_BYTES + 1);
        for text in ["", "1a", "_a", "a:", "exit status 255", "ä", "a\n", &long] {
            assert!(!is_reason(text), "{text}");
        }
    }
}
