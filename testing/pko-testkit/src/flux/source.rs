//! Flux sources as users apply them, and their artifacts.

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The version of all kinds of sources.
pub(super) const API_VERSION: &str = "source.toolkit.fluxcd.io/v1";

/// A kind of source that has an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A branch of a git repository.
    GitRepository,
    /// A tag of an OCI repository.
    OciRepository,
    /// A bucket of an object store.
    Bucket,
    /// A version of a chart.
    HelmChart,
    /// The artifact of a controller outside of Flux.
    ExternalArtifact,
}

impl SourceKind {
    pub const ALL: [Self; 5] = [
        Self::GitRepository,
        Self::OciRepository,
        Self::Bucket,
        Self::HelmChart,
        Self::ExternalArtifact,
    ];

    /// Its name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GitRepository => "GitRepository",
            Self::OciRepository => "OCIRepository",
            Self::Bucket => "Bucket",
            Self::HelmChart => "HelmChart",
            Self::ExternalArtifact => "ExternalArtifact",
        }
    }

    /// The name of its resources.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::GitRepository => "gitrepositories",
            Self::OciRepository => "ocirepositories",
            Self::Bucket => "buckets",
            Self::HelmChart => "helmcharts",
            Self::ExternalArtifact => "externalartifacts",
        }
    }

    fn spec(self) -> Value {
        match self {
            Self::GitRepository => json!({
                "interval": "1m0s", "url": "https://git.test/team/infra", "ref": { "branch": "main" },
            }),
            Self::OciRepository => json!({
                "interval": "1m0s", "url": "oci://registry.test/team/infra", "ref": { "tag": "latest" },
            }),
            Self::Bucket => json!({
                "interval": "1m0s", "bucketName": "infra", "endpoint": "minio.test", "insecure": true,
            }),
            Self::HelmChart => json!({
                "interval": "1m0s", "chart": "infra", "sourceRef": { "kind": "HelmRepository", "name": "charts" },
            }),
            Self::ExternalArtifact => json!({
                "sourceRef": { "apiVersion": "example.test/v1", "kind": "Generator", "name": "infra" },
            }),
        }
    }
}

/// A source in a namespace.
#[derive(Clone, Debug)]
pub struct TestSource {
    kind: SourceKind,
    namespace: String,
    name: String,
}

impl TestSource {
    /// A source of this kind.
    #[must_use]
    pub fn new(kind: SourceKind, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    #[must_use]
    pub fn kind(&self) -> SourceKind {
        self.kind
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The object that a user applies.
    #[must_use]
    pub fn object(&self) -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": self.kind.as_str(),
            "metadata": { "name": self.name, "namespace": self.namespace },
            "spec": self.kind.spec(),
        })
    }

    /// The `fluxSource.sourceRef` of a Stack.
    #[must_use]
    pub fn reference(&self) -> Value {
        json!({ "apiVersion": API_VERSION, "kind": self.kind.as_str(), "name": self.name })
    }

    /// A revision in this kind's format, derived from a seed.
    #[must_use]
    pub fn revision(&self, seed: &str) -> String {
        let digest = hex::encode(Sha256::digest(seed));
        match self.kind {
            // The first 40 characters of any digest look like a commit
            SourceKind::GitRepository => format!("main@sha1:{digest:.40}"),
            SourceKind::OciRepository => format!("latest@sha256:{digest}"),
            SourceKind::Bucket => format!("sha256:{digest}"),
            SourceKind::HelmChart => format!("1.0.0+{digest:.12}"),
            SourceKind::ExternalArtifact => format!("v1.0.0@sha256:{digest}"),
        }
    }

    /// Where the archive of a revision is kept, below the root of the server.
    pub(super) fn path(&self, revision: &str) -> String {
        let folder = self.kind.as_str().to_lowercase();
        let file = match self.kind {
            SourceKind::HelmChart => format!("{}-{revision}.tgz", self.name),
            _ => format!("{}.tar.gz", revision.rsplit(':').next().unwrap_or(revision)),
        };
        format!("{folder}/{}/{}/{file}", self.namespace, self.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// The digest of the archive, with its algorithm.
    pub digest: String,
    pub last_update_time: jiff::Timestamp,
    /// Where it is kept, below the root of the server.
    pub path: String,
    pub revision: String,
    /// How many bytes it has.
    pub size: u64,
    pub url: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_and_paths_match_flux() {
        let found = SourceKind::ALL.map(|kind| {
            let source = TestSource::new(kind, "shop", "infra");
            let revision = source.revision("one");
            (source.path(&revision), revision)
        });
        let digest = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
        let commit = &digest[..40];
        let short = &digest[..12];
        let expected = [
            (
                format!("gitrepository/shop/infra/{commit}.tar.gz"),
                format!("main@sha1:{commit}"),
            ),
            (
                format!("ocirepository/shop/infra/{digest}.tar.gz"),
                format!("latest@sha256:{digest}"),
            ),
            (
                format!("bucket/shop/infra/{digest}.tar.gz"),
                format!("sha256:{digest}"),
            ),
            (
                format!("helmchart/shop/infra/infra-1.0.0+{short}.tgz"),
                format!("1.0.0+{short}"),
            ),
            (
                format!("externalartifact/shop/infra/{digest}.tar.gz"),
                format!("v1.0.0@sha256:{digest}"),
            ),
        ];
        assert_eq!(found, expected);
    }
}
