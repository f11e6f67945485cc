//! Unpacks a gzipped tar file from somebody that is not trusted: nothing is written outside of the
//! target, and no more than allowed.

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
    Limits,
    member::{Descriptions, Kind, Member},
};
use crate::{Deadline, DeadlineExceeded};

/// Upstream's for all folders: here what those have at least, so that whoever unpacks them can fill and
/// remove them, and whoever reads them there can here.
const FOLDER_MODE: u32 = 0o750;
const BUFFER: usize = 64 * 1024;
/// Of a name in a message.
const SHOWN: usize = 200;

/// An archive that is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is no archive, or it is cut off or damaged.
    #[error("failed to read the archive")]
    Read(#[source] io::Error),
    /// The system does not take it.
    #[error("failed to write {}", path.display())]
    Write {
        /// What was to be written
        path: PathBuf,
        /// Why not
        source: io::Error,
    },
    /// Its files have too many bytes.
    #[error("the archive is bigger than max archive size of {0} bytes")]
    TooBig(u64),
    /// It has too many entries.
    #[error("the archive has more than {0} entries")]
    TooMany(u64),
    /// What describes entries is too long.
    #[error("the archive has too long a description of an entry")]
    LongDescription,
    /// A name is too long, or too deep.
    #[error(
        "the archive has an entry `{0}` whose name is longer than {bytes} bytes or {folders} folders",
        bytes = Limits::NAME,
        folders = Limits::DEPTH
    )]
    LongName(String),
    /// A name leads out of the target, or nowhere.
    #[error("the archive has an entry with the name `{0}`, which leads outside of it")]
    BadName(String),
    /// Links, devices and the like.
    #[error("the archive has an entry `{0}` that is neither a file nor a folder")]
    BadKind(String),
    /// A name is both a file's and a folder's.
    #[error("the archive has both a file and a folder with the name `{0}`")]
    Both(String),
    /// One reader would see other files than another.
    #[error("the archive has {0} that readers understand differently; pack it anew")]
    Malformed(&'static str),
    /// There is too much of it for the time there is.
    #[error("failed to unpack the archive: {0}")]
    Late(#[from] DeadlineExceeded),
}

impl UnpackError {
    pub(super) fn bad_kind(name: &[u8]) -> Self {
        Self::BadKind(shown(name))
    }
}

/// What was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unpacked {
    /// Files, folders and links
    pub entries: u64,
    /// The bytes of all files
    pub bytes: u64,
    /// Symbolic links, which are left out
    pub links: u64,
}

/// Unpacks into a folder that must not exist yet. All members of a file of several gzip streams are read,
/// and nothing after the archive's end, as GNU tar does.
pub fn unpack(
    archive: &Path,
    target: &Path,
    limits: &Limits,
    deadline: Deadline,
) -> Result<Unpacked, UnpackError> {
    let file = File::open(archive).map_err(UnpackError::Read)?;
    make_folders(target).map_err(|source| write_error(target, source))?;
    let mut unpacker = Unpacker {
        target,
        limits,
        deadline,
        unpacked: Unpacked::default(),
        buffer: vec![0; BUFFER],
    };
    let mut archive = Archive::new(MultiGzDecoder::new(io::BufReader::new(file)));
    let mut descriptions = Descriptions::default();
    for entry in archive.entries().map_err(UnpackError::Read)?.raw(true) {
        let mut entry = entry.map_err(UnpackError::Read)?;
        deadline.remaining()?;
        if let Some(member) = descriptions.take(&mut entry)? {
            unpacker.add(&member, &mut entry)?;
        }
    }
    descriptions.end()?;
    Ok(unpacker.unpacked)
}

struct Unpacker<'a> {
    target: &'a Path,
    limits: &'a Limits,
    deadline: Deadline,
    unpacked: Unpacked,
    buffer: Vec<u8>,
}

impl Unpacker<'_> {
    fn add(&mut self, member: &Member, data: &mut impl Read) -> Result<(), UnpackError> {
        self.count(member)?;
        let path = self.target.join(inner_path(&member.name)?);
        match member.kind {
            Kind::Folder => self.write_folder(member, &path),
            Kind::File if member.name == b"." || member.name.ends_with(b"/.") => {
                Err(UnpackError::BadName(shown(&member.name)))
            }
            Kind::File => self.write_file(member, data, &path),
            Kind::Symlink => {
                self.unpacked.links += 1;
                if self.unpacked.links == 1 {
                    let name = shown(&member.name);
                    tracing::warn!(name, "Symbolic links in the artifact are left out");
                }
                Ok(())
            }
        }
    }

    /// Before anything is written.
    fn count(&mut self, member: &Member) -> Result<(), UnpackError> {
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

    fn write_folder(&self, member: &Member, path: &Path) -> Result<(), UnpackError> {
        // Of the source itself the archive says nothing of use: it is a folder of whoever packed it.
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
        member: &Member,
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

    /// Whether the system refuses because of what else is in the archive.
    fn conflict(&self, member: &Member, path: &Path, source: io::Error) -> UnpackError {
        let wanted = member.kind == Kind::Folder;
        let above = path.ancestors().skip(usize::from(!wanted));
        let mut above = above.take_while(|folder| *folder != self.target);
        if above.any(Path::is_file) || (!wanted && path.is_dir()) {
            return UnpackError::Both(shown(&member.name));
        }
        write_error(path, source)
    }
}

/// A new file; of two with the same name, the last one counts, with its own mode.
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

/// The path, if it stays inside. Since no links are made, its parts are what they seem.
fn inner_path(name: &[u8]) -> Result<PathBuf, UnpackError> {
    let bad = || UnpackError::BadName(shown(name));
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
    if name.len() > Limits::NAME || depth > Limits::DEPTH {
        return Err(UnpackError::LongName(shown(name)));
    }
    Ok(path)
}

fn write_error(path: &Path, source: io::Error) -> UnpackError {
    UnpackError::Write {
        path: path.to_owned(),
        source,
    }
}

/// As much of a name as a message can bear.
fn shown(name: &[u8]) -> String {
    let start = name.get(..SHOWN).unwrap_or(name);
    String::from_utf8_lossy(start).escape_debug().to_string()
}

#[cfg(test)]
mod tests;
