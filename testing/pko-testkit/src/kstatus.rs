//! The status of an object as generic tools compute it, and the rules for its conditions.
//!
//! kstatus (`sigs.k8s.io/cli-utils`) is how Flux, Argo CD, kpt and others decide whether a custom
//! resource is current, in progress or failed.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

mod conditions;

use conditions::{Condition, conditions};

/// A status of kstatus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KStatus {
    /// The object matches its spec.
    Current,
    /// It is on its way there.
    InProgress,
    /// It will not get there by itself.
    Failed,
    Terminating,
}

impl fmt::Display for KStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// How the conditions Ready, Reconciling and Stalled of an object go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionProtocol {
    /// Exactly one of them is True, and Ready is always there: a Stack.
    ExactlyOne,
    /// At most one of them is True: a kind with other conditions for its progress.
    AtMostOne,
}

/// The state of a custom resource, as kstatus computes it.
#[must_use]
pub fn status(object: &Value) -> KStatus {
    if object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null())
    {
        return KStatus::Terminating;
    }
    if let (Some(generation), Some(observed)) = (generation(object), observed_generation(object))
        && generation != observed
    {
        return KStatus::InProgress;
    }
    // The first of these in the list decides, as in kstatus itself
    let decisive = conditions(object).find_map(|condition| match condition.kind() {
        "Reconciling" if condition.is_true() => Some(KStatus::InProgress),
        "Stalled" if condition.is_true() => Some(KStatus::Failed),
        _ => None,
    });
    decisive.unwrap_or_else(|| by_readiness(object))
}

fn by_readiness(object: &Value) -> KStatus {
    match conditions(object).find(|condition| condition.kind() == "Ready") {
        Some(ready) if ready.is_true() => KStatus::Current,
        Some(ready) if matches!(ready.status(), "False" | "Unknown") => KStatus::InProgress,
        // Without known conditions, kstatus does not wait
        _ => KStatus::Current,
    }
}

/// The violations of the rules, as sentences.
#[must_use]
pub fn violations(object: &Value, protocol: ConditionProtocol, now: Timestamp) -> Vec<String> {
    let mut found = conditions::violations(object, now);
    found.extend(shape_violations(object, protocol));
    found.extend(generation_violations(object));
    found
}

fn shape_violations(object: &Value, protocol: ConditionProtocol) -> Vec<String> {
    let mut found = Vec::new();
    let shape: Vec<Condition> = conditions(object)
        .filter(|condition| matches!(condition.kind(), "Ready" | "Reconciling" | "Stalled"))
        .collect();
    let mut held: Vec<&str> = shape
        .iter()
        .filter(|condition| condition.is_true())
        .map(Condition::kind)
        .collect();
    held.sort_unstable();
    if held.len() > 1 {
        found.push(format!("{} are True at once", held.join(" and ")));
    }
    if protocol == ConditionProtocol::ExactlyOne {
        if held.is_empty() {
            found.push("none of Ready, Reconciling and Stalled is True".to_owned());
        }
        if !shape.iter().any(|condition| condition.kind() == "Ready") {
            found.push("there is no Ready condition".to_owned());
        }
    }
    found
}

fn generation_violations(object: &Value) -> Option<String> {
    let generation = generation(object)?;
    let is_settled = |condition: &Condition| {
        condition.is_true() && matches!(condition.kind(), "Ready" | "Stalled")
    };
    let settled = conditions(object).find(is_settled);
    match (observed_generation(object), settled) {
        (Some(observed), _) if observed > generation => Some(format!(
            "observedGeneration {observed} is ahead of generation {generation}"
        )),
        (Some(observed), Some(settled)) if observed != generation => Some(format!(
            "{} is True, but observedGeneration is {observed} and generation is {generation}",
            settled.kind()
        )),
        (None, Some(settled)) => Some(format!(
            "{} is True, but there is no observedGeneration",
            settled.kind()
        )),
        _ => None,
    }
}

fn generation(object: &Value) -> Option<i64> {
    object.pointer("/metadata/generation")?.as_i64()
}

