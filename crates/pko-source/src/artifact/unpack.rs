//! Unpacks a gzipped tar file from an untrusted source.
//!
//! Nothing is written outside of the target, and limits are checked before writing.

use std::{
    fs::{self, DirBuilder, File, FileTimes, Permissions},
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, PermissionsExt},
    },
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

use flate2::read::MultiGzDecoder;
use tar::Archive;

use super::{
    ArtifactLimits,
    tar_member::{ExtendedHeaders, MemberKind, TarMember},
};
use crate::{Deadline, DeadlineExceeded};

/// Upstream creates all folders with this mode. Here it is the minimum, so that the owner can fill
/// and remove them.
const FOLDER_MODE: u32 = 0o750;
const BUFFER: usize = 64 * 1024;
/// Bytes of a member's name that a message may contain.
const MAX_SHOWN_NAME: usize = 200;

#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("failed to read the archive")]
    Read(#[source] io::Error),
    #[error("failed to write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the archive is bigger than max archive size of {0} bytes")]
    TooBig(u64),
    #[error("the archive has more than {0} entries")]
    TooMany(u64),
    #[error("an extended header of the archive is too long")]
    LongDescription,
    #[error(
        "the name of the archive entry `{0}` exceeds {bytes} bytes or {folders} folders",
        bytes = ArtifactLimits::NAME,
        folders = ArtifactLimits::DEPTH
    )]
    LongName(String),
    #[error("the archive entry `{0}` leads out of the target folder")]
    BadName(String),
    #[error("the archive entry `{0}` is neither a file nor a folder")]
    BadKind(String),
    #[error("the archive contains both a file and a folder named `{0}`")]
    Both(String),
    /// Tar readers would unpack this archive differently.
    #[error("the archive is ambiguous ({0}); create it again")]
    Malformed(&'static str),
    #[error("failed to unpack the archive: {0}")]
    Late(#[from] DeadlineExceeded),
}

impl UnpackError {
    pub(super) fn bad_kind(name: &[u8]) -> Self {
        Self::BadKind(sanitize_name(name))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnpackSummary {
    pub entries: u64,
    pub bytes: u64,
    /// Symbolic links, which are skipped.
    pub links: u64,
}

/// Unpacks into a folder that must not exist yet. Like GNU tar, it reads all gzip streams of the
/// file and ignores data after the end of the archive.
pub fn unpack(
    archive: &Path,
    target: &Path,
    limits: &ArtifactLimits,
    deadline: Deadline,
) -> Result<UnpackSummary, UnpackError> {
    let file = File::open(archive).map_err(UnpackError::Read)?;
    make_folders(target).map_err(|source| write_error(target, source))?;
    let mut unpacker = Unpacker {
        target,
        limits,
        deadline,
        unpacked: UnpackSummary::default(),
        buffer: vec![0; BUFFER],
    };
    let mut archive = Archive::new(MultiGzDecoder::new(io::BufReader::new(file)));
    let mut extended_headers = ExtendedHeaders::default();
    for entry in archive.entries().map_err(UnpackError::Read)?.raw(true) {
        let mut entry = entry.map_err(UnpackError::Read)?;
        deadline.remaining()?;
        if let Some(member) = extended_headers.take(&mut entry)? {
            unpacker.add(&member, &mut entry)?;
        }
    }
    extended_headers.end()?;
    Ok(unpacker.unpacked)
}

struct Unpacker<'a> {
    target: &'a Path,
    limits: &'a ArtifactLimits,
    deadline: Deadline,
    unpacked: UnpackSummary,
    buffer: Vec<u8>,
}

impl Unpacker<'_> {
    fn add(&mut self, member: &TarMember, data: &mut impl Read) -> Result<(), UnpackError> {
        self.count(member)?;
        let path = self.target.join(inner_path(&member.name)?);
        match member.kind {
            MemberKind::Folder => self.write_folder(member, &path),
            MemberKind::File if member.name == b"." || member.name.ends_with(b"/.") => {
                Err(UnpackError::BadName(sanitize_name(&member.name)))
            }
            MemberKind::File => self.write_file(member, data, &path),
            MemberKind::Symlink => {
                self.unpacked.links += 1;
                if self.unpacked.links == 1 {
                    let name = sanitize_name(&member.name);
                    tracing::warn!(name, "Symbolic links in the artifact are skipped");
                }
                Ok(())
            }
        }
    }

    fn count(&mut self, member: &TarMember) -> Result<(), UnpackError> {
        self.unpacked.entries += 1;
        if self.unpacked.entries > self.limits.entries {
            return Err(UnpackError::TooMany(self.limits.entries));
        }
        self.unpacked.bytes = self.unpacked.bytes.saturating_add(member.size);
        match self.limits.unpacked {
            Some(largest) if self.unpacked.bytes > largest => Err(UnpackError::TooBig(largest)),
            _ => Ok(()),
        }
    }

    fn write_folder(&self, member: &TarMember, path: &Path) -> Result<(), UnpackError> {
        // The mode of the archive's root is that of the packer's folder.
        if path == self.target {
            return Ok(());
        }
        let mode = Permissions::from_mode(member.mode | FOLDER_MODE);
        make_folders(path)
            .and_then(|()| fs::set_permissions(path, mode))
            .map_err(|source| self.conflict(member, path, source))
    }

    fn write_file(
        &mut self,
        member: &TarMember,
        data: &mut impl Read,
        path: &Path,
    ) -> Result<(), UnpackError> {
        let mut file = create(path).map_err(|source| self.conflict(member, path, source))?;
        self.copy(member.size, data, &mut file, path)?;
        let modified = member.modified.min(SystemTime::now());
        file.set_permissions(Permissions::from_mode(member.mode))
            .and_then(|()| file.set_times(FileTimes::new().set_modified(modified)))
            .map_err(|source| write_error(path, source))
    }

    fn copy(
        &mut self,
        size: u64,
        data: &mut impl Read,
        file: &mut File,
        path: &Path,
    ) -> Result<(), UnpackError> {
        let mut left = size;
        while left > 0 {
            self.deadline.remaining()?;
            let count = data.read(&mut self.buffer).map_err(UnpackError::Read)?;
            let bytes = self.buffer.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                let end = io::ErrorKind::UnexpectedEof;
                return Err(UnpackError::Read(end.into()));
            }
            file.write_all(bytes)
                .map_err(|source| write_error(path, source))?;
            left = left.saturating_sub(count as u64);
        }
        Ok(())
    }

    /// Distinguishes a conflict between members from an error of the file system.
    fn conflict(&self, member: &TarMember, path: &Path, source: io::Error) -> UnpackError {
        let wanted = member.kind == MemberKind::Folder;
        let above = path.ancestors().skip(usize::from(!wanted));
        let mut above = above.take_while(|folder| *folder != self.target);
        if above.any(Path::is_file) || (!wanted && path.is_dir()) {
            return UnpackError::Both(sanitize_name(&member.name));
        }
        write_error(path, source)
    }
}

