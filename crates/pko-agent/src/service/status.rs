//! Errors as callers see them: upstream's codes, texts and details.

use pko_proto::{agent::PulumiErrorInfo, run::RunError};
use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use crate::{run::RunsError, workspace::WorkspaceError};

/// What `grpc-status-details-bin` holds.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

impl From<WorkspaceError> for Status {
    fn from(error: WorkspaceError) -> Self {
        let code = match &error {
            WorkspaceError::InvalidStackName => Code::InvalidArgument,
            WorkspaceError::StackNotFound => Code::NotFound,
            WorkspaceError::NoStackSelected => Code::FailedPrecondition,
            WorkspaceError::Config(config) if config.is_invalid_argument() => Code::InvalidArgument,
            _ => Code::Unknown,
        };
        Self::new(code, error.text())
    }
}

impl From<RunsError> for Status {
    fn from(error: RunsError) -> Self {
        let code = match &error {
            RunsError::BadId => Code::InvalidArgument,
            RunsError::Unknown(_) => Code::NotFound,
            RunsError::NotEnded(_) | RunsError::Forgotten(_) => Code::FailedPrecondition,
            RunsError::Stopping => Code::Unavailable,
            RunsError::Journal(_) => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

/// A failure of unknown code, with what is known of it as the first detail.
pub(super) fn failed(text: &str, info: Option<&PulumiErrorInfo>) -> Status {
    let Some(info) = info else {
        return Status::unknown(text);
    };
    let detail = Any {
        type_url: "type.googleapis.com/agent.PulumiErrorInfo".to_owned(),
        value: info.encode_to_vec(),
    };
    let status = RpcStatus {
        code: Code::Unknown.into(),
        message: text.to_owned(),
        details: vec![detail],
    };
    Status::with_details(Code::Unknown, text, status.encode_to_vec().into())
}

/// A run that failed, for a caller that is told so by a status.
pub(super) fn failed_run(error: &RunError) -> Status {
    failed(&error.message, error.info.as_ref())
}

/// As a caller of `WhoAmI` sees it.
pub(super) fn failed_who_am_i(error: &WorkspaceError) -> Status {
    let info = error.failure().and_then(crate::pulumi::Failure::info);
    failed(&format!("whoami failed: {}", error.text()), info.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_failure_is_the_first_detail() {
        let info = PulumiErrorInfo {
            code: 409,
            reason: "UpdateConflict".to_owned(),
            message: "Another update is currently in progress".to_owned(),
        };
        let status = failed("up failed: x", Some(&info));
        let decoded = RpcStatus::decode(status.details()).unwrap();
        assert_eq!((decoded.code, &*decoded.message), (2, "up failed: x"));
        assert_eq!(
            decoded.details[0].type_url,
            "type.googleapis.com/agent.PulumiErrorInfo"
        );
        assert_eq!(
            PulumiErrorInfo::decode(&*decoded.details[0].value).unwrap(),
            info
        );
        assert!(failed("x", None).details().is_empty());
    }

    #[test]
    fn codes_are_upstreams() {
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
