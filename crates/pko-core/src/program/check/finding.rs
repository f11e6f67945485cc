//! The findings of a check.

use std::fmt;

/// The limit for problems, and for remarks.
pub(super) const MAX_FINDINGS: usize = 20;
/// The limit for a quoted value.
pub(super) const QUOTED_CHARACTERS: usize = 60;
/// The number of findings in a message; the others are counted.
const WRITTEN_OUT: usize = 5;

/// A problem or a remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Such as `program.resources.bucket.options.dependsOn[0]`.
    pub path: String,
    /// The problem and the fix.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.text)
    }
}

/// The first twenty problems and remarks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Pulumi rejects these.
    pub problems: Vec<Finding>,
    /// Pulumi accepts these, or may accept them, but they are probably mistakes.
    pub remarks: Vec<Finding>,
}

/// The first findings, one on each line, and the number of the others.
#[must_use]
pub fn summary(findings: &[Finding]) -> String {
    let mut lines: Vec<String> = findings
        .iter()
        .take(WRITTEN_OUT)
        .map(Finding::to_string)
        .collect();
    let rest = findings.len().saturating_sub(WRITTEN_OUT);
    if findings.len() >= MAX_FINDINGS {
        lines.push(format!("and at least {rest} more"));
    } else if rest > 0 {
        lines.push(format!("and {rest} more"));
    }
    lines.join("\n")
}

/// A quoted string, shortened.
pub(super) fn quote(text: &str) -> String {
    let (beginning, rest) = beginning(text);
    format!("{beginning:?}{rest}")
}

/// The part of a string that is quote, and an ellipsis if more follows.
pub(super) fn beginning(text: &str) -> (&str, &'static str) {
    match text.char_indices().nth(QUOTED_CHARACTERS) {
        Some((end, _)) => (text.get(..end).unwrap_or_default(), "…"),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_value_is_quoted_in_part() {
        assert_eq!(quote("short"), "\"short\"");
        let long = quote(&"ü".repeat(200));
        assert_eq!(long, format!("\"{}\"…", "ü".repeat(QUOTED_CHARACTERS)));
    }

    #[test]
    fn summary_names_the_first_findings_and_counts_the_rest() {
        let finding = |number: usize| Finding {
            path: format!("program[{number}]"),
            text: "wrong".to_owned(),
        };
        let findings = |count: usize| (0..count).map(finding).collect::<Vec<_>>();
        assert_eq!(summary(&[]), "");
        assert_eq!(
            summary(&findings(2)),
            "program[0]: wrong\nprogram[1]: wrong"
        );
        let many = summary(&findings(12));
        assert_eq!(many.lines().count(), WRITTEN_OUT + 1);
        assert!(many.ends_with("\nand 7 more"), "{many}");
        let most = summary(&findings(MAX_FINDINGS));
        assert!(most.ends_with("\nand at least 15 more"), "{most}");
    }
}
