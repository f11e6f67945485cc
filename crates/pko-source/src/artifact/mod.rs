//! Artifacts: a gzipped tar file behind a URL, known by its digest, as Flux and Programs serve them.

mod digest;
mod download;
mod header;
mod limits;
mod member;
mod pax;
mod unpack;

use std::{path::Path, thread, time::Duration};

pub use digest::DigestError;
pub use download::{DownloadError, Shown, shown};
pub use limits::Limits;
pub use unpack::{UnpackError, Unpacked, unpack};

use crate::{Deadline, PlaceError, place::into_place};

/// What is wanted, and where it goes.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Where the archive is; a user and a password in it are used, and never printed
    pub url: &'a str,
    /// `sha256:…`, `sha384:…`, `sha512:…` or `blake3:…`; without a name it is SHA-256
    pub digest: &'a str,
    /// The folder that has the artifact in the end, and nothing else
    pub target: &'a Path,
    /// How much is too much
    pub limits: Limits,
    /// When to give up, with the tries and the waits in between
    pub deadline: Deadline,
}

/// An artifact that is where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// The bytes of the archive
    pub downloaded: u64,
    /// What was in it
    pub unpacked: Unpacked,
}

/// An artifact that could not be put where it belongs.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// It could not be had.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// It is not the one that was wanted.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// It is no archive that we unpack.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// It could not take the old one's place.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

/// Fetches, verifies and unpacks; the target then holds the artifact and nothing else. Until everything
/// is there, it stays as it was.
pub fn fetch(request: &Request<'_>) -> Result<Fetched, ArtifactError> {
    fetch_with(request, &mut thread::sleep)
}

/// The same for those who can't wait: `pause` is called instead of waiting between tries.
#[doc(hidden)]
pub fn fetch_with(
    request: &Request<'_>,
    pause: &mut dyn FnMut(Duration),
) -> Result<Fetched, ArtifactError> {
    let Request {
        limits, deadline, ..
    } = *request;
    let digest = digest::Expected::parse(request.digest)?;
    into_place(request.target, |new| {
        // Beside what it becomes: in an empty image there is no other folder to write to.
        let archive = new.with_file_name("archive.tar.gz");
        let download = download::Download {
            url: request.url,
            file: &archive,
            largest: limits.download,
            deadline,
        };
        let downloaded = download.run(pause)?;
        digest.verify(&archive)?;
        let unpacked = unpack(&archive, new, &limits, deadline)?;
        Ok(Fetched {
            downloaded,
            unpacked,
        })
    })
}
