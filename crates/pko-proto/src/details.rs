//! The details of a failed call: what `grpc-status-details-bin` holds.

use prost::Message;
use prost_types::Any;

use crate::{agent::PulumiErrorInfo, run::FailureInfo};

const PREFIX: &str = "type.googleapis.com/";
const PULUMI_ERROR_INFO: &str = "agent.PulumiErrorInfo";
const FAILURE_INFO: &str = "pko.agent.v1.FailureInfo";

/// A gRPC status with its details.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// Upstream's detail.
#[must_use]
pub fn of_error(info: &PulumiErrorInfo) -> Any {
    any(PULUMI_ERROR_INFO, info)
}

/// Our own detail.
#[must_use]
pub fn of_failure(info: &FailureInfo) -> Any {
    any(FAILURE_INFO, info)
}

/// The kind of failure in the first detail, where upstream also reads it.
#[must_use]
pub fn error_info(details: &[u8]) -> Option<PulumiErrorInfo> {
    let status = RpcStatus::decode(details).ok()?;
    found(status.details.first()?, PULUMI_ERROR_INFO)
}

/// The detail of our own agents, at any position.
#[must_use]
pub fn failure_info(details: &[u8]) -> Option<FailureInfo> {
    let status = RpcStatus::decode(details).ok()?;
    let mut all = status.details.iter();
    all.find_map(|detail| found(detail, FAILURE_INFO))
}

fn any(name: &str, message: &impl Message) -> Any {
    Any {
        type_url: format!("{PREFIX}{name}"),
        value: message.encode_to_vec(),
    }
}

fn found<M: Message + Default>(detail: &Any, name: &str) -> Option<M> {
    let is_meant = detail.type_url.strip_prefix(PREFIX) == Some(name);
    is_meant.then(|| M::decode(detail.value.as_slice()).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_details_are_found_by_type() {
        let known = PulumiErrorInfo {
            reason: "UpdateConflict".to_owned(),
            ..PulumiErrorInfo::default()
        };
        let failure = FailureInfo {
            exit_code: Some(255),
            ..FailureInfo::default()
        };
        let status = |details: Vec<Any>| {
            let message = String::new();
            let code = 2;
            RpcStatus {
                code,
                message,
                details,
            }
            .encode_to_vec()
        };
        let both = status(vec![of_error(&known), of_failure(&failure)]);
        assert_eq!(error_info(&both), Some(known.clone()));
        assert_eq!(failure_info(&both), Some(failure.clone()));
        let turned = status(vec![of_failure(&failure), of_error(&known)]);
        assert_eq!(
            error_info(&turned),
            None,
            "upstream looks at the first alone"
        );
        for nothing in [status(Vec::new()), Vec::new(), b"no message".to_vec()] {
            assert_eq!(error_info(&nothing), None);
            assert_eq!(failure_info(&nothing), None);
        }
    }
}
