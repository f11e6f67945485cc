//! Checks an agent's report about a run before it goes into a status. Agents run in the users'
//! pods, so their reports are not trusted. A note names everything that is omitted.

use jiff::{SignedDuration, Timestamp};
use pko_api::auto::v1alpha1::ProjectInfo;

use super::{RunOutcome, run::MAX_PRINTED_BYTES};
use crate::condition_set::{brief, is_reason, shorten, shorten_to};

/// Clocks of honest nodes differ by less.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);
const MAX_LINK_BYTES: usize = 2048;
const MAX_NAME_BYTES: usize = 256;
const MAX_REASON_BYTES: usize = 128;
const MAX_NOTES: usize = 16;
/// Pulumi has about 20 operations.
const MAX_CHANGES: usize = 32;
const MAX_OPERATION_BYTES: usize = 64;

impl RunOutcome {
    /// Bounds and checks everything but the times. Idempotent.
    #[must_use]
    pub fn within_limits(mut self) -> Self {
        self.message = shorten(&self.message);
        self.printed = shorten_to(&self.printed, MAX_PRINTED_BYTES);
        self.notes.truncate(MAX_NOTES);
        self.notes = self.notes.iter().map(|note| brief(note)).collect();
        let is_word = |reason: &String| reason.len() <= MAX_REASON_BYTES && is_reason(reason);
        self.reason = self.reason.filter(is_word);
        self.changes
            .retain(|operation, count| *count >= 0 && is_operation(operation));
        while self.changes.len() > MAX_CHANGES {
            self.changes.pop_last();
        }
        self.omit_outputs();
        self.omit_link();
        self.omit_project();
        self
    }

    fn omit_outputs(&mut self) {
        if let Some(problem) = self.outputs_problem() {
            self.outputs.clear();
            self.omitted_outputs = Some(problem);
        }
    }

    fn omit_link(&mut self) {
        let is_bad = |link: &String| !is_link(link);
        if self.permalink.take_if(|link| is_bad(link)).is_some() {
            self.notes.push(format!(
                "the agent's permalink is left out: it is not an http or https URL of at most {MAX_LINK_BYTES} bytes"
            ));
        }
    }

    fn omit_project(&mut self) {
        let is_bad = |project: &ProjectInfo| !is_name(&project.name) || !is_name(&project.runtime);
        if self.project.take_if(|project| is_bad(project)).is_some() {
            self.notes.push(format!(
                "the agent's project is left out: a name in it has control characters or more than {MAX_NAME_BYTES} bytes"
            ));
        }
    }

    /// Replaces times of a run that are before the Update or in the future. `begun` is when the
    /// manager began the run.
    #[must_use]
    pub(super) fn with_checked_times(
        mut self,
        created: Option<Timestamp>,
        begun: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let is_sane = |time: &Timestamp| {
            let is_past = time.duration_since(now) <= CLOCK_SKEW;
            is_past && created.is_none_or(|created| created.duration_since(*time) <= CLOCK_SKEW)
        };
        let is_ordered = !matches!((self.start, self.end), (Some(start), Some(end)) if end < start);
        if is_ordered && [self.start, self.end].iter().flatten().all(is_sane) {
            return self;
        }
        self.start = begun;
        self.end = Some(now);
        self.notes.push(
            "the agent's times are replaced by the manager's: they are before the Update, in the \
             future, or in the wrong order; check the clock of its node"
                .to_owned(),
        );
        self
    }
}

/// Whether a version is short and plain enough to be shown.
#[must_use]
pub fn is_version(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_link(link: &str) -> bool {
    let address = ["https://", "http://"]
        .iter()
        .find_map(|scheme| link.strip_prefix(scheme));
    let is_plain = |character: char| !character.is_control() && !character.is_whitespace();
    link.len() <= MAX_LINK_BYTES
        && address.is_some_and(|address| !address.is_empty() && !address.starts_with('/'))
        && link.chars().all(is_plain)
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control)
}

