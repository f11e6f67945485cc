//! What an archive's headers mean: which of them are files and folders, and which describe the next one.
//!
//! The `tar` crate takes the archive apart into headers and data. What the headers mean is decided here:
//! the crate's own reading takes descriptions of any length into memory, and differs from GNU tar's where
//! there are several or they have lines.

use std::{
    io::{self, Read},
    time::SystemTime,
};

use tar::{Entry, EntryType};

use super::{
    Limits,
    header::{self, until_zero},
    pax::{self, Records},
    unpack::UnpackError,
};

/// A file, a folder or a link.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: SystemTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Symlink,
}

/// What was said of the next member, and of all.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    long_name: Option<Vec<u8>>,
    long_link: bool,
    records: Option<Records>,
    modified: Option<SystemTime>,
    read: u64,
}

impl Descriptions {
    /// The member that begins with this header; nothing if the header only describes the next one.
    pub(super) fn take<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
    ) -> Result<Option<Member>, UnpackError> {
        let size = header::size(entry.header()).ok_or(UnpackError::Malformed("a size"))?;
        match entry.header().entry_type() {
            EntryType::GNULongName => {
                let bytes = self.read(entry, size)?;
                let name = until_zero(&bytes).to_vec();
                // Where there is no zero, GNU tar reads on.
                if name.len() == bytes.len() {
                    return Err(UnpackError::Malformed("a name without an end"));
                }
                let twice = self.long_name.replace(name).is_some();
                once(!twice)?;
            }
            EntryType::GNULongLink => {
                self.read(entry, size)?;
                once(!self.long_link)?;
                self.long_link = true;
            }
            EntryType::XHeader => {
                let records = self.read_records(entry, size)?;
                let twice = self.records.replace(records).is_some();
                once(!twice)?;
            }
            EntryType::XGlobalHeader => {
                let records = self.read_records(entry, size)?;
                self.take_global(&records)?;
            }
            _ => return self.member(entry, size).map(Some),
        }
        Ok(None)
    }

    /// After the last member nothing may be left.
    pub(super) fn end(&self) -> Result<(), UnpackError> {
        once(self.long_name.is_none() && !self.long_link && self.records.is_none())
    }

    /// What all members have in common; a name or a size is nothing of that kind.
    fn take_global(&mut self, records: &Records) -> Result<(), UnpackError> {
        if records.path.is_some() || records.size.is_some() || records.sparse {
            return Err(UnpackError::Malformed("a description of all entries"));
        }
        // POSIX keeps what an earlier description has and a later one lacks; GNU tar forgets it.
        if self.modified.is_some() && records.modified.is_none() {
            return Err(UnpackError::Malformed("two descriptions of all entries"));
        }
        self.modified = records.modified.or(self.modified);
        Ok(())
    }

    fn read_records<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        size: u64,
    ) -> Result<Records, UnpackError> {
        let bytes = self.read(entry, size)?;
        pax::parse(&bytes).ok_or(UnpackError::Malformed("a description"))
    }

    fn read<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        size: u64,
    ) -> Result<Vec<u8>, UnpackError> {
        self.read = self.read.saturating_add(size);
        if size > Limits::DESCRIPTION || self.read > Limits::DESCRIPTIONS {
            return Err(UnpackError::LongDescription);
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(UnpackError::Read)?;
        if bytes.len() as u64 != size {
            let end = io::ErrorKind::UnexpectedEof;
            return Err(UnpackError::Read(end.into()));
        }
        Ok(bytes)
    }

    fn member<R: Read>(&mut self, entry: &Entry<'_, R>, size: u64) -> Result<Member, UnpackError> {
        let header = entry.header();
        let records = self.records.take().unwrap_or_default();
        self.long_link = false;
        let name = match (self.long_name.take(), records.path) {
            (Some(_), Some(_)) => return Err(UnpackError::Malformed("two names of one entry")),
            (Some(name), None) | (None, Some(name)) => name,
            (None, None) => header::name(header),
        };
        let kind = kind(header.entry_type(), &name);
        let kind = kind.filter(|_| !records.sparse);
        let kind = kind.ok_or_else(|| UnpackError::bad_kind(&name))?;
        // Readers differ in which of two sizes they believe, and in whether there is data where none
        // belongs: what comes next would be another header to each of them.
        let agreed = records.size.is_none_or(|other| other == size);
        if !agreed || (kind != Kind::File && size != 0) {
            return Err(UnpackError::Malformed("two sizes of one entry"));
        }
        let modified = records.modified.or(self.modified);
        Ok(Member {
            kind,
            size,
            mode: header::mode(header).ok_or(UnpackError::Malformed("a mode"))?,
            modified: modified
                .or_else(|| header::modified(header))
                .ok_or(UnpackError::Malformed("a time"))?,
            name,
        })
    }
}

fn once(good: bool) -> Result<(), UnpackError> {
    let wrong = UnpackError::Malformed("descriptions without an entry, or several of one");
    if good { Ok(()) } else { Err(wrong) }
}

/// The first archives had no type for folders, but a slash at the end of their names.
fn kind(header: EntryType, name: &[u8]) -> Option<Kind> {
    match header {
        EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => Some(Kind::Folder),
        EntryType::Regular | EntryType::Continuous => Some(Kind::File),
        EntryType::Directory => Some(Kind::Folder),
        EntryType::Symlink => Some(Kind::Symlink),
        _ => None,
    }
}
