//! What one check has found so far, and what it may still spend: a program is as large as its author likes, and
//! everybody's objects are checked by the same process.

use super::{
    finding::{Finding, Findings, MAX_FINDINGS},
    path::Path,
};

/// How many references are followed; programs that people write have hundreds.
pub(super) const MAX_REFERENCES: usize = 10_000;
/// The longest name that is compared with others, in bytes.
const LONGEST_COMPARED: usize = 128;
/// How far apart two names are at most, of which one was probably meant.
const LARGEST_DISTANCE: usize = 3;
/// What all comparisons of names may cost together, in pairs of letters: enough to compare each of twenty names with
/// hundreds.
const COMPARISON_BUDGET: usize = 2_000_000;
/// What it costs to look at a name that is not compared.
const LOOK_COST: usize = 16;

/// The findings of one check.
pub(super) struct FindingRecorder {
    findings: Findings,
    /// Counts what is followed, and then what is not.
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
    /// Something that Pulumi refuses.
    pub(super) fn problem(&mut self, path: &Path<'_>, text: impl Into<String>) {
        push(&mut self.findings.problems, path, text);
    }

    /// Something that Pulumi takes, or may take, and hardly anybody means.
    pub(super) fn remark(&mut self, path: &Path<'_>, text: impl Into<String>) {
        push(&mut self.findings.remarks, path, text);
    }

    /// Whether nothing that is found from now on matters.
    pub(super) fn is_full(&self) -> bool {
        self.findings.problems.len() >= MAX_FINDINGS
    }

    /// Whether a remark is worth the work of writing it.
    pub(super) fn has_room_for_remarks(&self) -> bool {
        self.findings.remarks.len() < MAX_FINDINGS
    }

    /// Whether one more reference is followed.
    pub(super) fn follow_reference(&mut self) -> bool {
        self.references = self.references.saturating_add(1);
        self.references <= MAX_REFERENCES
    }

    /// Of the names that there are, the one that was probably meant.
    pub(super) fn nearest<'name>(
        &mut self,
        wanted: &str,
        names: impl IntoIterator<Item = &'name str>,
    ) -> Option<&'name str> {
        if wanted.len() > LONGEST_COMPARED {
            return None;
        }
        let most = (wanted.chars().count() / 3).min(LARGEST_DISTANCE);
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

    /// The end of a sentence about a name that is not there.
    pub(super) fn did_you_mean<'name>(
        &mut self,
        wanted: &str,
        names: impl IntoIterator<Item = &'name str>,
    ) -> String {
        let nearest = self.nearest(wanted, names);
        nearest.map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
    }

    /// How far a name is from a wanted one in small letters; nothing if that is too far, or nothing is left to find out.
    fn distance(&mut self, wanted: &str, name: &str, most: usize) -> Option<usize> {
        let is_comparable = name.len() <= LONGEST_COMPARED
            && name.chars().count().abs_diff(wanted.chars().count()) <= LARGEST_DISTANCE;
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
        let (one, other) = of_length(LONGEST_COMPARED);
        let found = FindingRecorder::default().nearest(&one, [other.as_str()]);
        assert_eq!(found, Some(other.as_str()));
        let (one, other) = of_length(LONGEST_COMPARED + 1);
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
