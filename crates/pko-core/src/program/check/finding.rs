//! What is found in a program, and where.

use std::fmt;

/// How much of a value is quoted.
const QUOTED_CHARACTERS: usize = 60;
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

/// All that is found in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What Pulumi refuses.
    pub problems: Vec<Finding>,
    /// What Pulumi takes, or may take, and hardly anybody means.
    pub remarks: Vec<Finding>,
}

impl Findings {
    pub(super) fn problem(&mut self, path: &Path, text: impl Into<String>) {
        self.problems.push(path.finding(text.into()));
    }

    pub(super) fn remark(&mut self, path: &Path, text: impl Into<String>) {
        self.remarks.push(path.finding(text.into()));
    }
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
    if rest > 0 {
        lines.push(format!("and {rest} more"));
    }
    lines.join("\n")
}

/// Where something is, written as one would in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn root() -> Self {
        Self("program".to_owned())
    }

    /// A key of the object at this path.
    pub(super) fn key(&self, key: &str) -> Self {
        let plain = !key.is_empty()
            && key
                .chars()
                .all(|character| character.is_alphanumeric() || "_-:".contains(character));
        Self(if plain {
            format!("{}.{key}", self.0)
        } else {
            format!("{}[{}]", self.0, quoted(key))
        })
    }

    /// An element of the list at this path.
    pub(super) fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    fn finding(&self, text: String) -> Finding {
        Finding {
            path: self.0.clone(),
            text,
        }
    }
}

/// A text in quotes, shortened.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARACTERS) {
        Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

/// Of the names that there are, the one that was probably meant.
pub(super) fn nearest<'name>(
    wanted: &str,
    names: impl IntoIterator<Item = &'name str>,
) -> Option<&'name str> {
    let lower = wanted.to_lowercase();
    let most = (wanted.chars().count() / 3).min(3);
    let distance = |name: &str| strsim::osa_distance(&lower, &name.to_lowercase());
    names
        .into_iter()
        .map(|name| (distance(name), name))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, name)| name)
}

/// The end of a sentence about a name that is not there.
pub(super) fn did_you_mean<'name>(
    wanted: &str,
    names: impl IntoIterator<Item = &'name str>,
) -> String {
    nearest(wanted, names).map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_displayed_as_written() {
        let resource = Path::root().key("resources").key("my-bucket");
        for (path, written) in [
            (resource.clone(), "program.resources.my-bucket"),
            (
                resource.key("options").key("dependsOn").index(0),
                "program.resources.my-bucket.options.dependsOn[0]",
            ),
            (resource.key("a.b"), "program.resources.my-bucket[\"a.b\"]"),
            (resource.key(""), "program.resources.my-bucket[\"\"]"),
            (
                resource.key("fn::join"),
                "program.resources.my-bucket.fn::join",
            ),
        ] {
            assert_eq!(path.0, written);
        }
    }

    #[test]
    fn long_value_is_quoted_in_part() {
        assert_eq!(quoted("short"), "\"short\"");
        let long = quoted(&"ü".repeat(200));
        assert_eq!(long, format!("\"{}\"…", "ü".repeat(QUOTED_CHARACTERS)));
    }

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
            let found = nearest(wanted, names);
            assert_eq!(found, nearest_name, "{wanted}");
        }
        assert_eq!(did_you_mean("bukcet", names), "; did you mean \"bucket\"?");
        assert_eq!(did_you_mean("table", names), "");
    }

    #[test]
    fn summary_names_the_first_findings_and_counts_the_rest() {
        let finding = |number: usize| Path::root().index(number).finding("wrong".to_owned());
        let findings = |count: usize| (0..count).map(finding).collect::<Vec<_>>();
        assert_eq!(summary(&[]), "");
        assert_eq!(
            summary(&findings(2)),
            "program[0]: wrong\nprogram[1]: wrong"
        );
        let many = summary(&findings(12));
        assert_eq!(many.lines().count(), WRITTEN_OUT + 1);
        assert!(many.ends_with("and 7 more"), "{many}");
    }
}
