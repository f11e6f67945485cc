//! The checkout, cargo in it, and the folders that cargo builds into.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The checkout that this library was built from.
#[must_use]
pub fn checkout() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}

/// Cargo, run in the checkout. It does not inherit the variables that `cargo run` sets for this
/// process: build scripts depend on some of them and would run again.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(checkout());
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Cargo's target folder: two levels above this executable.
pub fn target_folder() -> io::Result<PathBuf> {
    ancestor_of_executable(2)
}

/// The folder of our executables: that of this one.
pub fn programs_folder() -> io::Result<PathBuf> {
    ancestor_of_executable(1)
}

fn ancestor_of_executable(levels: usize) -> io::Result<PathBuf> {
    let executable = env::current_exe()?;
    let folder = executable.ancestors().nth(levels).map(Path::to_owned);
    folder.ok_or_else(|| io::Error::other("the executable is in no folder"))
}
