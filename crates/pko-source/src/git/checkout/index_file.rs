//! Writes git's index (version 2) with the stat data of each file, so that `git status` reports no
//! changes.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use super::plan::PlannedEntry;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stat {
    pub(super) changed: (u32, u32),
    pub(super) modified: (u32, u32),
    pub(super) device: u32,
    pub(super) inode: u32,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) size: u32,
}

/// The length field has 12 bits. Longer names are found by their terminating zero.
const LONGEST_LENGTH: usize = 0xfff;

/// Writes an index. The entries must be sorted by path.
pub(super) fn write(
    path: &Path,
    entries: &[PlannedEntry],
    stats: &[Stat],
    hash: gix_hash::Kind,
) -> io::Result<()> {
    let mut file = HashingWriter {
        writer: BufWriter::with_capacity(64 << 10, File::create_new(path)?),
        hasher: gix_hash::hasher(hash),
    };
    let count = u32::try_from(entries.len()).map_err(io::Error::other)?;
    file.write_all(b"DIRC")?;
    file.write_all(&2_u32.to_be_bytes())?;
    file.write_all(&count.to_be_bytes())?;
    for (entry, stat) in entries.iter().zip(stats) {
        file.write_all(&encode_entry(entry, stat))?;
    }
    let HashingWriter { mut writer, hasher } = file;
    let checksum = hasher.try_finalize().map_err(io::Error::other)?;
    writer.write_all(checksum.as_bytes())?;
    writer.flush()
}

fn encode_entry(entry: &PlannedEntry, stat: &Stat) -> Vec<u8> {
    let numbers = [
        stat.changed.0,
        stat.changed.1,
        stat.modified.0,
        stat.modified.1,
        stat.device,
        stat.inode,
        entry.kind.mode(),
        stat.user,
        stat.group,
        stat.size,
    ];
    let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u32::to_be_bytes).collect();
    bytes.extend_from_slice(entry.id.as_bytes());
    let length = u16::try_from(entry.path.len().min(LONGEST_LENGTH)).unwrap_or_default();
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&entry.path);
    // Entries are padded with one to eight zeros to a multiple of eight.
    bytes.resize((bytes.len() / 8 + 1) * 8, 0);
    bytes
}

struct HashingWriter<W> {
    writer: W,
    hasher: gix_hash::Hasher,
}

impl<W: Write> HashingWriter<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.writer.write_all(bytes)
    }
}
