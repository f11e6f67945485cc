//! Statuses of sources in source-controller's format.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::source::{Artifact, SourceKind};

/// Where source-controller is with a source.
#[derive(Clone, Debug)]
pub enum SourceState {
    /// The source is new; nothing was fetched yet.
    Progressing,
    /// The artifact is that of the newest revision.
    Ready(Artifact),
    /// A newer revision exists, but its archive is not stored yet.
    Outdated { stored: Artifact, seen: String },
    /// The source can't be fetched; an artifact of before stays.
    Failed {
        /// The artifact of before, if there was one.
        stored: Option<Artifact>,
        message: String,
    },
}

impl SourceState {
    /// The status for a generation, with conditions in Flux's order: summary conditions, then
    /// others by name.
    pub(super) fn status(&self, kind: SourceKind, generation: i64, now: Timestamp) -> Value {
        let condition = |name: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": name, "status": status, "reason": reason, "message": message,
                "observedGeneration": generation, "lastTransitionTime": now,
            })
        };
        let stored = |artifact: &Artifact| {
            let message = stored_message(kind, &artifact.revision);
            condition("ArtifactInStorage", "True", "Succeeded", &message)
        };
        match self {
            Self::Progressing => {
                let text = "reconciliation in progress";
                let conditions = [
                    condition("Reconciling", "True", "Progressing", text),
                    condition("Ready", "Unknown", "Progressing", text),
                ];
                status(-1, &conditions, None)
            }
            Self::Ready(artifact) => {
                let message = stored_message(kind, &artifact.revision);
                let ready = condition("Ready", "True", "Succeeded", &message);
                status(generation, &[ready, stored(artifact)], Some(artifact))
            }
            Self::Outdated {
                stored: artifact,
                seen,
            } => {
                let message = format!("new upstream revision '{seen}'");
                let building = format!("building artifact: {message}");
                let conditions = [
                    condition("Reconciling", "True", "Progressing", &building),
                    condition("Ready", "Unknown", "Progressing", &building),
                    stored(artifact),
                    condition("ArtifactOutdated", "True", "NewRevision", &message),
                ];
                status(generation, &conditions, Some(artifact))
            }
            Self::Failed {
                stored: artifact,
                message,
            } => {
                let reason = failure_reason(kind);
                let mut conditions = vec![condition("Ready", "False", reason, message)];
                conditions.extend(artifact.as_ref().map(stored));
                conditions.push(condition("FetchFailed", "True", reason, message));
                status(generation, &conditions, artifact.as_ref())
            }
        }
    }
}

fn status(generation: i64, conditions: &[Value], artifact: Option<&Artifact>) -> Value {
    let mut status = json!({ "observedGeneration": generation, "conditions": conditions });
    if let (Some(fields), Some(artifact)) = (status.as_object_mut(), artifact) {
        fields.insert("artifact".to_owned(), json!(artifact));
    }
    status
}

fn stored_message(kind: SourceKind, revision: &str) -> String {
    match kind {
        SourceKind::GitRepository => format!("stored artifact for revision '{revision}'"),
        SourceKind::OciRepository => format!("stored artifact for digest '{revision}'"),
        SourceKind::Bucket => format!("stored artifact: revision '{revision}'"),
        SourceKind::HelmChart => format!("pulled 'infra' chart with version '{revision}'"),
        SourceKind::ExternalArtifact => format!("stored artifact for revision {revision}"),
    }
}

fn failure_reason(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::GitRepository => "GitOperationFailed",
        SourceKind::OciRepository => "OCIArtifactPullFailed",
        SourceKind::Bucket => "BucketOperationFailed",
        SourceKind::HelmChart => "ChartPullFailed",
        SourceKind::ExternalArtifact => "Failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact() -> Artifact {
        Artifact {
            digest: "sha256:00".into(),
            last_update_time: Timestamp::UNIX_EPOCH,
            path: "gitrepository/shop/infra/11.tar.gz".into(),
            revision: "main@sha1:11".into(),
            size: 5,
            url: "http://127.0.0.1:1/gitrepository/shop/infra/11.tar.gz".into(),
        }
    }

    #[test]
    fn ready_source_status_has_artifact() {
        let status = SourceState::Ready(artifact()).status(
            SourceKind::GitRepository,
            3,
            Timestamp::UNIX_EPOCH,
        );
        let message = "stored artifact for revision 'main@sha1:11'";
        let time = "1970-01-01T00:00:00Z";
        let expected = json!({
            "artifact": {
                "digest": "sha256:00", "lastUpdateTime": time, "path": "gitrepository/shop/infra/11.tar.gz",
                "revision": "main@sha1:11", "size": 5,
                "url": "http://127.0.0.1:1/gitrepository/shop/infra/11.tar.gz",
            },
            "conditions": [
                { "type": "Ready", "status": "True", "reason": "Succeeded", "message": message,
                  "observedGeneration": 3, "lastTransitionTime": time },
                { "type": "ArtifactInStorage", "status": "True", "reason": "Succeeded", "message": message,
                  "observedGeneration": 3, "lastTransitionTime": time },
            ],
            "observedGeneration": 3,
        });
        assert_eq!(status, expected);
    }

    #[test]
    fn outdated_and_failed_sources_keep_artifact() {
        let outdated = SourceState::Outdated {
            stored: artifact(),
            seen: "main@sha1:22".into(),
        };
        let failed = SourceState::Failed {
            stored: Some(artifact()),
            message: "no route to host".into(),
        };
        for (state, types) in [
            (
                outdated,
                "Reconciling=True Ready=Unknown ArtifactInStorage=True ArtifactOutdated=True",
            ),
            (
                failed,
                "Ready=False ArtifactInStorage=True FetchFailed=True",
            ),
        ] {
            let status = state.status(SourceKind::GitRepository, 1, Timestamp::UNIX_EPOCH);
            assert_eq!(status["artifact"]["revision"], "main@sha1:11");
            assert_eq!(texts(&status), types);
        }
        let never = SourceState::Failed {
            stored: None,
            message: "no route to host".into(),
        };
        for (state, types) in [
            (SourceState::Progressing, "Reconciling=True Ready=Unknown"),
            (never, "Ready=False FetchFailed=True"),
        ] {
            let status = state.status(SourceKind::GitRepository, 1, Timestamp::UNIX_EPOCH);
            assert_eq!(status.get("artifact"), None);
            assert_eq!(texts(&status), types);
        }
    }

    fn texts(status: &Value) -> String {
        let conditions = status["conditions"].as_array().unwrap().iter();
        let text = |condition: &Value| {
            let field = |name: &str| condition[name].as_str().unwrap().to_owned();
            format!("{}={}", field("type"), field("status"))
        };
        conditions.map(text).collect::<Vec<_>>().join(" ")
    }
}
