//! Programs that some tests need and others install, such as emulators of clouds.

use std::env;
use std::path::PathBuf;

use crate::components::cache_folder;

/// A program: the one that an environment variable names, the one in the cache that `cargo xtask
/// test` fills, or the one on the `PATH`.
#[must_use]
pub fn find_tool(variable: &str, cached: &str, name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join(name));
    let named = env::var_os(variable).map(PathBuf::from);
    let in_cache = cache_folder().ok().map(|cache| cache.join(cached));
    let mut candidates = named.into_iter().chain(in_cache).chain(on_path);
    candidates.find(|candidate| candidate.is_file())
}

/// The emulator of S3.
#[must_use]
pub fn find_moto_server() -> Option<PathBuf> {
    find_tool("PKO_MOTO_SERVER", "moto/bin/moto_server", "moto_server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_tool_searches_the_path() {
        let found = find_tool("PKO_NO_SUCH_VARIABLE", "no/such/file", "sh").unwrap();
        assert!(found.is_absolute() && found.ends_with("sh"), "{found:?}");
        assert_eq!(
            find_tool("PKO_NO_SUCH_VARIABLE", "no/such/file", "no-such-tool"),
            None
        );
    }
}
