//! Limits on the data of a git server.

/// The defaults leave room for large repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GitLimits {
    /// References that match the request.
    pub references: usize,
    /// Bytes of a list of references, most of which may not match.
    pub reference_bytes: u64,
    /// Compressed bytes.
    pub pack_bytes: u64,
    /// Each object is in memory for a moment.
    pub object_bytes: u64,
    /// Files and folders of a commit and its submodules.
    pub entries: u64,
    /// Bytes of all files of a commit and its submodules.
    pub checkout_bytes: u64,
    pub submodule_depth: u32,
}

impl Default for GitLimits {
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
