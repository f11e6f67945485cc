//! What a suite prints, line by line; pure.

use std::collections::BTreeMap;

use pko_testkit::SKIPPED;

/// How the reason begins for which a test is marked `#[ignore]` that another test runs, in a
/// process of its own: it is a part of that one, and not skipped.
const PART_OF_ANOTHER: &str = "run by the test above";

/// What the lines so far say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    /// How many tests there are; several programs of examples are one suite.
    pub(super) tests: usize,
    pub(super) done: usize,
    ok: usize,
    pub(super) failed: Vec<String>,
    pub(super) ignored: usize,
    /// Tests that skipped themselves, and why.
    pub(super) skipped: BTreeMap<String, String>,
    /// Lines with figures, which a test prints for people to read.
    pub(super) figures: Vec<String>,
    /// From the closing lines, which are there whatever the format of the others.
    closing: (usize, usize),
    /// Whose output is being shown.
    shown: Option<String>,
    /// What the failed tests printed.
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
            self.shown = Some(name.to_owned());
        } else if let Some(reason) = line.strip_prefix(SKIPPED) {
            let test = self.shown.clone().unwrap_or_default();
            self.skipped.insert(test, reason.to_owned());
        } else if line.starts_with("measured") {
            self.figures.push(line.to_owned());
        } else if let Some((name, result)) = finished(line) {
            self.done += 1;
            match result {
                Finished::Ok => self.ok += 1,
                Finished::Failed => self.failed.push(name.to_owned()),
                Finished::Ignored(reason) if reason.starts_with(PART_OF_ANOTHER) => {}
                Finished::Ignored(_) => self.ignored += 1,
            }
        }
    }

    /// Tests that passed; one that skipped itself did not.
    pub(super) fn passed(&self) -> usize {
        let passed = self.closing.0.max(self.ok);
        passed.saturating_sub(self.skipped_count())
    }

    pub(super) fn failed_count(&self) -> usize {
        self.closing.1.max(self.failed.len())
    }

    /// Those that skipped themselves. A failed test is not skipped, whatever it said before.
    pub(super) fn skipped_count(&self) -> usize {
        let is_ok = |name: &&String| !self.failed.contains(name);
        self.skipped.keys().filter(is_ok).count()
    }
}

enum Finished<'a> {
    Ok,
    Failed,
    Ignored(&'a str),
}

/// The test that a line says has ended: `test a::b ... ok`.
fn finished(line: &str) -> Option<(&str, Finished<'_>)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let result = match result {
        "ok" => Finished::Ok,
        "FAILED" => Finished::Failed,
        other => Finished::Ignored(other.strip_prefix("ignored")?.trim_start_matches(", ")),
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
    fn progress_is_known_before_the_end() {
        let output = read("\nrunning 3 tests\ntest a::b ... ok\ntest c ... FAILED\n");
        assert_eq!((output.done, output.tests), (2, 3));
        assert_eq!(output.failed, ["c"]);
    }

    #[test]
    fn skipped_test_is_not_passed() {
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
    fn part_of_another_test_is_not_ignored() {
        let output = read(
            "test a ... ignored, run by the test above, in a process of its own\n\
             test b ... ignored, takes a day\ntest c ... ignored\n",
        );
        assert_eq!((output.done, output.ignored), (3, 2));
    }

    #[test]
    fn failed_test_is_failed_even_if_it_said_skipped() {
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
    fn closing_lines_of_several_programs_are_added_up() {
        let output = read(
            "running 3 tests\n...\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             running 37 tests\ntest result: FAILED. 36 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 132.04s\n",
        );
        assert_eq!((output.passed(), output.failed_count()), (39, 1));
        assert_eq!(output.tests, 40);
        assert_eq!(read("error: could not compile").passed(), 0);
    }
}