fn observed_generation(object: &Value) -> Option<i64> {
    object.pointer("/status/observedGeneration")?.as_i64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T00:00:00Z".parse().unwrap()
    }

    fn object(generation: i64, observed: Option<i64>, conditions: &[(&str, &str)]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status)| {
                json!({
                    "type": kind, "status": status, "reason": "Because", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            })
            .collect();
        let mut object = json!({
            "metadata": { "generation": generation },
            "status": { "conditions": conditions },
        });
        if let Some(observed) = observed {
            object["status"]["observedGeneration"] = observed.into();
        }
        object
    }

    #[test]
    fn status_matches_kstatus() {
        use KStatus::{Current, Failed, InProgress};
        type StatusCase<'a> = (&'a str, i64, Option<i64>, &'a [(&'a str, &'a str)], KStatus);
        let cases: [StatusCase; 11] = [
            (
                "nothing is known, so nothing is waited for",
                1,
                None,
                &[],
                Current,
            ),
            ("ready", 1, Some(1), &[("Ready", "True")], Current),
            (
                "ready for an old generation",
                2,
                Some(1),
                &[("Ready", "True")],
                InProgress,
            ),
            (
                "ready, generation not told",
                2,
                None,
                &[("Ready", "True")],
                Current,
            ),
            ("not ready", 1, Some(1), &[("Ready", "False")], InProgress),
            (
                "perhaps ready",
                1,
                Some(1),
                &[("Ready", "Unknown")],
                InProgress,
            ),
            (
                "reconciling",
                1,
                Some(1),
                &[("Ready", "False"), ("Reconciling", "True")],
                InProgress,
            ),
            (
                "stalled",
                1,
                Some(1),
                &[("Ready", "False"), ("Stalled", "True")],
                Failed,
            ),
            (
                "stalled at an old generation",
                2,
                Some(1),
                &[("Stalled", "True")],
                InProgress,
            ),
            (
                "not stalled",
                1,
                Some(1),
                &[("Stalled", "False"), ("Ready", "True")],
                Current,
            ),
            (
                "the first one decides",
                1,
                Some(1),
                &[("Stalled", "True"), ("Reconciling", "True")],
                Failed,
            ),
        ];
        for (name, generation, observed, conditions, expected) in cases {
            assert_eq!(
                status(&object(generation, observed, conditions)),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn deleted_object_is_terminating() {
        let mut object = object(1, Some(1), &[("Ready", "True")]);
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(status(&object), KStatus::Terminating);
    }

    #[test]
    fn valid_conditions_have_no_violations() {
        let cases: [(i64, &[(&str, &str)]); 4] = [
            (2, &[("Ready", "True")]),
            (2, &[("Ready", "False"), ("Stalled", "True")]),
            (
                2,
                &[
                    ("Ready", "False"),
                    ("Reconciling", "True"),
                    ("Stalled", "False"),
                ],
            ),
            (1, &[("Ready", "False"), ("Reconciling", "True")]),
        ];
        for (observed, conditions) in cases {
            let object = object(2, Some(observed), conditions);
            let found = violations(&object, ConditionProtocol::ExactlyOne, now());
            assert_eq!(found, Vec::<String>::new(), "{conditions:?}");
        }
    }

    #[test]
    fn invalid_conditions_are_described() {
        type ViolationCase<'a> = (Option<i64>, &'a [(&'a str, &'a str)], &'a [&'a str]);
        let cases: [ViolationCase; 6] = [
            (
                Some(2),
                &[],
                &[
                    "none of Ready, Reconciling and Stalled is True",
                    "there is no Ready condition",
                ],
            ),
            (
                Some(2),
                &[("Ready", "False")],
                &["none of Ready, Reconciling and Stalled is True"],
            ),
            (
                Some(2),
                &[("Stalled", "True"), ("Ready", "True")],
                &["Ready and Stalled are True at once"],
            ),
            (
                Some(1),
                &[("Ready", "True")],
                &["Ready is True, but observedGeneration is 1 and generation is 2"],
            ),
            (
                None,
                &[("Ready", "True")],
                &["Ready is True, but there is no observedGeneration"],
            ),
            (
                Some(3),
                &[("Ready", "False"), ("Reconciling", "True")],
                &["observedGeneration 3 is ahead of generation 2"],
            ),
        ];
        for (observed, conditions, expected) in cases {
            let object = object(2, observed, conditions);
            assert_eq!(
                violations(&object, ConditionProtocol::ExactlyOne, now()),
                expected
            );
        }
    }

    #[test]
    fn at_most_one_protocol_allows_none() {
        for conditions in [&[][..], &[("Ready", "False")], &[("Progressing", "True")]] {
            let object = object(1, Some(1), conditions);
            let found = violations(&object, ConditionProtocol::AtMostOne, now());
            assert_eq!(found, Vec::<String>::new(), "{conditions:?}");
        }
    }
}
