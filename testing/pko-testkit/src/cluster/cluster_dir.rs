//! The folder of a cluster, below the cache folder.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::ClusterError;
use crate::components::cache_folder;

/// The node has its own view of these, so a cluster can't be kept there.
pub(super) const HIDDEN: [&str; 4] = ["/run", "/var/run", "/var/lib", "/var/log"];
/// How the kernel marks file systems that are laid over others.
const OVERLAY: rustix::fs::FsWord = 0x794c_7630;
const LONGEST_NAME: usize = 20;

/// The folder of a cluster, and its file names.
#[derive(Clone, Debug)]
pub(super) struct ClusterDir {
    name: String,
    folder: PathBuf,
}

impl ClusterDir {
    /// The folder of a cluster, which need not exist.
    pub(super) fn of(name: &str) -> Result<Self, ClusterError> {
        Self::within(&cache_folder()?, name)
    }

    fn within(cache: &Path, name: &str) -> Result<Self, ClusterError> {
        let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        let sound = name.starts_with(allowed)
            && name.ends_with(allowed)
            && name.chars().all(|letter| allowed(letter) || letter == '-')
            && name.len() <= LONGEST_NAME;
        if !sound {
            return Err(ClusterError::Name(name.to_owned()));
        }
        if HIDDEN.iter().any(|hidden| cache.starts_with(hidden)) {
            return Err(ClusterError::HiddenCache(cache.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            folder: cache.join("cluster").join(name),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// A path as text.
    pub(super) fn text(&self, file: &str) -> String {
        self.path(file).display().to_string()
    }

    pub(super) fn log(&self, component: &str) -> PathBuf {
        self.path(&format!("{component}.log"))
    }

    pub(super) fn write(
        &self,
        file: &str,
        content: impl AsRef<[u8]>,
    ) -> Result<PathBuf, ClusterError> {
        let path = self.path(file);
        attempt("write", &path, |path| fs::write(path, content))?;
        Ok(path)
    }

    /// True if overlayfs can be used here. It can't be stacked on itself, so not in a container.
    pub(super) fn takes_layers(&self) -> bool {
        let file_system = rustix::fs::statfs(&self.folder);
        file_system.is_ok_and(|found| found.f_type != OVERLAY)
    }

    /// Waits until no other process brings this cluster up or down.
    pub(super) fn lock(&self) -> Result<ClusterLock, ClusterError> {
        if let Some(parent) = self.folder.parent() {
            attempt("create", parent, |path| fs::create_dir_all(path))?;
        }
        let path = self.folder.with_extension("lock");
        loop {
            let file = attempt("open", &path, |path| File::create(path))?;
            attempt("lock", &path, |_| file.lock())?;
            // Who held it before may have removed it: then others lock another file by this name
            let held = attempt("read", &path, |_| file.metadata())?;
            if fs::metadata(&path).is_ok_and(|there| there.ino() == held.ino()) {
                return Ok(ClusterLock { path, _file: file });
            }
        }
    }
}

/// Ends with its file handle, and so with the process.
pub(super) struct ClusterLock {
    path: PathBuf,
    _file: File,
}

impl ClusterLock {
    /// Releases the lock and removes its file.
    pub(super) fn remove(self) {
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            // Only if no other cluster is there
            let _ = fs::remove_dir(folder);
        }
    }
}

pub(super) fn attempt<T>(
    action: &'static str,
    path: &Path,
    operation: impl FnOnce(&Path) -> std::io::Result<T>,
) -> Result<T, ClusterError> {
    operation(path).map_err(|source| ClusterError::File {
        action,
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_name_must_be_a_host_label() {
        let cache = Path::new("/cache");
        let dir = ClusterDir::within(cache, "e2e-1").unwrap();
        assert_eq!(dir.folder(), Path::new("/cache/cluster/e2e-1"));
        for name in [
            "",
            "-a",
            "a-",
            "A",
            "a/b",
            "..",
            "a name",
            "a-name-that-is-too-long",
        ] {
            assert!(ClusterDir::within(cache, name).is_err(), "{name}");
        }
    }

    #[test]
    fn cache_hidden_from_node_is_rejected() {
        let error = ClusterDir::within(Path::new("/var/lib/pko"), "a").unwrap_err();
        assert!(matches!(error, ClusterError::HiddenCache(_)));
    }
}
