//! Converts the runs of an agent to the types of `pko-core`.

use pko_api::{
    auto::v1alpha1::ProjectInfo,
    names::{failures::FailureClass, reasons::UpdateReason},
};
use pko_core::{
    plain_text::plain,
    update::{RunOutcome, RunProgress, StackOutput},
};
use pko_proto::{agent as wire, convert::from_proto_timestamp, run as runs};

pub(in crate::agents) fn run_state(run: runs::Run) -> RunProgress {
    use runs::RunState;

    match run.state() {
        // An earlier reconcile recorded the result, and this one has not observed that write: there
        // is nothing to add.
        _ if run.acknowledged => RunProgress::Running,
        RunState::Unspecified | RunState::Queued | RunState::Running => RunProgress::Running,
        state => RunProgress::Ended(Box::new(outcome(state, run.result.unwrap_or_default()))),
    }
}

fn outcome(state: runs::RunState, result: runs::RunResult) -> RunOutcome {
    let succeeded = state == runs::RunState::Succeeded;
    let summary = result.summary.unwrap_or_default();
    let error = result.error;
    let reason = match (state, error.as_ref().and_then(|error| error.info.as_ref())) {
        (runs::RunState::Canceled, _) => Some(UpdateReason::Canceled.as_str().to_owned()),
        (runs::RunState::Interrupted, _) => Some(UpdateReason::Aborted.as_str().to_owned()),
        (_, info) => info
            .map(|info| info.reason.clone())
            .filter(|reason| !reason.is_empty()),
    };
    RunOutcome {
        succeeded,
        reason,
        class: error.as_ref().and_then(|error| class(error.class())),
        message: plain(&error.map_or(summary.message, |error| error.message)),
        start: summary.start_time.as_ref().and_then(from_proto_timestamp),
        end: summary.end_time.as_ref().and_then(from_proto_timestamp),
        permalink: result.permalink,
        project: result.project_info.map(project),
        outputs: result
            .outputs
            .into_iter()
            .map(|(name, value)| (name, output(value)))
            .collect(),
        changes: result.resource_changes.into_iter().collect(),
        printed: join_output(&result.stdout, &result.stderr),
        notes: result.notes.iter().map(|note| plain(note)).collect(),
        ..RunOutcome::default()
    }
    // What is dropped here need not be held while the result is recorded.
    .within_limits()
}

/// Standard output, then standard error.
pub(in crate::agents) fn join_output(stdout: &str, stderr: &str) -> String {
    let parts = [stdout.trim_end(), stderr.trim_end()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    plain(&parts.join("\n"))
}

pub(in crate::agents) fn class(class: runs::ErrorClass) -> Option<FailureClass> {
    Some(match class {
        runs::ErrorClass::Unspecified => return None,
        runs::ErrorClass::Transient => FailureClass::Transient,
        runs::ErrorClass::Conflict => FailureClass::Conflict,
        runs::ErrorClass::Authentication => FailureClass::Authentication,
        runs::ErrorClass::Program => FailureClass::Program,
        runs::ErrorClass::Configuration => FailureClass::Configuration,
        runs::ErrorClass::Canceled => FailureClass::Canceled,
        runs::ErrorClass::Interrupted => FailureClass::Interrupted,
    })
}

pub(in crate::agents) fn project(info: wire::ProjectInfo) -> ProjectInfo {
    ProjectInfo {
        name: info.name,
        runtime: info.runtime,
    }
}

pub(in crate::agents) fn output(value: wire::OutputValue) -> StackOutput {
    StackOutput {
        json: value.value,
        secret: value.secret,
    }
}

#[cfg(test)]
mod tests {
    use pko_proto::run::{ErrorClass, RunError, RunResult, RunState};

    use super::*;

    fn run(state: RunState, error: Option<RunError>) -> RunOutcome {
        let summary = wire::UpdateSummary {
            start_time: Some(pko_proto::convert::to_proto_timestamp(
                jiff::Timestamp::UNIX_EPOCH,
            )),
            message: "because".to_owned(),
            ..wire::UpdateSummary::default()
        };
        let result = RunResult {
            summary: Some(summary),
            permalink: Some("https://x/1".to_owned()),
            stdout: "\u{1b}[1mout\u{1b}[0m\n".to_owned(),
            stderr: "err\n".to_owned(),
            resource_changes: [("create".to_owned(), 1)].into(),
            error,
            ..RunResult::default()
        };
        let run = runs::Run {
            state: state.into(),
            result: Some(result),
            ..runs::Run::default()
        };
        match run_state(run) {
            RunProgress::Ended(outcome) => *outcome,
            other => panic!("{other:?}"),
        }
    }

    fn error(class: ErrorClass, reason: Option<&str>) -> RunError {
        RunError {
            message: "it \u{1b}[31mbroke\u{1b}[0m".to_owned(),
            class: class.into(),
            info: reason.map(|reason| wire::PulumiErrorInfo {
                reason: reason.to_owned(),
                ..wire::PulumiErrorInfo::default()
            }),
            ..RunError::default()
        }
    }

    #[test]
    fn run_end_has_reason_and_class() {
        use FailureClass::{Canceled, Conflict, Interrupted, Program};
        let table = [
            (
                RunState::Failed,
                error(ErrorClass::Program, None),
                None,
                Some(Program),
            ),
            (
                RunState::Failed,
                error(ErrorClass::Conflict, Some("UpdateConflict")),
                Some("UpdateConflict"),
                Some(Conflict),
            ),
            (
                RunState::Canceled,
                error(ErrorClass::Canceled, None),
                Some("Canceled"),
                Some(Canceled),
            ),
            (
                RunState::Interrupted,
                error(ErrorClass::Interrupted, None),
                Some("Aborted"),
                Some(Interrupted),
            ),
            (
                RunState::Failed,
                error(ErrorClass::Unspecified, Some("")),
                None,
                None,
            ),
        ];
        for (state, error, reason, class) in table {
            let outcome = run(state, Some(error));
            assert!(!outcome.succeeded);
            assert_eq!((outcome.reason.as_deref(), outcome.class), (reason, class));
            assert_eq!(outcome.message, "it broke");
            assert_eq!(outcome.permalink.as_deref(), Some("https://x/1"));
            assert_eq!(outcome.start, Some(jiff::Timestamp::UNIX_EPOCH));
            assert_eq!(outcome.changes, [("create".to_owned(), 1)].into());
        }
    }

    #[test]
    fn run_success_has_the_update_message() {
        let outcome = run(RunState::Succeeded, None);
        assert!(outcome.succeeded);
        assert_eq!((outcome.message.as_str(), outcome.class), ("because", None));
        assert_eq!(outcome.printed, "out\nerr");
    }

    #[test]
    fn run_in_progress_or_acknowledged_has_no_end() {
        for state in [RunState::Queued, RunState::Running] {
            let run = runs::Run {
                state: state.into(),
                ..runs::Run::default()
            };
            assert_eq!(run_state(run), RunProgress::Running);
        }
        let recorded = runs::Run {
            state: RunState::Succeeded.into(),
            acknowledged: true,
            ..runs::Run::default()
        };
        assert_eq!(run_state(recorded), RunProgress::Running);
    }
}
