//! What is found in a program.

use std::fmt;

/// How many problems, and how many remarks, are looked for.
pub(super) const MAX_FINDINGS: usize = 20;
/// How much of a value is quoted.
pub(super) const QUOTED_CHARACTERS: usize = 60;
/// How many findings are written out; the rest is counted.
const WRITTEN_OUT: usize = 5;

/// One thing that is found: where, and what about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Such as `program.resources.bucket.options.dependsOn[0]`.
    pub path: String,
    /// What is wrong or strange there, and the way out.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.text)
    }
}

/// What is found in a program: the first twenty of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What Pulumi refuses.
    pub problems: Vec<Finding>,
    /// What Pulumi takes, or may take, and hardly anybody means.
    pub remarks: Vec<Finding>,
}

/// The first few findings on a line each, and how many there are besides.
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

/// A text in quotes, shortened.
pub(super) fn quoted(text: &str) -> String {
    let (beginning, rest) = beginning(text);
    format!("{beginning:?}{rest}")
}

/// As much of a text as is quoted, and what stands for the rest.
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
        assert_eq!(quoted("short"), "\"short\"");
        let long = quoted(&"ü".repeat(200));
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
