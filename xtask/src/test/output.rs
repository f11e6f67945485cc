//! Parses the output of a suite line by line. Does no I/O.

use std::collections::BTreeMap;

use pko_testkit::SKIPPED;

/// The `#[ignore]` reason of tests that another test runs in a child process. They are not counted
/// as skipped.
const PART_OF_ANOTHER: &str = "run by the test above";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    /// The number of tests. A suite of doc tests has several executables.
    pub(super) tests: usize,
    pub(super) done: usize,
    ok: usize,
    pub(super) failed: Vec<String>,
    pub(super) ignored: usize,
    /// Tests that skipped themselves, and why.
    pub(super) skipped: BTreeMap<String, String>,
    /// Lines with measurements.
    pub(super) figures: Vec<String>,
    /// Passed and failed, from the `test result` lines.
    closing: (usize, usize),
    /// The test whose output follows.
    current_test: Option<String>,
    /// The output of failed tests.
    pub(super) failures: String,
    is_in_failures: bool,
}

impl Output {
    pub(super) fn read(&mut self, line: &str) {
        if self.is_in_failures && !line.starts_with("test result: ") {
            self.failures.push_str(line);
            self.failures.push('\n');
        }
        if let Some(count) = line
            .strip_prefix("running ")
            .and_then(|rest| rest.strip_suffix(" tests").or(rest.strip_suffix(" test")))
        {
            self.tests += count.parse::<usize>().unwrap_or(0);
        } else if let Some(closing) = line.strip_prefix("test result: ") {
            self.closing.0 += count(closing, "passed");
            self.closing.1 += count(closing, "failed");
            self.is_in_failures = false;
        } else if line == "failures:" {
            self.is_in_failures = true;
        } else if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.current_test = Some(name.to_owned());
        } else if let Some(reason) = line.strip_prefix(SKIPPED) {
            let test = self.current_test.clone().unwrap_or_default();
            self.skipped.insert(test, reason.to_owned());
        } else if line.starts_with("measured") {
            self.figures.push(line.to_owned());
        } else if let Some((name, result)) = parse_outcome(line) {
            self.done += 1;
            match result {
                TestOutcome::Ok => self.ok += 1,
                TestOutcome::Failed => self.failed.push(name.to_owned()),
                TestOutcome::Ignored(reason) if reason.starts_with(PART_OF_ANOTHER) => {}
                TestOutcome::Ignored(_) => self.ignored += 1,
            }
        }
    }

    /// Tests that passed, without those that skipped themselves.
    pub(super) fn passed(&self) -> usize {
        let passed = self.closing.0.max(self.ok);
        passed.saturating_sub(self.skipped_count())
    }

    pub(super) fn failed_count(&self) -> usize {
        self.closing.1.max(self.failed.len())
    }

    /// Tests that skipped themselves and did not fail.
    pub(super) fn skipped_count(&self) -> usize {
        let is_ok = |name: &&String| !self.failed.contains(name);
        self.skipped.keys().filter(is_ok).count()
    }
}

enum TestOutcome<'a> {
    Ok,
    Failed,
    Ignored(&'a str),
}

/// Parses `test a::b ... ok`.
fn parse_outcome(line: &str) -> Option<(&str, TestOutcome<'_>)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let result = match result {
        "ok" => TestOutcome::Ok,
        "FAILED" => TestOutcome::Failed,
        other => TestOutcome::Ignored(other.strip_prefix("ignored")?.trim_start_matches(", ")),
    };
    Some((name, result))
}

/// The number before a word in `ok. 3 passed; 0 failed; …`.
fn count(line: &str, word: &str) -> usize {
    line.split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(word))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Output {
        let mut output = Output::default();
        text.lines().for_each(|line| output.read(line));
        output
    }

    #[test]
    fn output_counts_tests_before_the_end() {
        let output = read("\nrunning 3 tests\ntest a::b ... ok\ntest c ... FAILED\n");
        assert_eq!((output.done, output.tests), (2, 3));
        assert_eq!(output.failed, ["c"]);
    }

    #[test]
    fn skipped_test_does_not_count_as_passed() {
        let output = read(
            "running 3 tests\ntest a ... ok\ntest b ... ok\ntest c ... ok\n\nsuccesses:\n\n\
             ---- a stdout ----\nmeasured: 3 s\n\n---- b stdout ----\nskipped: no sshd\n\n\
             successes:\n    a\n    b\n    c\n\n\
             test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!((output.passed(), output.skipped_count()), (2, 1));
        assert_eq!(output.skipped["b"], "no sshd");
        assert_eq!(output.figures, ["measured: 3 s"]);
    }

    #[test]
    fn test_run_by_another_is_not_ignored() {
        let output = read(
            "test a ... ignored, run by the test above, in a process of its own\n\
             test b ... ignored, takes a day\ntest c ... ignored\n",
        );
        assert_eq!((output.done, output.ignored), (3, 2));
    }

    #[test]
    fn failed_test_is_not_skipped() {
        let output = read(
            "running 1 test\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\nskipped: no\nboom\n\n\n\
             failures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(
            (
                output.passed(),
                output.failed_count(),
                output.skipped_count()
            ),
            (0, 1, 0)
        );
        assert!(output.failures.contains("boom"), "{}", output.failures);
        assert!(!output.failures.contains("test result"));
    }

    #[test]
    fn result_lines_of_several_executables_add_up() {
        let output = read(
            "running 3 tests\n...\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             running 37 tests\ntest result: FAILED. 36 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 132.04s\n",
        );
        assert_eq!((output.passed(), output.failed_count()), (39, 1));
        assert_eq!(output.tests, 40);
        assert_eq!(read("error: could not compile").passed(), 0);
    }
}
