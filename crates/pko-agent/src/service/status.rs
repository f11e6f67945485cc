//! Converts errors to gRPC statuses with upstream's codes, texts and details.

use pko_proto::{
    agent::PulumiErrorInfo,
    details::{self, RpcStatus},
    run::{FailureInfo, RunError, RunResult},
};
use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use super::manager_limits::fit_status_text;
use crate::{pulumi::CliFailure, run::RunsError, workspace::WorkspaceError};

impl From<WorkspaceError> for Status {
    fn from(error: WorkspaceError) -> Self {
        let code = match &error {
            WorkspaceError::InvalidStackName => Code::InvalidArgument,
            WorkspaceError::StackNotFound => Code::NotFound,
            WorkspaceError::NoStackSelected => Code::FailedPrecondition,
            WorkspaceError::Config(config) if config.is_invalid_argument() => Code::InvalidArgument,
            _ => Code::Unknown,
        };
        status_with_details(code, &error.text(), &ErrorDetails::new(&error))
    }
}

impl From<RunsError> for Status {
    fn from(error: RunsError) -> Self {
        let code = match &error {
            RunsError::BadId => Code::InvalidArgument,
            RunsError::Unknown(_) => Code::NotFound,
            RunsError::NotFinished(_) | RunsError::Pruned(_) | RunsError::NotRecorded(_) => {
                Code::FailedPrecondition
            }
            RunsError::Stopping => Code::Unavailable,
            // The manager tries again, as a read may succeed later.
            RunsError::Unreadable { .. } | RunsError::Journal(_) => Code::Internal,
        };
        Self::new(code, error.text())
    }
}

#[derive(Default)]
pub(super) struct ErrorDetails {
    /// The first detail, where upstream's manager reads it.
    known: Option<PulumiErrorInfo>,
    /// The second detail, for our manager.
    failure: FailureInfo,
}

impl ErrorDetails {
    fn new(error: &WorkspaceError) -> Self {
        let failure = error.failure();
        Self {
            known: failure.and_then(CliFailure::info),
            failure: FailureInfo {
                class: error.class().into(),
                advice: failure.and_then(CliFailure::advice).map(str::to_owned),
                exit_code: failure.map(CliFailure::exit_code),
                permalink: None,
            },
        }
    }

    fn to_any(&self) -> Vec<Any> {
        let known = self.known.as_ref().map(details::of_error);
        let failure = details::of_failure(&self.failure);
        known.into_iter().chain([failure]).collect()
    }
}

/// Shortens a text for which a manager has no room.
fn status_with_details(code: Code, text: &str, details: &ErrorDetails) -> Status {
    let details = details.to_any();
    let text = fit_status_text(text, details.iter().map(Message::encoded_len).sum());
    let status = RpcStatus {
        code: code.into(),
        message: text.clone(),
        details,
    };
    Status::with_details(code, text, status.encode_to_vec().into())
}

/// A failed run, for callers of upstream's service.
pub(super) fn run_failure_status(result: &RunResult, error: &RunError) -> Status {
    let details = ErrorDetails {
        known: error.info.clone(),
        failure: FailureInfo {
            class: error.class,
            advice: error.advice.clone(),
            exit_code: error.exit_code,
            permalink: result.permalink.clone(),
        },
    };
    status_with_details(Code::Unknown, &error.message, &details)
}

pub(super) fn who_am_i_failure_status(error: &WorkspaceError) -> Status {
    let text = format!("whoami failed: {}", error.text());
    status_with_details(Code::Unknown, &text, &ErrorDetails::new(error))
}

pub(super) fn install_failure_status(error: &WorkspaceError) -> Status {
    status_with_details(Code::Aborted, &error.text(), &ErrorDetails::new(error))
}

#[cfg(test)]
mod tests {
    use pko_proto::run::ErrorClass;

    use super::*;
    use crate::pulumi::{CliOutput, Exit};

    fn details(status: &Status) -> (RpcStatus, Option<PulumiErrorInfo>, FailureInfo) {
        let decoded = RpcStatus::decode(status.details()).unwrap();
        let find = |name: &str| {
            let url = format!("type.googleapis.com/{name}");
            decoded.details.iter().position(|any| any.type_url == url)
        };
        let known = find("agent.PulumiErrorInfo");
        assert!(
            matches!(known, None | Some(0)),
            "upstream's manager looks at the first only"
        );
        let known = known.map(|at| PulumiErrorInfo::decode(&*decoded.details[at].value).unwrap());
        let at = find("pko.agent.v1.FailureInfo").unwrap();
        let failure = FailureInfo::decode(&*decoded.details[at].value).unwrap();
        (decoded, known, failure)
    }

    fn cli_failure(code: i32, stderr: &str) -> WorkspaceError {
        let finished = CliOutput {
            exit: Exit::Code(code),
            stdout: String::new(),
            stderr: stderr.to_owned(),
        };
        CliFailure::new("failed to select stack", finished).into()
    }

    #[test]
    fn known_failure_status_has_both_details() {
        let status = who_am_i_failure_status(&cli_failure(1, "error: invalid access token"));
        let (decoded, known, failure) = details(&status);
        assert_eq!((decoded.code, &*decoded.message), (2, status.message()));
        assert!(
            status
                .message()
                .starts_with("whoami failed: failed to select stack: exit status 1\n")
        );
        assert_eq!(known.unwrap().reason, "InvalidAccessToken");
        assert_eq!(failure.class(), ErrorClass::Authentication);
        assert_eq!(failure.exit_code, Some(1));
        assert!(failure.advice().contains("PULUMI_ACCESS_TOKEN"));
    }

    #[test]
    fn unknown_failure_status_has_class() {
        let status = install_failure_status(&cli_failure(255, "error: go.mod file not found"));
        assert_eq!(status.code(), Code::Aborted);
        let (decoded, known, failure) = details(&status);
        assert_eq!(decoded.code, i32::from(Code::Aborted));
        assert_eq!((known, failure.class()), (None, ErrorClass::Program));
    }

    #[test]
    fn failed_run_status_has_permalink() {
        let error = RunError {
            message: "up failed: x".to_owned(),
            class: ErrorClass::Conflict.into(),
            ..Default::default()
        };
        let result = RunResult {
            permalink: Some("https://example.com/1".to_owned()),
            ..Default::default()
        };
        let (_, _, failure) = details(&run_failure_status(&result, &error));
        assert_eq!(failure.class(), ErrorClass::Conflict);
        assert_eq!(failure.permalink(), "https://example.com/1");
    }

    #[test]
    fn status_codes_are_upstreams() {
        let table = [
            (
                WorkspaceError::InvalidStackName,
                Code::InvalidArgument,
                "invalid stack name",
            ),
            (
                WorkspaceError::StackNotFound,
                Code::NotFound,
                "stack not found",
            ),
            (
                WorkspaceError::NoStackSelected,
                Code::FailedPrecondition,
                "no stack is selected",
            ),
        ];
        for (error, code, message) in table {
            let status = Status::from(error);
            assert_eq!((status.code(), status.message()), (code, message));
        }
    }
}
