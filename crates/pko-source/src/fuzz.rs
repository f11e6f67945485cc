//! Entry points for fuzzing of archives.
//!
//! No input may panic, and the assertions hold for every input.

use std::{fs, path::Path, time::Duration};

use crate::{
    Deadline,
    artifact::{ArtifactLimits, unpack},
};

const LIMITS: ArtifactLimits = ArtifactLimits {
    download: None,
    unpacked: Some(64 * 1024),
    entries: 16,
};

/// Unpacks an archive, compressed or not. Only files and folders within the target may be created,
/// within the limits.
pub fn archive(bytes: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else {
        return;
    };
    let (file, target) = (folder.path().join("archive"), folder.path().join("target"));
    let packed = if bytes.starts_with(&[0x1f, 0x8b]) {
        bytes.to_vec()
    } else {
        packed(bytes)
    };
    if fs::write(&file, packed).is_err() {
        return;
    }
    let deadline = Deadline::after(Duration::from_mins(1));
    let outcome = unpack(&file, &target, &LIMITS, deadline);
    let beside = fs::read_dir(folder.path()).into_iter().flatten().count();
    assert!(beside <= 2, "something is beside the target");
    let (entries, size) = counted(&target);
    assert!(size <= LIMITS.unpacked.unwrap_or_default(), "{size} bytes");
    if let Ok(unpacked) = outcome {
        assert!(unpacked.entries <= LIMITS.entries);
        assert!(size <= unpacked.bytes, "{size} of {}", unpacked.bytes);
    }
    // One name can contain many folders.
    let most = usize::try_from(LIMITS.entries).unwrap_or_default() * (ArtifactLimits::DEPTH + 1);
    assert!(entries <= most, "{entries} entries");
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

fn counted(target: &Path) -> (usize, u64) {
    let mut found = (0, 0);
    let mut folders = vec![target.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.path().symlink_metadata() else {
                continue;
            };
            assert!(data.is_file() || data.is_dir(), "neither file nor folder");
            found.0 += 1;
            if data.is_dir() {
                folders.push(entry.path());
            } else {
                found.1 += data.len();
            }
        }
    }
    found
}
