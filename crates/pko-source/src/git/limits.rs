//! How much we take from a server.

/// How much we take from a server before we call it hostile. The defaults leave room for large
/// repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// References that are kept: those that someone asked for
    pub references: usize,
    /// Bytes of a list of references, most of which may be unwanted
    pub reference_bytes: u64,
    /// Bytes of a pack, as it comes over the wire
    pub pack_bytes: u64,
    /// Bytes of any one object, which is in memory for a moment
    pub object_bytes: u64,
    /// Files and folders of one commit, its submodules included
    pub entries: u64,
    /// Bytes of all files of one commit, its submodules included
    pub checkout_bytes: u64,
    /// Submodules within submodules
    pub submodule_depth: u32,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            references: 500_000,
            reference_bytes: 512 * MIB,
            pack_bytes: 4096 * MIB,
            object_bytes: 512 * MIB,
            entries: 1_000_000,
            checkout_bytes: 16 * 1024 * MIB,
            submodule_depth: 5,
        }
    }
}
