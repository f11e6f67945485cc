//! An object with an artifact as the source of a Stack: Flux's own kinds, and any other that has `status.artifact`.

use std::fmt;

use pko_api::{auto::v1alpha1::FluxArtifact, pulumi::v1::FluxSource};
use serde::Deserialize;
use serde_json::Value;

use super::{Location, ProgramSource, SourceError, present};

/// An object that has an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FluxSourceRef {
    /// The group of its kind; empty for Kubernetes' own.
    pub group: String,
    /// The version of its kind.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The folder of the program in the artifact; nothing for its root.
    pub dir: Option<String>,
}

impl FluxSourceRef {
    /// Group and version as an object has them.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            return self.version.clone();
        }
        format!("{}/{}", self.group, self.version)
    }
}

/// What a Stack says of it.
pub(super) fn wanted(source: &FluxSource) -> Result<FluxSourceRef, String> {
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

/// An artifact: an archive that can be fetched.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Artifact {
    url: String,
    revision: String,
    digest: Option<String>,
}

impl Artifact {
    /// The artifact of an object. One that does not decode is none, as for upstream.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let artifact = object.pointer("/status/artifact")?;
        let artifact = Self::deserialize(artifact).ok()?;
        let whole = !artifact.url.is_empty() && !artifact.revision.is_empty();
        whole.then_some(artifact)
    }

    /// Whether a Stack has to look: there is one now, or it is another one. What else changes at its object, again and
    /// again while it is looked for, is nobody's business here.
    #[must_use]
    pub fn is_news(before: Option<&Self>, after: Option<&Self>) -> bool {
        after.is_some_and(|after| before.is_none_or(|before| before.revision != after.revision))
    }
}

impl fmt::Debug for Artifact {
    /// An address may have been signed for whoever knows it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Artifact({})", self.revision)
    }
}

/// The source that an artifact is.
///
/// # Errors
/// There is none, or nobody could tell whether what is fetched is the right one.
pub fn flux_source(
    artifact: Option<&Artifact>,
    wanted: &FluxSourceRef,
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
            dir: wanted.dir.clone(),
        }),
    })
}
