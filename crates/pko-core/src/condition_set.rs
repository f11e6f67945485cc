//! Conditions as one set: who is True excludes whom, and a transition time moves only when a status does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pko_api::names::{
    conditions::{ConditionStatus, ConditionType},
    reasons::StackReason,
};

/// The longest message that the API server stores in a condition; other messages keep to it, too, so that
/// no object grows too large to be written.
const LONGEST_MESSAGE: usize = 32_768;
/// The longest reason that the API server stores in a condition.
const LONGEST_REASON: usize = 1_024;

/// What the condition Ready says of a Stack that is up to date. Upstream's users know this text.
pub(crate) const UP_TO_DATE: &str = "the stack has been processed and is up to date";

/// The conditions of an object while its next status is made.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionSet {
    conditions: Vec<Condition>,
    now: Timestamp,
}

/// Where a Stack is, in the manner of kstatus: exactly one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    /// Up to date.
    Ready,
    /// Up to date, and there is something to say: that nobody has looked for a while, or what the spec has in vain.
    ReadyBut(StackReason, String),
    /// Under way, or tried again later.
    Reconciling(StackReason, String),
    /// Waits for somebody.
    Stalled(StackReason, String),
}

impl ConditionSet {
    /// Starts from what is stored.
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
            message: shortened(message),
            observed_generation: None,
            last_transition_time,
        };
        match stored.and_then(|index| self.conditions.get_mut(index)) {
            Some(slot) => *slot = condition,
            None => self.conditions.push(condition),
        }
    }

    /// Removes a condition.
    pub fn remove(&mut self, kind: ConditionType) {
        self.conditions
            .retain(|condition| condition.type_ != kind.as_str());
    }

    /// Says where a Stack is: Ready, Reconciling and Stalled exclude each other.
    pub fn summarise(&mut self, summary: &Summary) {
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

    /// The conditions as they are written.
    #[must_use]
    pub fn into_conditions(self) -> Vec<Condition> {
        self.conditions
    }
}

/// Whether a condition of this type is True.
#[must_use]
pub fn is_true(conditions: &[Condition], kind: ConditionType) -> bool {
    find(conditions, kind)
        .is_some_and(|condition| condition.status == ConditionStatus::True.as_str())
}

/// The condition of this type.
#[must_use]
pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == kind.as_str())
}

/// Whether the API server takes this text, which may come from elsewhere, as a condition's reason.
#[must_use]
pub fn is_reason(text: &str) -> bool {
    let word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.len() <= LONGEST_REASON
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.ends_with(word)
        && text
            .chars()
            .all(|character| word(character) || ",:".contains(character))
}

/// Keeps the beginning and the end of a message that is too long: the cause is often in the last lines.
#[must_use]
pub fn shortened(message: &str) -> String {
    shortened_to(message, LONGEST_MESSAGE)
}

/// The longest part of a message that tells what another object says.
const LONGEST_BRIEF: usize = 1_024;

/// What another object says, short enough to be a part of a message.
#[must_use]
pub(crate) fn brief(message: &str) -> String {
    shortened_to(message.trim(), LONGEST_BRIEF)
}

/// Keeps the beginning and the end of a text of more bytes than this.
#[must_use]
pub(crate) fn shortened_to(message: &str, most: usize) -> String {
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

    fn summarised(stored: &[Condition], second: i64, summary: &Summary) -> Vec<Condition> {
        let mut set = ConditionSet::new(stored, at(second));
        set.summarise(summary);
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
            conditions = summarised(&conditions, 1, summary);
            assert_eq!(texts(&conditions), expected);
        }
    }

    #[test]
    fn condition_time_moves_only_with_the_status() {
        let first = summarised(
            &[],
            1,
            &Summary::Reconciling(StackReason::StackProcessing, "a".into()),
        );
        let second = summarised(
            &first,
            2,
            &Summary::Reconciling(StackReason::RetryingAfterFailure, "b".into()),
        );
        assert_eq!(second[1].last_transition_time, Time(at(1)));
        assert_eq!(second[1].message, "b");
        let third = summarised(&second, 3, &Summary::Ready);
        assert_eq!(third[0].last_transition_time, Time(at(3)));
        assert_eq!(summarised(&third, 4, &Summary::Ready), third);
    }

    #[test]
    fn long_message_keeps_both_ends() {
        let message = format!("begin {} end", "ü".repeat(40_000));
        let mut set = ConditionSet::new(&[], at(1));
        set.set(ConditionType::Ready, ConditionStatus::False, "R", &message);
        let stored = &set.into_conditions()[0].message;
        assert!(stored.len() <= LONGEST_MESSAGE);
        assert!(stored.starts_with("begin") && stored.ends_with("end"));
    }
    #[test]
    fn reason_is_one_valid_word() {
        for reason in ["UpdateConflict", "a", "A_b,c:d1"] {
            assert!(is_reason(reason), "{reason}");
        }
        let long = "a".repeat(LONGEST_REASON + 1);
        for text in ["", "1a", "_a", "a:", "exit status 255", "ä", "a\n", &long] {
            assert!(!is_reason(text), "{text}");
        }
    }
}
