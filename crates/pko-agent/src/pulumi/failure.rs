//! A call of the CLI that failed: the text that users know from upstream, and what kind it is.

use std::fmt;

use pko_proto::{agent::PulumiErrorInfo, run::ErrorClass};

use super::{
    Exit, Finished, Locks,
    known::{Known, recognise, state_folder_advice},
    shortened,
};

/// Of each stream, so that the whole fits into a status and into the trailers of a call.
const SHOWN_OUTPUT: usize = 28 * 1024;

/// A call that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What was tried.
    what: &'static str,
    finished: Finished,
    /// What can be done about this one.
    particular_advice: Option<String>,
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finished {
            exit,
            stdout,
            stderr,
        } = &self.finished;
        let (stdout, stderr) = (
            shortened(stdout, SHOWN_OUTPUT),
            shortened(stderr, SHOWN_OUTPUT),
        );
        let (what, code) = (self.what, self.exit_code());
        write!(
            formatter,
            "{what}: {exit}\ncode: {code}\nstdout: {stdout}\nstderr: {stderr}\n"
        )?;
        // After the text that people look for, so that it stays what it was.
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

impl Failure {
    pub(crate) fn new(what: &'static str, finished: Finished) -> Self {
        Self {
            what,
            particular_advice: state_folder_advice(&finished.stderr),
            finished,
        }
    }

    /// The call's output if it went well.
    pub(crate) fn unless_succeeded(
        what: &'static str,
        finished: Finished,
    ) -> Result<Finished, Self> {
        if finished.succeeded() {
            Ok(finished)
        } else {
            Err(Self::new(what, finished))
        }
    }

    /// The same with something to do about it that is not known for all of its kind.
    pub(crate) fn advised(self, advice: Option<String>) -> Self {
        Self {
            particular_advice: advice.or(self.particular_advice),
            ..self
        }
    }

    /// The locks that it complains about.
    pub(crate) fn locks(&self) -> Locks {
        Locks::of(&self.finished.stderr)
    }

    /// The call itself.
    pub(crate) fn finished(&self) -> &Finished {
        &self.finished
    }

    /// As upstream numbers it: the real one, -1 for a signal, -2 if there is none.
    pub(crate) fn exit_code(&self) -> i32 {
        match self.finished.exit {
            Exit::Code(code) => code,
            Exit::Signal(_) => -1,
            Exit::Unknown(_) => -2,
        }
    }

    /// There is no stack of that name.
    pub(crate) fn is_stack_not_found(&self) -> bool {
        let named = |line: &str| {
            line.split_once("no stack named")
                .is_some_and(|(_, rest)| rest.contains("found"))
        };
        self.finished.exit == Exit::Code(6) || self.finished.stderr.lines().any(named)
    }

    /// The known kind of failure that this is, if it is one.
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

    /// What kind it is.
    pub(crate) fn class(&self) -> ErrorClass {
        if let Some(known) = self.known() {
            return known.class;
        }
        match self.finished.exit {
            Exit::Code(3) => ErrorClass::Authentication,
            Exit::Code(2 | 6) => ErrorClass::Configuration,
            Exit::Code(8) => ErrorClass::Canceled,
            Exit::Code(9) | Exit::Unknown(_) => ErrorClass::Transient,
            Exit::Code(_) => ErrorClass::Program,
            Exit::Signal(_) => ErrorClass::Interrupted,
        }
    }

    /// What can be done about it, if it is a mistake that is known.
    pub(crate) fn advice(&self) -> Option<&str> {
        if let Some(advice) = &self.particular_advice {
            return Some(advice);
        }
        match (self.known(), &self.finished.exit) {
            (Some(known), _) => known.advice,
            (None, Exit::Signal(9)) => Some(
                "pulumi was killed from outside; where memory is limited, that is mostly for want of it",
            ),
            _ => None,
        }
    }

    fn known(&self) -> Option<&'static Known> {
        recognise(&self.finished.stdout, &self.finished.stderr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(exit: Exit, stdout: &str, stderr: &str) -> Failure {
        let finished = Finished {
            exit,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        };
        Failure::new("failed to run update", finished)
    }

    #[test]
    fn the_text_is_the_one_that_users_look_for() {
        let text = failure(Exit::Code(1), "Updating", "error: no").to_string();
        assert_eq!(
            text,
            "failed to run update: exit status 1\ncode: 1\nstdout: Updating\nstderr: error: no\n"
        );
        let text = failure(Exit::Signal(9), "", "").to_string();
        assert!(text.starts_with("failed to run update: signal: killed\ncode: -1\n"));
        let text = failure(Exit::Code(1), "", "error: incorrect passphrase\n").to_string();
        assert!(text.contains("stderr: error: incorrect passphrase\n\nhint: the passphrase"));
        let long = "x".repeat(10 * SHOWN_OUTPUT);
        assert!(failure(Exit::Code(1), &long, &long).to_string().len() < 64 * 1024);
    }

    #[test]
    fn kinds_of_failure() {
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
    fn a_missing_stack_is_known_by_code_or_text() {
        assert!(failure(Exit::Code(6), "", "").is_stack_not_found());
        assert!(
            failure(Exit::Code(255), "", "error: no stack named 'a/b' found").is_stack_not_found()
        );
        assert!(!failure(Exit::Code(1), "", "error: other").is_stack_not_found());
    }
}
