//! Unpacks a gzipped tar file from somebody that is not trusted: nothing is written outside of the
//! target, and no more than allowed.

use std::{
    fs::{self, File, FileTimes, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use flate2::read::GzDecoder;
use tar::{Archive, Entry, EntryType};

const FOLDER_MODE: u32 = 0o750;

/// An archive that is not unpacked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    #[error("failed to read the archive")]
    Read(#[source] io::Error),
    #[error("failed to write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the archive is bigger than max archive size of {0} bytes")]
    TooBig(u64),
    #[error("the archive has an entry with the name `{0}`, which leads outside of it")]
    BadName(String),
    #[error("the archive has an entry `{0}` that is neither a file nor a folder")]
    BadKind(String),
}

/// Unpacks into a folder that must not exist yet.
pub(crate) fn unpack(
    archive: &Path,
    target: &Path,
    largest: Option<u64>,
) -> Result<(), UnpackError> {
    let file = File::open(archive).map_err(UnpackError::Read)?;
    make_folder(target)?;
    let mut archive = Archive::new(GzDecoder::new(file));
    let mut size: u64 = 0;
    for entry in archive.entries().map_err(UnpackError::Read)? {
        let mut entry = entry.map_err(UnpackError::Read)?;
        size = size.saturating_add(entry.size());
        if let Some(largest) = largest.filter(|largest| size > *largest) {
            return Err(UnpackError::TooBig(largest));
        }
        unpack_entry(&mut entry, target)?;
    }
    Ok(())
}

fn unpack_entry(entry: &mut Entry<'_, impl io::Read>, target: &Path) -> Result<(), UnpackError> {
    let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let kind = entry.header().entry_type();
    if matches!(kind, EntryType::XGlobalHeader | EntryType::XHeader) {
        return Ok(());
    }
    let path = target.join(inner_path(&name).ok_or_else(|| UnpackError::BadName(name.clone()))?);
    match kind {
        EntryType::Directory => make_folder(&path),
        EntryType::Regular | EntryType::Continuous => write_file(entry, &path),
        EntryType::Symlink => {
            tracing::warn!(name, "A symbolic link in the artifact is left out");
            Ok(())
        }
        _ => Err(UnpackError::BadKind(name)),
    }
}

/// The path, if it stays inside. Since no links are made, its parts are what they seem.
fn inner_path(name: &str) -> Option<PathBuf> {
    if name.is_empty() || name.contains('\\') {
        return None;
    }
    let mut path = PathBuf::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

fn write_file(entry: &mut Entry<'_, impl io::Read>, path: &Path) -> Result<(), UnpackError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
    let modified = entry.header().mtime().unwrap_or_default();
    let modified = UNIX_EPOCH + Duration::from_secs(modified.min(u64::from(u32::MAX)));
    let mut write = || {
        let mut file = File::create(path)?;
        io::copy(entry, &mut file)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.set_times(FileTimes::new().set_modified(modified.min(SystemTime::now())))
    };
    write().map_err(|source| UnpackError::Write {
        path: path.to_owned(),
        source,
    })
}

fn make_folder(path: &Path) -> Result<(), UnpackError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path);
    made.map_err(|source| UnpackError::Write {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};
    use tar::{Builder, Header};

    use super::*;

    struct Packed(Builder<GzEncoder<Vec<u8>>>);

    impl Packed {
        fn new() -> Self {
            Self(Builder::new(GzEncoder::new(
                Vec::new(),
                Compression::fast(),
            )))
        }

        fn add(mut self, name: &str, kind: EntryType, content: &str) -> Self {
            let mut header = Header::new_ustar();
            // `set_path` would refuse what we want to try.
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

        fn unpack(self, largest: Option<u64>) -> (tempfile::TempDir, Result<(), UnpackError>) {
            let folder = tempfile::tempdir().unwrap();
            let archive = folder.path().join("archive.tar.gz");
            fs::write(&archive, self.0.into_inner().unwrap().finish().unwrap()).unwrap();
            let result = unpack(&archive, &folder.path().join("target"), largest);
            (folder, result)
        }
    }

    #[test]
    fn files_and_folders() {
        let (folder, result) = Packed::new()
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
    fn names_that_lead_outside() {
        for name in ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil"] {
            let (folder, result) = Packed::new()
                .add(name, EntryType::Regular, "x")
                .unpack(None);
            assert!(matches!(result, Err(UnpackError::BadName(_))), "{name}");
            assert!(!folder.path().join("evil").exists());
        }
    }

    #[test]
    fn a_link_is_left_out_and_can_not_be_followed() {
        let outside = tempfile::tempdir().unwrap();
        let place = outside.path().to_str().unwrap();
        let (folder, result) = Packed::new()
            .add("link", EntryType::Symlink, place)
            .add("link/evil", EntryType::Regular, "x")
            .unpack(None);
        result.unwrap();
        assert!(!outside.path().join("evil").exists());
        assert!(folder.path().join("target/link/evil").is_file());
    }

    #[test]
    fn other_kinds_are_refused() {
        for kind in [EntryType::Link, EntryType::Fifo, EntryType::Char] {
            let (_folder, result) = Packed::new().add("x", kind, "").unpack(None);
            assert!(matches!(result, Err(UnpackError::BadKind(_))), "{kind:?}");
        }
    }

    #[test]
    fn the_size_is_limited() {
        let packed = || {
            Packed::new()
                .add("a", EntryType::Regular, &"x".repeat(600))
                .add("b", EntryType::Regular, &"y".repeat(600))
        };
        packed().unpack(Some(1200)).1.unwrap();
        packed().unpack(None).1.unwrap();
        let error = packed().unpack(Some(1024)).1.unwrap_err().to_string();
        assert!(error.contains("bigger than max archive size of 1024 bytes"));
    }

    #[test]
    fn what_is_no_archive() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "not gzip").unwrap();
        let result = unpack(&file, &folder.path().join("target"), None);
        assert!(matches!(result, Err(UnpackError::Read(_))));
    }
}
