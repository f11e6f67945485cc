//! Size limits for artifacts.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactLimits {
    /// Compressed bytes.
    pub download: Option<u64>,
    /// Bytes of all files in the archive.
    pub unpacked: Option<u64>,
    /// Members of the archive: files, folders and links.
    pub entries: u64,
}

impl ArtifactLimits {
    /// 100 MiB, as upstream.
    pub const UNPACKED: u64 = 100 << 20;
    pub const ENTRIES: u64 = 1_000_000;
    /// Bytes of a member's name. The full path must stay below `PATH_MAX`.
    pub const NAME: usize = 2048;
    pub const DEPTH: usize = 256;
    /// Bytes of the extended headers (GNU long name, pax) of one member.
    pub(super) const DESCRIPTION: u64 = 1 << 20;
    /// Bytes of all extended headers of an archive.
    pub(super) const DESCRIPTIONS: u64 = 256 << 20;
    /// Allowance for tar headers and incompressible data.
    const PACKED_MORE: u64 = 64 << 20;

    /// Limits for this many unpacked bytes; `None` is unlimited.
    #[must_use]
    pub fn for_unpacked(unpacked: Option<u64>) -> Self {
        Self {
            download: unpacked.map(|bytes| bytes.saturating_add(Self::PACKED_MORE)),
            unpacked,
            entries: Self::ENTRIES,
        }
    }
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self::for_unpacked(Some(Self::UNPACKED))
    }
}
