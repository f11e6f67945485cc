//! Classifies failed calls of an agent.

use pko_core::{condition_set::shorten, plain_text::plain, workspace::AgentError};
use pko_proto::{MAX_AGENT_HEADER_BYTES, details, run::ErrorClass};
use tonic::{Code, Status};

/// Whether a retry may succeed: the agent reports it, or the call failed in transport.
pub(crate) fn is_transient(status: &Status) -> bool {
    let did_not_arrive = matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::ResourceExhausted
    );
    let failure = details::failure_info(status.details());
    did_not_arrive || failure.is_some_and(|failure| failure.class() == ErrorClass::Transient)
}

/// The error of a rejected call.
pub(crate) fn agent_error(status: &Status) -> AgentError {
    if matches!(status.code(), Code::DeadlineExceeded | Code::Unavailable) {
        return AgentError::Unreachable(status_text(status));
    }
    let known = details::error_info(status.details());
    let reason = known.as_ref().map(|known| known.reason.clone());
    AgentError::Refused {
        reason: reason.unwrap_or_else(|| format!("{:?}", status.code())),
        message: known.map_or_else(|| failure_text(status), |known| plain(&known.message)),
    }
}

/// A status as text, without its details, which are bytes.
pub(crate) fn status_text(status: &Status) -> String {
    format!("{:?}: {}", status.code(), failure_text(status))
}

/// The message of a status, without the colors that upstream's agents pass on. For responses beyond
/// the manager's limits, it names the limit.
pub(in crate::agents) fn failure_text(status: &Status) -> String {
    const TOO_LONG: &str = "Error, decoded message length too large: ";
    let message = status.message();
    if let Some(sizes) = message.strip_prefix(TOO_LONG) {
        return format!("the agent's message is larger than the manager accepts: {sizes}");
    }
    // HTTP/2 has no error of its own for it.
    let is_reset = matches!(status.code(), Code::Internal | Code::ResourceExhausted);
    if is_reset && message.starts_with("h2 protocol error") {
        return format!(
            "the agent broke the protocol, or sent more than {MAX_AGENT_HEADER_BYTES} bytes of headers, which is the \
             limit: {message}"
        );
    }
    plain(&shorten(message))
}

#[cfg(test)]
mod tests {
    use pko_proto::{
        agent::PulumiErrorInfo,
        details::{RpcStatus, of_error, of_failure},
        run::FailureInfo,
    };
    use prost::Message as _;
    use prost_types::Any;

    use super::*;

    fn status(code: Code, details: Vec<Any>) -> Status {
        let inside = RpcStatus {
            code: code.into(),
            message: "it failed".to_owned(),
            details,
        };
        Status::with_details(code, "it failed", inside.encode_to_vec().into())
    }

    #[test]
    fn agent_error_reason_is_the_agents_or_the_code() {
        let refused = |status: &Status| match agent_error(status) {
            AgentError::Refused { reason, message } => (reason, message),
            AgentError::Unreachable(message) => ("unreachable".to_owned(), message),
        };
        let bare = Status::unauthenticated("who are \u{1b}[1myou\u{1b}[0m?");
        assert_eq!(
            refused(&bare),
            ("Unauthenticated".into(), "who are you?".into())
        );
        let info = PulumiErrorInfo {
            code: 401,
            reason: "InvalidAccessToken".to_owned(),
            message: "no".to_owned(),
        };
        let known = status(Code::Unknown, vec![of_error(&info)]);
        assert_eq!(refused(&known), ("InvalidAccessToken".into(), "no".into()));
        let late = Status::deadline_exceeded("late");
        assert_eq!(refused(&late).0, "unreachable");
    }

    #[test]
    fn failure_text_names_the_limit() {
        let text = "Error, decoded message length too large: found 9 bytes, the limit is: 8 bytes";
        assert_eq!(
            failure_text(&Status::out_of_range(text)),
            "the agent's message is larger than the manager accepts: found 9 bytes, the limit is: 8 bytes"
        );
        let reset = Status::internal("h2 protocol error: stream error");
        assert!(failure_text(&reset).contains("more than 65536 bytes of headers"));
        let long = Status::unknown("x".repeat(1_000_000));
        assert!(status_text(&long).len() < 40_000);
    }

    #[test]
    fn agent_error_is_transient_by_class_or_code() {
        let class = |class: ErrorClass| {
            let failure = FailureInfo {
                class: class.into(),
                ..FailureInfo::default()
            };
            status(Code::Aborted, vec![of_failure(&failure)])
        };
        assert!(is_transient(&class(ErrorClass::Transient)));
        assert!(!is_transient(&class(ErrorClass::Program)));
        assert!(is_transient(&Status::unavailable("gone")));
        assert!(!is_transient(&Status::aborted("no details")));
        assert!(!is_transient(&Status::with_details(
            Code::Aborted,
            "odd details",
            vec![7; 3].into()
        )));
    }
}
