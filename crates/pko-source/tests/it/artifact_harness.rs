//! Builds archives, including invalid ones, and reads unpacked trees.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use pko_source::{
    Deadline,
    artifact::{ArtifactLimits, UnpackError, UnpackSummary, unpack},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Magic {
    V7,
    Ustar,
    Gnu,
}

/// A header and its data, unchecked.
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: u8,
    pub(crate) mode: u32,
    /// The header's size field. The data may have another size.
    pub(crate) size: Vec<u8>,
    pub(crate) magic: Magic,
    pub(crate) prefix: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, magic, .. } = self;
        let kind = self.kind.escape_ascii();
        write!(formatter, "{magic:?} {kind} {mode:o}")?;
        for (name, bytes) in [
            ("name", &self.name),
            ("size", &self.size),
            ("prefix", &self.prefix),
            ("data", &self.data),
        ] {
            write!(formatter, " {name} \"{}\"", bytes.escape_ascii())?;
        }
        Ok(())
    }
}

impl Block {
    pub(crate) fn new(kind: u8, name: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Self {
        let data = data.as_ref().to_vec();
        Self {
            name: name.as_ref().to_vec(),
            kind,
            mode: 0o644,
            size: octal(data.len()),
            magic: Magic::Ustar,
            prefix: Vec::new(),
            link: Vec::new(),
            data,
        }
    }

    pub(crate) fn file(name: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Self {
        Self::new(b'0', name, data)
    }

    pub(crate) fn folder(name: impl AsRef<[u8]>) -> Self {
        let mut block = Self::new(b'5', name, "");
        block.mode = 0o755;
        block
    }

    /// Pax records for the next header.
    pub(crate) fn records(records: &[(&str, &[u8])]) -> Self {
        Self::new(b'x', "PaxHeaders/x", pax(records))
    }

    /// GNU's long name for the next header.
    pub(crate) fn long_name(name: impl AsRef<[u8]>) -> Self {
        let mut block = Self::new(b'L', "././@LongLink", [name.as_ref(), b"\0"].concat());
        block.magic = Magic::Gnu;
        block
    }

    pub(crate) fn with_size(mut self, size: &[u8]) -> Self {
        self.size = size.to_vec();
        self
    }

    pub(crate) fn with_mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut header = [0_u8; 512];
        let mut put = |at: usize, room: usize, bytes: &[u8]| {
            let count = bytes.len().min(room);
            header[at..at + count].copy_from_slice(&bytes[..count]);
        };
        put(0, 100, &self.name);
        put(100, 8, format!("{:07o}\0", self.mode).as_bytes());
        put(108, 8, b"0000000\0");
        put(116, 8, b"0000000\0");
        put(124, 12, &self.size);
        put(136, 12, b"07346545000\0");
        put(148, 8, b"        ");
        put(156, 1, &[self.kind]);
        put(157, 100, &self.link);
        match self.magic {
            Magic::V7 => {}
            Magic::Ustar => put(257, 8, b"ustar\x0000"),
            Magic::Gnu => put(257, 8, b"ustar  \0"),
        }
        put(345, 155, &self.prefix);
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut bytes = header.to_vec();
        bytes.extend(&self.data);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }
}

pub(crate) fn octal(number: usize) -> Vec<u8> {
    format!("{number:011o}\0").into_bytes()
}

pub(crate) fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in records {
        let bare = key.len() + value.len() + 3;
        let length = (bare..bare + 9).find(|length| bare + length.to_string().len() == *length);
        bytes.extend(format!("{} {key}=", length.unwrap()).bytes());
        bytes.extend(*value);
        bytes.push(b'\n');
    }
    bytes
}

/// The blocks and the end marker.
pub(crate) fn tar(blocks: &[Block]) -> Vec<u8> {
    let mut bytes: Vec<u8> = blocks.iter().flat_map(Block::bytes).collect();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A temporary folder to unpack into.
pub(crate) struct UnpackDirectory {
    folder: tempfile::TempDir,
}

impl UnpackDirectory {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn target(&self) -> PathBuf {
        self.path("target")
    }

    /// Unpacks, and asserts that nothing was written next to the target.
    pub(crate) fn unpack(
        &self,
        packed: &[u8],
        limits: &ArtifactLimits,
    ) -> Result<UnpackSummary, UnpackError> {
        fs::write(self.path("archive"), packed).unwrap();
        let deadline = Deadline::after(Duration::from_mins(10));
        let outcome = unpack(&self.path("archive"), &self.target(), limits, deadline);
        let mut names: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| name != "archive" && name != "target" && !name.starts_with("gnu"));
        assert_eq!(names, Vec::<String>::new());
        outcome
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Folder,
    File {
        content: Vec<u8>,
        mode: u32,
        modified: i64,
    },
    Other,
}

pub(crate) fn tree(folder: &Path) -> BTreeMap<Vec<u8>, Node> {
    let mut nodes = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(&current).unwrap() {
            let path = entry.unwrap().path();
            let data = path.symlink_metadata().unwrap();
            let node = if data.is_dir() {
                folders.push(path.clone());
                Node::Folder
            } else if data.is_file() {
                Node::File {
                    content: fs::read(&path).unwrap(),
                    mode: data.mode() & 0o777,
                    modified: data.mtime(),
                }
            } else {
                Node::Other
            };
            let name = path.strip_prefix(folder).unwrap();
            nodes.insert(name.as_os_str().as_bytes().to_vec(), node);
        }
    }
    nodes
}
