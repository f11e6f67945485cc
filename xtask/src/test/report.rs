//! Progress and summary of a test run.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _, stdout},
    time::Instant,
};

use super::output::Output;
use pko_testkit::progress::seconds;

/// The number of skipped tests to list per reason.
const SHOWN_TESTS: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Report {
    passed: usize,
    failed: Vec<String>,
    /// Failures without a name, from suites that ended early.
    unnamed_failures: usize,
    /// Tests by reason.
    skipped: BTreeMap<String, Vec<String>>,
    ignored: usize,
}

impl Report {
    /// Adds a finished suite.
    pub(super) fn add(&mut self, suite: &str, output: &Output) {
        self.passed += output.passed();
        self.ignored += output.ignored;
        let named = output.failed.iter().map(|test| format!("{suite} {test}"));
        self.failed.extend(named);
        self.unnamed_failures += output.failed_count().saturating_sub(output.failed.len());
        for (test, reason) in &output.skipped {
            if !output.failed.contains(test) {
                let skipped = self.skipped.entry(reason.clone()).or_default();
                skipped.push(format!("{suite} {test}"));
            }
        }
    }

    /// Adds a failure that does not belong to a test.
    pub(super) fn fail(&mut self, what: String) {
        self.failed.push(what);
    }

    pub(super) fn failed_count(&self) -> usize {
        self.failed.len() + self.unnamed_failures
    }

    fn skipped_count(&self) -> usize {
        self.skipped.values().map(Vec::len).sum::<usize>() + self.ignored
    }

    /// Prints skipped and failed tests, and the counts.
    pub(super) fn print(&self, elapsed: &str) {
        print!("{}", self.text(elapsed));
    }

    fn text(&self, elapsed: &str) -> String {
        let mut lines = Vec::new();
        if self.skipped_count() > 0 {
            lines.push("\nskipped:".to_owned());
        }
        for (reason, tests) in &self.skipped {
            let count = tests.len();
            let plural = if count == 1 { "" } else { "s" };
            lines.push(format!("  {count} test{plural}: {reason}"));
            let shown = tests.iter().take(SHOWN_TESTS);
            lines.extend(shown.map(|test| format!("    {test}")));
            if count > SHOWN_TESTS {
                lines.push(format!("    … and {} more", count - SHOWN_TESTS));
            }
        }
        if self.ignored > 0 {
            lines.push(format!("  {} marked #[ignore]", self.ignored));
        }
        if self.failed_count() > 0 {
            lines.push("\nfailed:".to_owned());
        }
        lines.extend(self.failed.iter().map(|test| format!("  {test}")));
        let (passed, failed, skipped) = (self.passed, self.failed_count(), self.skipped_count());
        lines.push(format!(
            "\nin {elapsed}:\n{passed} passed, {failed} failed, {skipped} skipped\n"
        ));
        lines.join("\n")
    }
}

/// The line for a finished suite.
pub(super) fn suite_line(name: &str, output: &Output, start: Instant) -> String {
    let mut counts = vec![format!("{} passed", output.passed())];
    for (count, word) in [
        (output.failed_count(), "failed"),
        (output.skipped_count(), "skipped"),
        (output.ignored, "ignored"),
    ] {
        if count > 0 {
            counts.push(format!("{count} {word}"));
        }
    }
    let counts = counts.join(", ");
    format!("{name:<34} {counts}, {}", seconds(start.elapsed()))
}

/// A line that is updated in place on a terminal.
pub(super) struct StatusLine {
    is_shown: bool,
    start: Instant,
}

impl StatusLine {
    pub(super) fn new() -> Self {
        Self {
            is_shown: stdout().is_terminal(),
            start: Instant::now(),
        }
    }

    /// Shows the running suites with finished and total tests.
    pub(super) fn show(&self, running: &[(String, usize, usize)], left: usize) {
        if !self.is_shown {
            return;
        }
        let suites = running
            .iter()
            .map(|(name, done, tests)| format!("{name} {done}/{tests}"));
        let suites = suites.collect::<Vec<_>>().join(", ");
        let elapsed = seconds(self.start.elapsed());
        print!("\r\x1b[2K  {elapsed}  {suites}; {left} more to start");
        let _ = stdout().flush();
    }

    pub(super) fn clear(&self) {
        if self.is_shown {
            print!("\r\x1b[2K");
            let _ = stdout().flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_lists_skipped_and_failed_tests_once() {
        let mut output = Output::default();
        let lines = "test a ... ok\ntest b ... ok\ntest c ... FAILED\n\
                     ---- b stdout ----\nskipped: no sshd\n\
                     test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        lines.lines().for_each(|line| output.read(line));
        let mut report = Report::default();
        report.add("pko-api/it", &output);
        assert_eq!(
            report.text("3.0 s"),
            "\nskipped:\n  1 test: no sshd\n    pko-api/it b\n\
             \nfailed:\n  pko-api/it c\n\
             \nin 3.0 s:\n1 passed, 1 failed, 1 skipped\n"
        );
    }

    #[test]
    fn suite_that_died_is_a_failure() {
        let mut report = Report::default();
        report.add("pko-api/it", &Output::default());
        assert_eq!(report.failed_count(), 0);
        report.fail("pko-api/it ended with signal 9 before its tests did".to_owned());
        assert_eq!(report.failed_count(), 1);
    }
}
