//! The folder beside the checkout that holds what is shared between projects.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A folder or file of `../shared`, seen from the checkout.
///
/// Where it is missing, one line says that the test is skipped.
#[must_use]
pub fn shared_folder(path: &str, test: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared")
        .join(path);
    if found.exists() {
        return Some(found);
    }
    // Past the capture of test output: a test that does not run should be seen
    let _ = writeln!(
        io::stderr(),
        "skipped: {test} needs ../shared/{path}, which is not here"
    );
    None
}