fn is_operation(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=MAX_OPERATION_BYTES).contains(&name.len()) && name.bytes().all(is_legal)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::update::StackOutput;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn permalink_is_a_web_address_without_control_characters() {
        let long = format!("https://x/{}", "a".repeat(MAX_LINK_BYTES));
        let table = [
            ("https://app.pulumi.com/acme/shop/dev/updates/1", true),
            ("http://pulumi.internal:8080/x?y=é", true),
            ("javascript:alert(1)", false),
            ("file:///etc/passwd", false),
            ("https://", false),
            ("https:///x", false),
            ("https://x/\u{1b}[31m", false),
            ("https://x/ y", false),
            ("https://x/\ny", false),
            ("", false),
            (long.as_str(), false),
        ];
        for (link, is_kept) in table {
            let outcome = RunOutcome {
                permalink: Some(link.to_owned()),
                ..RunOutcome::default()
            };
            let outcome = outcome.within_limits();
            assert_eq!(outcome.permalink.is_some(), is_kept, "{link}");
            assert_eq!(outcome.notes.len(), usize::from(!is_kept), "{link}");
            assert_eq!(outcome.clone().within_limits(), outcome, "idempotent");
        }
    }

    #[test]
    fn times_out_of_range_are_replaced() {
        let table = [
            (Some(0), Some(50), true),
            (Some(-290), Some(399), true),
            (None, None, true),
            (Some(-301), Some(50), false),
            (Some(0), Some(401), false),
            (Some(50), Some(0), false),
            (Some(-1_800_000_000), Some(-1_700_000_000), false),
            (None, Some(250_000_000_000), false),
        ];
        for (start, end, is_kept) in table {
            let outcome = RunOutcome {
                start: start.map(at),
                end: end.map(at),
                ..RunOutcome::default()
            };
            let checked = outcome
                .clone()
                .with_checked_times(Some(at(0)), Some(at(10)), at(100));
            if is_kept {
                assert_eq!(checked, outcome, "{start:?} {end:?}");
            } else {
                let times = (checked.start, checked.end);
                assert_eq!(times, (Some(at(10)), Some(at(100))), "{start:?} {end:?}");
                assert!(checked.notes[0].contains("clock"));
            }
        }
    }

    #[test]
    fn counts_are_not_negative_and_few() {
        let counts = [
            ("create", 2),
            ("same", 0),
            ("delete", -1),
            ("a b", 1),
            ("", 1),
        ];
        let mut changes: BTreeMap<String, i32> = counts
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect();
        let outcome = |changes: &BTreeMap<String, i32>| RunOutcome {
            changes: changes.clone(),
            ..RunOutcome::default()
        };
        let kept = outcome(&changes).within_limits().changes;
        assert_eq!(kept, [("create".into(), 2), ("same".into(), 0)].into());
        changes.extend((0..100_000).map(|number| (format!("op-{number}"), 1)));
        assert_eq!(outcome(&changes).within_limits().changes.len(), MAX_CHANGES);
    }

    #[test]
    fn texts_and_names_are_bounded() {
        let long = "x".repeat(5_000_000);
        let project = |name: &str| {
            Some(ProjectInfo {
                name: name.to_owned(),
                runtime: "yaml".to_owned(),
            })
        };
        let outcome = RunOutcome {
            reason: Some(long.clone()),
            message: long.clone(),
            printed: long.clone(),
            project: project(&long),
            notes: vec![long.clone(); 100],
            ..RunOutcome::default()
        };
        let outcome = outcome.within_limits();
        assert_eq!((outcome.reason, outcome.project), (None, None));
        let notes: usize = outcome.notes.iter().map(String::len).sum();
        assert!(outcome.message.len() + outcome.printed.len() + notes < 64 * 1024);
        let shop = RunOutcome {
            project: project("shop"),
            ..RunOutcome::default()
        };
        assert_eq!(shop.within_limits().project, project("shop"));
    }

    #[test]
    fn outputs_beyond_the_limit_are_dropped_with_the_reason() {
        let output = |bytes: usize| StackOutput {
            json: vec![b'1'; bytes],
            secret: false,
        };
        let many = (0..50_000).map(|number| (format!("{number}"), output(1)));
        let long_name = ("n".repeat(2_000_000), output(1));
        for outputs in [
            BTreeMap::from([("big".to_owned(), output(5_000_000))]),
            BTreeMap::from([long_name]),
            many.collect(),
        ] {
            let outcome = RunOutcome {
                outputs,
                ..RunOutcome::default()
            };
            let problem = outcome.outputs_problem().unwrap();
            let outcome = outcome.within_limits();
            assert!(outcome.outputs.is_empty());
            assert_eq!(outcome.outputs_problem(), Some(problem));
        }
    }

    #[test]
    fn version_is_short_and_plain() {
        assert!(is_version("3.259.0") && is_version("v3.1.0-alpha.1+abc"));
        assert!(!is_version("3.1.0\n") && !is_version(&"1".repeat(1000)));
    }
}
