//! An object with an artifact as the source of a Stack: one of Flux's kinds, or any other with
//! `status.artifact`.

use std::fmt;

use pko_api::{auto::v1alpha1::FluxArtifact, pulumi::v1::FluxSource};
use serde::Deserialize;
use serde_json::Value;

use super::{Location, ProgramSource, SourceError, present};

/// An object that has an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FluxSourceRef {
    /// Empty for Kubernetes' core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    /// The folder of the program in the artifact, unless it is the root.
    pub dir: Option<String>,
}

impl FluxSourceRef {
    /// The `apiVersion` of the object.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            return self.version.clone();
        }
        format!("{}/{}", self.group, self.version)
    }
}

/// The object that a Stack refers to.
///
/// # Errors
/// Upstream's message about an invalid reference.
pub(super) fn source_ref(source: &FluxSource) -> Result<FluxSourceRef, String> {
    let reference = &source.source_ref;
    let text = &reference.api_version;
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    if version.is_empty() || version.contains('/') {
        return Err(format!(
            "cannot process source reference: unexpected GroupVersion string: {text}"
        ));
    }
    for (field, value) in [("kind", &reference.kind), ("name", &reference.name)] {
        if value.is_empty() {
            return Err(format!(
                "cannot process source reference: spec.fluxSource.sourceRef.{field} is empty"
            ));
        }
    }
    Ok(FluxSourceRef {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        dir: present(source.dir.as_ref()).cloned(),
    })
}

/// An archive that can be fetched.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Artifact {
    url: String,
    revision: String,
    digest: Option<String>,
}

impl Artifact {
    /// The artifact of an object. One that does not decode is ignored, as by upstream.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let artifact = object.pointer("/status/artifact")?;
        let artifact = Self::deserialize(artifact).ok()?;
        let is_complete = !artifact.url.is_empty() && !artifact.revision.is_empty();
        is_complete.then_some(artifact)
    }

    /// Whether a Stack has to be reconciled because the artifact is new or has another revision.
    /// Other changes of its object are frequent and do not matter.
    #[must_use]
    pub fn is_news(before: Option<&Self>, after: Option<&Self>) -> bool {
        after.is_some_and(|after| before.is_none_or(|before| before.revision != after.revision))
    }
}

impl fmt::Debug for Artifact {
    /// Omits the address, which may be signed and thereby secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Artifact({})", self.revision)
    }
}

/// The source for an artifact.
///
/// # Errors
/// There is no artifact, or it has no digest to verify.
pub fn flux_source(
    artifact: Option<&Artifact>,
    reference: &FluxSourceRef,
) -> Result<ProgramSource, SourceError> {
    let unavailable = |message: &str| SourceError::Unavailable(message.to_owned());
    let artifact = artifact.ok_or_else(|| unavailable("Flux source has no artifact"))?;
    let digest = present(artifact.digest.as_ref()).ok_or_else(|| {
        unavailable(
            "Flux source has an artifact without a digest: a newer version of Flux writes one",
        )
    })?;
    Ok(ProgramSource {
        revision: artifact.revision.clone(),
        location: Location::Artifact(FluxArtifact {
            url: Some(artifact.url.clone()),
            digest: Some(digest.clone()),
            dir: reference.dir.clone(),
        }),
    })
}