/// Creates a file. The last of several members with the same name wins.
fn create(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), make_folders)?;
            File::create_new(path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            File::create_new(path)
        }
        outcome => outcome,
    }
}

fn make_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path)
}

/// The path below the target. No links are created, so checking its components is sufficient.
fn inner_path(name: &[u8]) -> Result<PathBuf, UnpackError> {
    let bad = || UnpackError::BadName(sanitize_name(name));
    if name.is_empty() || name.contains(&b'\\') || name.contains(&0) {
        return Err(bad());
    }
    let mut path = PathBuf::new();
    let mut depth = 0;
    for component in Path::new(std::ffi::OsStr::from_bytes(name)).components() {
        match component {
            Component::Normal(part) => {
                path.push(part);
                depth += 1;
            }
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(bad()),
        }
    }
    if name.len() > ArtifactLimits::NAME || depth > ArtifactLimits::DEPTH {
        return Err(UnpackError::LongName(sanitize_name(name)));
    }
    Ok(path)
}

fn write_error(path: &Path, source: io::Error) -> UnpackError {
    UnpackError::Write {
        path: path.to_owned(),
        source,
    }
}

fn sanitize_name(name: &[u8]) -> String {
    let start = name.get(..MAX_SHOWN_NAME).unwrap_or(name);
    String::from_utf8_lossy(start).escape_debug().to_string()
}

#[cfg(test)]
mod tests;
