//! Records the findings of a check within a budget: programs can be large, and one process checks
//! the programs of all users.

use super::{
    finding::{Finding, Findings, MAX_FINDINGS},
    path::Path,
};

/// The limit for checked references; usual programs have hundreds.
pub(super) const MAX_REFERENCES: usize = 10_000;
/// The longest name that is compared with others, in bytes.
const MAX_COMPARED_BYTES: usize = 128;
/// The largest distance of a suggestion.
const MAX_DISTANCE: usize = 3;
/// The budget for all comparisons, in pairs of letters: enough to compare twenty names with
/// hundreds.
const COMPARISON_BUDGET: usize = 2_000_000;
/// The cost of a name that is skipped.
const LOOK_COST: usize = 16;

/// The findings of one check.
pub(super) struct FindingRecorder {
    findings: Findings,
    /// The number of references so far, including unchecked ones.
    references: usize,
    comparison_budget: usize,
}

impl Default for FindingRecorder {
    fn default() -> Self {
        Self {
            findings: Findings::default(),
            references: 0,
            comparison_budget: COMPARISON_BUDGET,
        }
    }
}

impl FindingRecorder {
    /// Records a problem, which Pulumi rejects.
    pub(super) fn problem(&mut self, path: &Path<'_>, text: impl Into<String>) {
        push(&mut self.findings.problems, path, text);
    }

    /// Records a remark: a probable mistake that Pulumi accepts or may accept.
    pub(super) fn remark(&mut self, path: &Path<'_>, text: impl Into<String>) {
        push(&mut self.findings.remarks, path, text);
    }

    /// Whether further findings are dropped.
    pub(super) fn is_full(&self) -> bool {
        self.findings.problems.len() >= MAX_FINDINGS
    }

    /// Whether a further remark is recorded.
    pub(super) fn has_room_for_remarks(&self) -> bool {
        self.findings.remarks.len() < MAX_FINDINGS
    }

    /// Counts a reference, and returns whether it is within the limit.
    pub(super) fn count_reference(&mut self) -> bool {
        self.references = self.references.saturating_add(1);
        self.references <= MAX_REFERENCES
    }

    /// The most similar name, if one is similar enough to be a suggestion.
    pub(super) fn nearest<'name>(
        &mut self,
        wanted: &str,
        names: impl IntoIterator<Item = &'name str>,
    ) -> Option<&'name str> {
        if wanted.len() > MAX_COMPARED_BYTES {
            return None;
        }
        let most = (wanted.chars().count() / 3).min(MAX_DISTANCE);
        let wanted = wanted.to_lowercase();
        let mut nearest = None;
        for name in names {
            let distance = self.distance(&wanted, name, most);
            let found = distance.map(|distance| (distance, name));
            nearest = [nearest, found].into_iter().flatten().min();
            if self.comparison_budget == 0 {
                break;
            }
        }
        nearest.map(|(_, name)| name)
    }

    /// The suggestion at the end of a message about an unknown name.
    pub(super) fn did_you_mean<'name>(
        &mut self,
        wanted: &str,
        names: impl IntoIterator<Item = &'name str>,
    ) -> String {
        let nearest = self.nearest(wanted, names);
        nearest.map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
    }

    /// The distance of a name from the wanted lower-case one; `None` if it is too large, or the
    /// budget is spent.
    fn distance(&mut self, wanted: &str, name: &str, most: usize) -> Option<usize> {
        let is_comparable = name.len() <= MAX_COMPARED_BYTES
            && name.chars().count().abs_diff(wanted.chars().count()) <= MAX_DISTANCE;
        let pairs = if is_comparable {
            wanted.len() * name.len()
        } else {
            0
        };
        self.comparison_budget = self.comparison_budget.saturating_sub(LOOK_COST + pairs);
        if !is_comparable || self.comparison_budget == 0 {
            return None;
        }
        let distance = strsim::osa_distance(wanted, &name.to_lowercase());
        (distance <= most).then_some(distance)
    }

    /// What was found.
    pub(super) fn into_findings(mut self) -> Findings {
        if self.references > MAX_REFERENCES {
            let text = format!(
                "has more than {MAX_REFERENCES} references: those beyond are not checked here"
            );
            self.remark(&Path::root(), text);
        }
        self.findings
    }
}

fn push(findings: &mut Vec<Finding>, path: &Path<'_>, text: impl Into<String>) {
    if findings.len() < MAX_FINDINGS {
        findings.push(Finding {
            path: path.to_string(),
            text: text.into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_similar() {
        let names = ["bucket", "budget", "queue", "a"];
        for (wanted, nearest_name) in [
            ("bukcet", Some("bucket")),
            ("Bucket", Some("bucket")),
            ("budge", Some("budget")),
            ("queues", Some("queue")),
            ("table", None),
            ("b", None),
            ("A", Some("a")),
            ("", None),
        ] {
            let found = FindingRecorder::default().nearest(wanted, names);
            assert_eq!(found, nearest_name, "{wanted}");
        }
        let mut recorder = FindingRecorder::default();
        let text = recorder.did_you_mean("bukcet", names);
        assert_eq!(text, "; did you mean \"bucket\"?");
        assert_eq!(recorder.did_you_mean("table", names), "");
    }

    #[test]
    fn names_are_compared_up_to_a_length_and_a_budget() {
        let of_length = |length: usize| ("n".repeat(length), "n".repeat(length - 1) + "m");
        let (one, other) = of_length(MAX_COMPARED_BYTES);
        let found = FindingRecorder::default().nearest(&one, [other.as_str()]);
        assert_eq!(found, Some(other.as_str()));
        let (one, other) = of_length(MAX_COMPARED_BYTES + 1);
        let found = FindingRecorder::default().nearest(&one, [other.as_str()]);
        assert_eq!(found, None);
        let mut recorder = FindingRecorder::default();
        let mut compared = 0;
        let endless = std::iter::repeat_with(|| {
            compared += 1;
            "somewhat-long-name"
        });
        recorder.nearest("another-long-name", endless);
        assert!(compared < COMPARISON_BUDGET / 100, "{compared}");
        assert_eq!(recorder.nearest("bukcet", ["bucket"]), None);
    }

    #[test]
    fn findings_are_bounded() {
        let mut recorder = FindingRecorder::default();
        for number in 0..3 * MAX_FINDINGS {
            let root = Path::root();
            recorder.remark(&root.index(number), "strange");
            recorder.problem(&root.index(number), "wrong");
        }
        assert!(recorder.is_full() && !recorder.has_room_for_remarks());
        let findings = recorder.into_findings();
        assert_eq!(
            (findings.problems.len(), findings.remarks.len()),
            (MAX_FINDINGS, MAX_FINDINGS)
        );
    }
}
