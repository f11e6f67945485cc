use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use std::time::{Duration, UNIX_EPOCH};

use super::*;

fn unpack_file(
    archive: &Path,
    target: &Path,
    largest: Option<u64>,
) -> Result<UnpackSummary, UnpackError> {
    let deadline = Deadline::after(Duration::from_mins(5));
    unpack(
        archive,
        target,
        &ArtifactLimits::for_unpacked(largest),
        deadline,
    )
}

struct PackedArchive(Builder<GzEncoder<Vec<u8>>>);

impl PackedArchive {
    fn new() -> Self {
        Self(Builder::new(GzEncoder::new(
            Vec::new(),
            Compression::fast(),
        )))
    }

    fn add(mut self, name: &str, kind: EntryType, content: &str) -> Self {
        let mut header = Header::new_ustar();
        // `set_path` would reject these names.
        header.as_ustar_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_mtime(1_000_000);
        let size = if kind == EntryType::Regular {
            content.len()
        } else {
            0
        };
        header.set_size(size as u64);
        if kind == EntryType::Symlink {
            header.set_link_name(content).unwrap();
        }
        header.set_cksum();
        self.0.append(&header, &content.as_bytes()[..size]).unwrap();
        self
    }

    fn unpack(
        self,
        largest: Option<u64>,
    ) -> (tempfile::TempDir, Result<UnpackSummary, UnpackError>) {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive.tar.gz");
        fs::write(&archive, self.0.into_inner().unwrap().finish().unwrap()).unwrap();
        let result = unpack_file(&archive, &folder.path().join("target"), largest);
        (folder, result)
    }
}

#[test]
fn unpack_writes_files_and_folders() {
    let (folder, result) = PackedArchive::new()
        .add("./", EntryType::Directory, "")
        .add("Pulumi.yaml", EntryType::Regular, "name: demo")
        .add("./a/b/run.sh", EntryType::Regular, "#!/bin/sh")
        .unpack(Some(1024));
    result.unwrap();
    let target = folder.path().join("target");
    assert_eq!(
        fs::read_to_string(target.join("Pulumi.yaml")).unwrap(),
        "name: demo"
    );
    let data = target.join("a/b/run.sh").metadata().unwrap();
    assert_eq!(data.permissions().mode() & 0o777, 0o755);
    assert_eq!(
        data.modified().unwrap(),
        UNIX_EPOCH + Duration::from_secs(1_000_000)
    );
}

#[test]
fn unpack_names_outside_target_are_rejected() {
    for name in ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil"] {
        let (folder, result) = PackedArchive::new()
            .add(name, EntryType::Regular, "x")
            .unpack(None);
        assert!(matches!(result, Err(UnpackError::BadName(_))), "{name}");
        assert!(!folder.path().join("evil").exists());
    }
}

#[test]
fn unpack_symlink_is_skipped_and_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    let place = outside.path().to_str().unwrap();
    let (folder, result) = PackedArchive::new()
        .add("link", EntryType::Symlink, place)
        .add("link/evil", EntryType::Regular, "x")
        .unpack(None);
    result.unwrap();
    assert!(!outside.path().join("evil").exists());
    assert!(folder.path().join("target/link/evil").is_file());
}

#[test]
fn unpack_special_files_are_rejected() {
    for kind in [EntryType::Link, EntryType::Fifo, EntryType::Char] {
        let (_folder, result) = PackedArchive::new().add("x", kind, "").unpack(None);
        assert!(matches!(result, Err(UnpackError::BadKind(_))), "{kind:?}");
    }
}

#[test]
fn unpack_size_is_limited() {
    let packed = || {
        PackedArchive::new()
            .add("a", EntryType::Regular, &"x".repeat(600))
            .add("b", EntryType::Regular, &"y".repeat(600))
    };
    packed().unpack(Some(1200)).1.unwrap();
    packed().unpack(None).1.unwrap();
    let error = packed().unpack(Some(1024)).1.unwrap_err().to_string();
    assert!(error.contains("bigger than max archive size of 1024 bytes"));
}

#[test]
fn unpack_invalid_archive_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "not gzip").unwrap();
    let result = unpack_file(&file, &folder.path().join("target"), None);
    assert!(matches!(result, Err(UnpackError::Read(_))));
}
