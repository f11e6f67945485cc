//! A failed call of the CLI: its text, which is upstream's, its class, and advice.

use std::fmt;

use pko_proto::{agent::PulumiErrorInfo, run::ErrorClass};

use super::{
    CliOutput, Exit, LockReport,
    known_failures::{KnownFailure, find_known_failure, state_volume_advice},
    truncate_middle,
};

/// For each stream, so that the text fits into a status and into gRPC trailers.
const MAX_OUTPUT_BYTES: usize = 28 * 1024;

#[derive(Debug)]
pub(crate) struct CliFailure {
    /// Begins the text.
    what: &'static str,
    output: CliOutput,
    /// Takes precedence over the advice for known failures.
    specific_advice: Option<String>,
}

impl std::error::Error for CliFailure {}

impl fmt::Display for CliFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CliOutput {
            exit,
            stdout,
            stderr,
        } = &self.output;
        let (stdout, stderr) = (
            truncate_middle(stdout, MAX_OUTPUT_BYTES),
            truncate_middle(stderr, MAX_OUTPUT_BYTES),
        );
        let (what, code) = (self.what, self.exit_code());
        write!(
            formatter,
            "{what}: {exit}\ncode: {code}\nstdout: {stdout}\nstderr: {stderr}\n"
        )?;
        // Last, so that upstream's text stays unchanged.
        match self.advice() {
            Some(advice) => writeln!(formatter, "hint: {advice}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "exit status {code}"),
            Self::Signal(2) => formatter.write_str("signal: interrupt"),
            Self::Signal(9) => formatter.write_str("signal: killed"),
            Self::Signal(15) => formatter.write_str("signal: terminated"),
            Self::Signal(other) => write!(formatter, "signal: {other}"),
            Self::Unknown(reason) => formatter.write_str(reason),
        }
    }
}

impl CliFailure {
    pub(crate) fn new(what: &'static str, output: CliOutput) -> Self {
        Self {
            what,
            specific_advice: state_volume_advice(&output.stderr),
            output,
        }
    }

    pub(crate) fn check(what: &'static str, output: CliOutput) -> Result<CliOutput, Self> {
        if output.succeeded() {
            Ok(output)
        } else {
            Err(Self::new(what, output))
        }
    }

    pub(crate) fn with_advice(self, advice: Option<String>) -> Self {
        Self {
            specific_advice: advice.or(self.specific_advice),
            ..self
        }
    }

    /// The locks that the CLI reports.
    pub(crate) fn locks(&self) -> LockReport {
        LockReport::parse(&self.output.stderr)
    }

    pub(crate) fn output(&self) -> &CliOutput {
        &self.output
    }

    /// As upstream reports it: -1 for a signal, -2 if the process has no exit status.
    pub(crate) fn exit_code(&self) -> i32 {
        match self.output.exit {
            Exit::Code(code) => code,
            Exit::Signal(_) => -1,
            Exit::Unknown(_) => -2,
        }
    }

    pub(crate) fn is_stack_not_found(&self) -> bool {
        let named = |line: &str| {
            line.split_once("no stack named")
                .is_some_and(|(_, rest)| rest.contains("found"))
        };
        self.output.exit == Exit::Code(6) || self.output.stderr.lines().any(named)
    }

    /// Upstream's details of a known failure.
    pub(crate) fn info(&self) -> Option<PulumiErrorInfo> {
        match self.class() {
            ErrorClass::Conflict => Some(PulumiErrorInfo {
                code: 409,
                reason: "UpdateConflict".to_owned(),
                message: "Another update is currently in progress".to_owned(),
            }),
            ErrorClass::Authentication => Some(PulumiErrorInfo {
                code: 401,
                reason: "InvalidAccessToken".to_owned(),
                message: "Invalid access token used to authenticate with Pulumi Cloud".to_owned(),
            }),
            _ => None,
        }
    }

