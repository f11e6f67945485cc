//! Files of upstream that are not in this repository.

use std::path::{Path, PathBuf};

use crate::skip;

/// A folder or file of `../shared`, relative to the checkout. If it is missing, the test is
/// skipped.
#[must_use]
pub fn shared_folder(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared")
        .join(path);
    if found.exists() {
        return Some(found);
    }
    skip(format_args!("../shared/{path} is not here"));
    None
}
