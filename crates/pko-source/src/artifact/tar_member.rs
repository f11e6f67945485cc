//! Combines tar headers with the extended headers (GNU long name, pax) before them into members.

use std::{
    io::{self, Read},
    time::SystemTime,
};

use tar::{Entry, EntryType};

use super::{
    ArtifactLimits,
    pax::{self, PaxRecords},
    tar_header::{self, until_zero},
    unpack::UnpackError,
};

#[derive(Debug)]
pub(super) struct TarMember {
    pub(super) name: Vec<u8>,
    pub(super) kind: MemberKind,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: SystemTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberKind {
    File,
    Folder,
    Symlink,
}

/// Extended headers of the next member, and global ones.
#[derive(Debug, Default)]
pub(super) struct ExtendedHeaders {
    long_name: Option<Vec<u8>>,
    long_link: bool,
    records: Option<PaxRecords>,
    modified: Option<SystemTime>,
    read: u64,
}

impl ExtendedHeaders {
    /// Returns the member that starts with this header, or `None` for an extended header.
    pub(super) fn take<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
    ) -> Result<Option<TarMember>, UnpackError> {
        let size =
            tar_header::size(entry.header()).ok_or(UnpackError::Malformed("invalid size"))?;
        match entry.header().entry_type() {
            EntryType::GNULongName => {
                let bytes = self.read(entry, size)?;
                let name = until_zero(&bytes).to_vec();
                // GNU tar reads past the end of an unterminated name.
                if name.len() == bytes.len() {
                    return Err(UnpackError::Malformed("unterminated name"));
                }
                let twice = self.long_name.replace(name).is_some();
                ensure(!twice)?;
            }
            EntryType::GNULongLink => {
                self.read(entry, size)?;
                ensure(!self.long_link)?;
                self.long_link = true;
            }
            EntryType::XHeader => {
                let records = self.read_records(entry, size)?;
                let twice = self.records.replace(records).is_some();
                ensure(!twice)?;
            }
            EntryType::XGlobalHeader => {
                let records = self.read_records(entry, size)?;
                self.take_global(&records)?;
            }
            _ => return self.member(entry, size).map(Some),
        }
        Ok(None)
    }

    /// An extended header must be followed by a member.
    pub(super) fn end(&self) -> Result<(), UnpackError> {
        ensure(self.long_name.is_none() && !self.long_link && self.records.is_none())
    }

    /// Global records apply to all members, so a name or a size in them makes no sense.
    fn take_global(&mut self, records: &PaxRecords) -> Result<(), UnpackError> {
        if records.path.is_some() || records.size.is_some() || records.sparse {
            return Err(UnpackError::Malformed("name or size in a global header"));
        }
        // POSIX keeps values of an earlier global header that a later one lacks. GNU tar drops
        // them.
        if self.modified.is_some() && records.modified.is_none() {
            return Err(UnpackError::Malformed("conflicting global headers"));
        }
        self.modified = records.modified.or(self.modified);
        Ok(())
    }

    fn read_records<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        size: u64,
    ) -> Result<PaxRecords, UnpackError> {
        let bytes = self.read(entry, size)?;
        pax::parse(&bytes).ok_or(UnpackError::Malformed("invalid pax records"))
    }

    fn read<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        size: u64,
    ) -> Result<Vec<u8>, UnpackError> {
        self.read = self.read.saturating_add(size);
        if size > ArtifactLimits::DESCRIPTION || self.read > ArtifactLimits::DESCRIPTIONS {
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

    fn member<R: Read>(
        &mut self,
        entry: &Entry<'_, R>,
        size: u64,
    ) -> Result<TarMember, UnpackError> {
        let header = entry.header();
        let records = self.records.take().unwrap_or_default();
        self.long_link = false;
        let name = match (self.long_name.take(), records.path) {
            (Some(_), Some(_)) => return Err(UnpackError::Malformed("two names of one entry")),
            (Some(name), None) | (None, Some(name)) => name,
            (None, None) => tar_header::name(header),
        };
        let kind = kind(header.entry_type(), &name);
        let kind = kind.filter(|_| !records.sparse);
        let kind = kind.ok_or_else(|| UnpackError::bad_kind(&name))?;
        // Readers disagree about which of two sizes counts, and about data of members that have
        // none. They would find different headers after it.
        let agreed = records.size.is_none_or(|other| other == size);
        if !agreed || (kind != MemberKind::File && size != 0) {
            return Err(UnpackError::Malformed("two sizes of one entry"));
        }
        let modified = records.modified.or(self.modified);
        Ok(TarMember {
            kind,
            size,
            mode: tar_header::mode(header).ok_or(UnpackError::Malformed("invalid mode"))?,
            modified: modified
                .or_else(|| tar_header::modified(header))
                .ok_or(UnpackError::Malformed("invalid time"))?,
            name,
        })
    }
}

fn ensure(good: bool) -> Result<(), UnpackError> {
    let wrong = UnpackError::Malformed("misplaced extended headers");
    if good { Ok(()) } else { Err(wrong) }
}

/// V7 archives have no folder type. A trailing slash marks a folder.
fn kind(header: EntryType, name: &[u8]) -> Option<MemberKind> {
    match header {
        EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => {
            Some(MemberKind::Folder)
        }
        EntryType::Regular | EntryType::Continuous => Some(MemberKind::File),
        EntryType::Directory => Some(MemberKind::Folder),
        EntryType::Symlink => Some(MemberKind::Symlink),
        _ => None,
    }
}