    pub(crate) fn class(&self) -> ErrorClass {
        if let Some(known) = self.known_failure() {
            return known.class;
        }
        match self.output.exit {
            Exit::Code(3) => ErrorClass::Authentication,
            Exit::Code(2 | 6) => ErrorClass::Configuration,
            Exit::Code(8) => ErrorClass::Canceled,
            Exit::Code(9) | Exit::Unknown(_) => ErrorClass::Transient,
            Exit::Code(_) => ErrorClass::Program,
            Exit::Signal(_) => ErrorClass::Interrupted,
        }
    }

    /// What the user can do about it.
    pub(crate) fn advice(&self) -> Option<&str> {
        if let Some(advice) = &self.specific_advice {
            return Some(advice);
        }
        match (self.known_failure(), &self.output.exit) {
            (Some(known), _) => known.advice,
            (None, Exit::Signal(9)) => Some(
                "pulumi was killed by a signal, most likely because the container ran out of memory",
            ),
            _ => None,
        }
    }

    fn known_failure(&self) -> Option<&'static KnownFailure> {
        find_known_failure(&self.output.stdout, &self.output.stderr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(exit: Exit, stdout: &str, stderr: &str) -> CliFailure {
        let output = CliOutput {
            exit,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        };
        CliFailure::new("failed to run update", output)
    }

    #[test]
    fn failure_text_is_upstreams() {
        let text = failure(Exit::Code(1), "Updating", "error: no").to_string();
        assert_eq!(
            text,
            "failed to run update: exit status 1\ncode: 1\nstdout: Updating\nstderr: error: no\n"
        );
        let text = failure(Exit::Signal(9), "", "").to_string();
        assert!(text.starts_with("failed to run update: signal: killed\ncode: -1\n"));
        let text = failure(Exit::Code(1), "", "error: incorrect passphrase\n").to_string();
        assert!(text.contains("stderr: error: incorrect passphrase\n\nhint: the passphrase"));
        let long = "x".repeat(10 * MAX_OUTPUT_BYTES);
        assert!(failure(Exit::Code(1), &long, &long).to_string().len() < 64 * 1024);
    }

    #[test]
    fn failure_class_follows_exit_and_text() {
        let locked = "error: the stack is currently locked by 1 lock(s). Either wait for the other";
        let conflict = "error: [409] Conflict: Another update is currently in progress.";
        let bad_token = "error: [401] Unauthorized: No credentials provided or are invalid.";
        let table = [
            (
                Exit::Code(1),
                locked,
                ErrorClass::Conflict,
                Some("UpdateConflict"),
            ),
            (
                Exit::Code(255),
                conflict,
                ErrorClass::Conflict,
                Some("UpdateConflict"),
            ),
            (
                Exit::Code(1),
                bad_token,
                ErrorClass::Authentication,
                Some("InvalidAccessToken"),
            ),
            (
                Exit::Code(1),
                "invalid access token",
                ErrorClass::Authentication,
                Some("InvalidAccessToken"),
            ),
            (
                Exit::Code(3),
                "",
                ErrorClass::Authentication,
                Some("InvalidAccessToken"),
            ),
            (
                Exit::Code(8),
                "error: update canceled",
                ErrorClass::Canceled,
                None,
            ),
            (
                Exit::Code(1),
                "error: update failed",
                ErrorClass::Program,
                None,
            ),
            (
                Exit::Code(6),
                "error: no stack named 'dev' found",
                ErrorClass::Configuration,
                None,
            ),
            (Exit::Signal(9), "", ErrorClass::Interrupted, None),
        ];
        for (exit, stderr, class, reason) in table {
            let failure = failure(exit, "", stderr);
            assert_eq!(failure.class(), class, "{stderr}");
            assert_eq!(
                failure.info().map(|info| info.reason).as_deref(),
                reason,
                "{stderr}"
            );
        }
    }

    #[test]
    fn missing_stack_is_detected_by_code_or_text() {
        assert!(failure(Exit::Code(6), "", "").is_stack_not_found());
        assert!(
            failure(Exit::Code(255), "", "error: no stack named 'a/b' found").is_stack_not_found()
        );
        assert!(!failure(Exit::Code(1), "", "error: other").is_stack_not_found());
    }
}
