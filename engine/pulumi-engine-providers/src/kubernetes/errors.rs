//! Errors of requests to an API server.

use kube::core::Status;

use crate::ProviderError;

#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum KubernetesError {
    /// The server responded with an error.
    #[error("{}", .0.message)]
    Answer(Box<Status>),
    /// The server did not respond.
    #[error("the Kubernetes API server cannot be reached: {0}")]
    Unreachable(String),
    /// The request could not be sent.
    #[error("{0}")]
    Configuration(String),
    /// The server has no such kind.
    #[error(
        "the Kubernetes API server has no kind {0}: check `apiVersion` and `kind`, and that its \
         CustomResourceDefinition is there or comes first (`dependsOn`)"
    )]
    NoSuchKind(String),
    /// A name that cannot be part of a path.
    #[error("`{0}` can be no name of an object")]
    NoName(String),
    /// The run was canceled.
    #[error("canceled")]
    Canceled,
}

impl KubernetesError {
    /// Converts the client's errors, most of which mean that the server did not respond.
    #[must_use]
    pub(super) fn from_client(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Answer(status),
            kube::Error::Auth(error) => Self::Configuration(format!(
                "failed to get credentials for the Kubernetes API server: {error}"
            )),
            error => Self::Unreachable(chain(&error)),
        }
    }

    fn status(&self) -> Option<&Status> {
        match self {
            Self::Answer(status) => Some(status),
            _ => None,
        }
    }

    fn has_code(&self, code: u16) -> bool {
        self.status().is_some_and(|status| status.code == code)
    }

    #[must_use]
    pub(super) fn is_not_found(&self) -> bool {
        self.has_code(404)
    }

    /// Whether another field manager owns a changed field.
    #[must_use]
    pub(super) fn is_conflict(&self) -> bool {
        self.has_code(409)
    }

    #[must_use]
    pub(super) fn is_forbidden(&self) -> bool {
        self.has_code(403)
    }

    /// Whether there was no server.
    #[must_use]
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Configuration(_))
    }

    /// Whether the namespace of the object is missing.
    #[must_use]
    pub(super) fn is_missing_namespace(&self) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        self.is_not_found() && details.is_some_and(|details| details.kind == "namespaces")
    }

    /// Whether a retry may succeed.
    #[must_use]
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Answer(status) => {
                matches!(status.code, 429 | 502 | 503 | 504)
                    || (status.code == 500 && is_passing_trouble(status))
                    // a lost race, not a field manager conflict
                    || (status.code == 409 && status.message.contains("the object has been modified"))
            }
            _ => false,
        }
    }

    /// The immutable fields of an error; none for other errors.
    #[must_use]
    pub(super) fn immutable_fields(&self) -> Vec<String> {
        let details = self.status().and_then(|status| status.details.as_ref());
        let immutable = details
            .filter(|_| self.has_code(422))
            .into_iter()
            .flat_map(|details| {
                let causes = details.causes.iter();
                causes.filter(|cause| cause.message.contains("immutable"))
            });
        immutable.map(|cause| cause.field.clone()).collect()
    }
}

fn is_passing_trouble(status: &Status) -> bool {
    [
        "etcdserver",
        "connection refused",
        "context deadline exceeded",
        "timeout",
        "i/o",
    ]
    .iter()
    .any(|part| status.message.contains(part))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let further = error.to_string();
        if !text.contains(&further) {
            text = format!("{text}: {further}");
        }
        source = error.source();
    }
    text
}

/// Converts to a provider error. `what` is such as `failed to create ConfigMap "a/b"`.
#[must_use]
pub(super) fn provider_error(what: &str, failure: &KubernetesError) -> ProviderError {
    ProviderError::Failed(format!("{what}: {}", reason(failure)))
}

fn reason(failure: &KubernetesError) -> String {
    if failure.is_forbidden() {
        return format!(
            "{failure}; give the credentials of the provider this right, or use others"
        );
    }
    if failure.is_conflict() {
        return format!(
            "{failure}. Another field manager owns these fields: leave them out of the program (or name them in \
             `ignoreChanges`), take them over with the annotation `pulumi.com/patchForce: \"true\"`, or set \
             `enablePatchForce` on the provider"
        );
    }
    if failure.is_missing_namespace() {
        return format!("{failure}; make the namespace first (`dependsOn`)");
    }
    failure.to_string()
}

/// The error about an existing object.
#[must_use]
pub(super) fn exists(what: &str) -> ProviderError {
    ProviderError::Failed(format!(
        "{what}: the object already exists in the cluster, and this resource did not make it. Import it (option \
         `import`), give the resource another name, name the resource that had it before in `aliases`, or set \
         `upsertExistingObjects` on the provider to take it over"
    ))
}

#[cfg(test)]
mod tests {
    use kube::core::response::{StatusCause, StatusDetails};

    use super::*;

    fn answer(code: u16, message: &str) -> KubernetesError {
        KubernetesError::Answer(Status::failure(message, "").with_code(code).boxed())
    }

    #[test]
    fn transient_errors_are_distinguished() {
        let cases = [
            (answer(429, "too many requests"), true),
            (answer(503, "the server is starting"), true),
            (answer(504, "timeout"), true),
            (answer(500, "etcdserver: leader changed"), true),
            (answer(500, "admission webhook denied"), false),
            (answer(403, "forbidden"), false),
            (answer(404, "not found"), false),
            (answer(409, "Apply failed with 1 conflict"), false),
            (
                answer(
                    409,
                    "Operation cannot be fulfilled: the object has been modified",
                ),
                true,
            ),
            (answer(422, "invalid"), false),
            (
                KubernetesError::Unreachable("connection refused".into()),
                true,
            ),
            (
                KubernetesError::Configuration("no kubeconfig".into()),
                false,
            ),
            (KubernetesError::NoSuchKind("a/v1 B".into()), false),
            (KubernetesError::Canceled, false),
        ];
        for (failure, expected) in cases {
            assert_eq!(failure.is_passing(), expected, "{failure}");
        }
    }

    #[test]
    fn error_messages_name_object_and_remedy() {
        let cases = [
            (
                answer(403, "configmaps is forbidden"),
                "give the credentials",
            ),
            (
                answer(409, "conflict with \"kubectl\": .data.a"),
                "pulumi.com/patchForce",
            ),
            (
                answer(409, "conflict with \"kubectl\": .data.a"),
                "\"kubectl\"",
            ),
            (
                answer(422, "spec.x: Invalid value"),
                "spec.x: Invalid value",
            ),
            (
                KubernetesError::NoSuchKind("a/v1 B".into()),
                "CustomResourceDefinition",
            ),
        ];
        for (failure, expected) in cases {
            let text = provider_error("failed to create B \"n/b\"", &failure).to_string();
            assert!(text.starts_with("failed to create B \"n/b\": "), "{text}");
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn immutable_fields_come_from_server_error() {
        let cause = |field: &str, message: &str| StatusCause {
            reason: "FieldValueInvalid".into(),
            message: message.into(),
            field: field.into(),
        };
        let details = StatusDetails {
            causes: vec![
                cause("spec.selector", "Invalid value: {}: field is immutable"),
                cause("spec.replicas", "must be non-negative"),
            ],
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            retry_after_seconds: 0,
        };
        let status = Status::failure("invalid", "Invalid")
            .with_code(422)
            .with_details(details);
        assert_eq!(
            KubernetesError::Answer(status.boxed()).immutable_fields(),
            ["spec.selector"]
        );
        assert!(answer(422, "other").immutable_fields().is_empty());
    }
}
