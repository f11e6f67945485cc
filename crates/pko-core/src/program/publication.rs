//! [`Publication`]: the archive and the check of a Program's body, once for each generation.
//!
//! A body can have a megabyte, and building its archive costs CPU time. The status stores the
//! result and the version that built it, so a restarted manager needs no body.

use std::sync::LazyLock;

use k8s_openapi::api::apps::v1::ControllerRevision;
use pko_api::{Program, names::annotations};

use super::{
    artifact::{Archive, archive, archive_of},
    generations,
    status::{Verdict, is_published, verdict},
};

/// The size of the sample for [`maker`], which exercises every compression method.
const SAMPLE_NUMBERS: u32 = 4000;
/// Enough of a digest to distinguish two compressors.
const FINGERPRINT: usize = 8;

/// The result for one generation of a Program.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// The archive, or why it could not be built.
    pub archive: Result<Archive, String>,
    pub(super) verdict: Verdict,
    /// The ControllerRevision to store.
    pub(super) revision: Option<Box<ControllerRevision>>,
}

impl Publication {
    /// Builds the archive and checks the Program, in time proportional to the body.
    #[must_use]
    pub fn of(program: &Program) -> Self {
        let archive = archive(program).map_err(|error| {
            let source = std::error::Error::source(&error);
            let cause = source.map_or_else(String::new, ToString::to_string);
            format!("{error}: {cause}")
        });
        Self {
            verdict: verdict(program, &archive),
            archive,
            revision: generations::revision(program).ok().map(Box::new),
        }
    }
}

/// Whether the status has the result of this version for the current generation.
pub(super) fn is_up_to_date(program: &Program) -> bool {
    let generation = program.metadata.generation.unwrap_or_default();
    let status = program.status.as_ref();
    let artifact = status.and_then(|status| status.artifact.as_ref());
    is_published(program)
        && artifact.is_some_and(|artifact| {
            artifact.revision == generation.to_string()
                && artifact.digest.is_some()
                && artifact.metadata.get(annotations::MADE_BY) == Some(&maker().to_owned())
        })
}

/// This version, with a digest of a compressed sample: another compressor produces other bytes, and
/// so another digest, for the same Program.
pub(super) fn maker() -> &'static str {
    static MAKER: LazyLock<String> = LazyLock::new(|| {
        let numbers = (0..SAMPLE_NUMBERS).map(|number| (number * number).to_string());
        let sample: Vec<String> = numbers.collect();
        let digest = archive_of(&sample.join(" ")).map_or_else(|_| String::new(), |it| it.digest);
        let digest = digest.strip_prefix("sha256:").unwrap_or_default();
        let fingerprint = digest.get(..FINGERPRINT).unwrap_or_default();
        format!("{}-{fingerprint}", env!("CARGO_PKG_VERSION"))
    });
    &MAKER
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maker_is_a_version_and_a_fingerprint() {
        let (version, fingerprint) = maker().rsplit_once('-').unwrap();
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        assert_eq!(fingerprint.len(), FINGERPRINT, "{fingerprint}");
    }

    #[test]
    fn status_of_another_version_or_generation_is_not_up_to_date() {
        let time = "2026-01-01T00:00:00Z";
        let program = |made_by: &str, revision: &str, digest: Option<&str>| -> Program {
            serde_json::from_value(json!({
                "metadata": { "name": "p", "generation": 2 },
                "status": {
                    "observedGeneration": 2,
                    "artifact": {
                        "path": "p", "url": "http://p", "revision": revision, "digest": digest,
                        "lastUpdateTime": time, "metadata": { "pulumi.com/made-by": made_by },
                    },
                    "conditions": [{
                        "type": "Ready", "status": "True", "reason": "Published", "message": "",
                        "observedGeneration": 2, "lastTransitionTime": time,
                    }],
                },
            }))
            .unwrap()
        };
        let (own, digest) = (maker(), Some("sha256:a"));
        assert!(is_up_to_date(&program(own, "2", digest)));
        assert!(!is_up_to_date(&program("0.0.0-cafe", "2", digest)));
        assert!(!is_up_to_date(&program(own, "1", digest)));
        assert!(!is_up_to_date(&program(own, "2", None)));
        let mut of_upstream = program(own, "2", digest);
        of_upstream.status.as_mut().unwrap().conditions.clear();
        assert!(!is_up_to_date(&of_upstream));
    }
}
