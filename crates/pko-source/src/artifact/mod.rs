//! Artifacts: a gzipped tar file at a URL with a digest, as Flux and Programs serve them.
//!
//! [`fetch`] downloads the archive, verifies its digest, unpacks it into a staging folder and then
//! swaps that folder with the target. The `tar` crate splits the archive into headers and data.
//! This module interprets the headers itself (`tar_header`, `tar_member`, `pax`: 320 lines without
//! tests) for two reasons:
//!
//! - `tar` buffers extended headers of any length in memory.
//! - Tar readers disagree about malformed archives. An archive that GNU tar and this reader would
//!   unpack differently is rejected.

mod digest;
mod download;
mod limits;
mod pax;
mod tar_header;
mod tar_member;
mod unpack;

use std::{path::Path, thread, time::Duration};

pub use digest::DigestError;
pub use download::{DownloadError, RedactedUrl, redact_url};
pub use limits::ArtifactLimits;
pub use unpack::{UnpackError, UnpackSummary, unpack};

use crate::{Deadline, DirectorySwapError, directory_swap::replace_directory};

#[derive(Debug, Clone, Copy)]
pub struct ArtifactRequest<'a> {
    /// Credentials in the URL are used and never printed.
    pub url: &'a str,
    /// `sha256:…`, `sha384:…`, `sha512:…` or `blake3:…`. Without an algorithm it is SHA-256.
    pub digest: &'a str,
    /// This folder is replaced: afterwards it contains the artifact and nothing else.
    pub target: &'a Path,
    pub limits: ArtifactLimits,
    /// Covers all attempts and the delays between them.
    pub deadline: Deadline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchedArtifact {
    pub downloaded: u64,
    pub unpacked: UnpackSummary,
}

#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error(transparent)]
    Digest(#[from] DigestError),
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error(transparent)]
    Place(#[from] DirectorySwapError),
}

/// Downloads, verifies and unpacks an artifact. The target is replaced only after all of that
/// succeeded.
pub fn fetch(request: &ArtifactRequest<'_>) -> Result<FetchedArtifact, ArtifactError> {
    fetch_with(request, &mut thread::sleep)
}

/// Like [`fetch`], but calls `pause` between attempts, so tests need not sleep.
#[doc(hidden)]
pub fn fetch_with(
    request: &ArtifactRequest<'_>,
    pause: &mut dyn FnMut(Duration),
) -> Result<FetchedArtifact, ArtifactError> {
    let ArtifactRequest {
        limits, deadline, ..
    } = *request;
    let digest = digest::ExpectedDigest::parse(request.digest)?;
    replace_directory(request.target, |new| {
        // The staging folder is the only folder that is known to be writable.
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
        Ok(FetchedArtifact {
            downloaded,
            unpacked,
        })
    })
}
