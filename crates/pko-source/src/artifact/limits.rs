//! How much of an artifact is too much.

/// What an artifact may have at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of the archive as it is downloaded
    pub download: Option<u64>,
    /// The bytes of all files in it
    pub unpacked: Option<u64>,
    /// Files, folders and whatever else is in it
    pub entries: u64,
}

impl Limits {
    /// Upstream's limit of what is unpacked, 100 MiB.
    pub const UNPACKED: u64 = 100 << 20;
    /// More than the largest repositories have.
    pub const ENTRIES: u64 = 1_000_000;
    /// The bytes of one name, which with the folder around it must be a path that the system takes.
    pub const NAME: usize = 2048;
    /// Folders in folders.
    pub const DEPTH: usize = 256;
    /// The bytes that describe one entry: its name and its attributes.
    pub(super) const DESCRIPTION: u64 = 1 << 20;
    /// The bytes that describe all entries.
    pub(super) const DESCRIPTIONS: u64 = 256 << 20;
    /// What is packed is smaller than what is in it, except for headers and what can't be packed.
    const PACKED_MORE: u64 = 64 << 20;

    /// For so many bytes of files; nothing for any number.
    #[must_use]
    pub fn of_unpacked(unpacked: Option<u64>) -> Self {
        Self {
            download: unpacked.map(|bytes| bytes.saturating_add(Self::PACKED_MORE)),
            unpacked,
            entries: Self::ENTRIES,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::of_unpacked(Some(Self::UNPACKED))
    }
}
