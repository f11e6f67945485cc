//! Artifacts: a gzipped tar file behind a URL, known by its digest, as Flux and Programs serve them.

mod digest;
mod download;
mod unpack;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub(crate) use digest::DigestError;
pub(crate) use download::DownloadError;
pub(crate) use unpack::UnpackError;

/// An artifact that could not be put where it belongs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtifactError {
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error(transparent)]
    Digest(#[from] DigestError),
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error("failed to put the artifact into {}", folder.display())]
    Place { folder: PathBuf, source: io::Error },
}

/// Fetches, verifies and unpacks; the target then holds the artifact and nothing else. Until
/// everything is there, it stays as it was.
pub(crate) fn fetch(
    url: &str,
    digest: &str,
    target: &Path,
    largest: Option<u64>,
) -> Result<(), ArtifactError> {
    let digest = digest::Expected::parse(digest)?;
    let archive = download::download(url)?;
    digest.verify(archive.path())?;
    let place = |source| ArtifactError::Place {
        folder: target.to_owned(),
        source,
    };
    let parent = target
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(place)?;
    let staging = tempfile::Builder::new()
        .prefix(".incoming-")
        .tempdir_in(parent)
        .map_err(place)?;
    let inside = staging.path().join("artifact");
    unpack::unpack(archive.path(), &inside, largest)?;
    replace(&inside, target, staging.path()).map_err(place)
}

/// Puts the new folder in the old one's place.
fn replace(new: &Path, target: &Path, staging: &Path) -> io::Result<()> {
    if target.exists() {
        fs::rename(target, staging.join("old"))?;
    }
    fs::rename(new, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_takes_the_place_of_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, file) in [("new", "a"), ("target", "b")] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join(file), "").unwrap();
        }
        replace(&path("new"), &path("target"), folder.path()).unwrap();
        assert!(path("target/a").exists() && !path("target/b").exists());
    }
}
