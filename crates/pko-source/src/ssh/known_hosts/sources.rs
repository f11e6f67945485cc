//! Loads known hosts from the git auth Secret, files and the built-in keys.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use super::{KnownHosts, KnownHostsLocation, KnownHostsProblem, MAX_TEXT_BYTES};

const SECRET: &str = "knownHosts in the git auth Secret";
const SYSTEM: &str = "/etc/ssh/ssh_known_hosts";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownHostsFiles {
    /// `SSH_KNOWN_HOSTS`: colon-separated files that replace the default ones.
    pub variable: Option<OsString>,
    /// The folder with `.ssh/known_hosts`.
    pub home: Option<PathBuf>,
    pub system: bool,
}

impl KnownHostsFiles {
    #[must_use]
    pub fn from_environment() -> Self {
        Self {
            variable: env::var_os("SSH_KNOWN_HOSTS"),
            home: env::home_dir(),
            system: true,
        }
    }

    /// The files, and whether the user configured them.
    fn paths(&self) -> Vec<(PathBuf, bool)> {
        let variable = self.variable.as_deref().filter(|value| !value.is_empty());
        if let Some(list) = variable {
            let paths = env::split_paths(list);
            let named = paths.filter(|path| path.as_os_str() != OsStr::new(""));
            return named.map(|path| (path, true)).collect();
        }
        let home = self.home.as_deref();
        let home = home.map(|home| home.join(".ssh").join("known_hosts"));
        let system = self.system.then(|| PathBuf::from(SYSTEM));
        let usual = home.into_iter().chain(system);
        usual.map(|path| (path, false)).collect()
    }
}

impl KnownHosts {
    /// Loads all layers. An unreadable file is a warning: its servers are then unknown.
    #[must_use]
    pub fn load(secret: Option<&str>, files: &KnownHostsFiles) -> Self {
        let mut hosts = Self::empty();
        if let Some(text) = secret {
            hosts = hosts.with_text(SECRET, text);
        }
        let mut layer = Vec::new();
        for (path, named) in files.paths() {
            let source = path.display().to_string();
            match read_limited(&path) {
                Ok(text) => {
                    let entries = hosts.read(&source, &text);
                    layer.extend(entries);
                }
                Err(ErrorKind::NotFound) if !named => {}
                Err(kind) => {
                    let location = KnownHostsLocation { source, line: None };
                    hosts.warn(location, KnownHostsProblem::Unreadable(kind));
                }
            }
        }
        hosts.layers.push(layer);
        hosts.layers.extend(Self::built_in().layers);
        hosts
    }
}

/// Reads one byte more than allowed, so that a longer file is noticed.
fn read_limited(path: &Path) -> Result<String, ErrorKind> {
    let file = File::open(path).map_err(|error| error.kind())?;
    let metadata = file.metadata().map_err(|error| error.kind())?;
    if !metadata.is_file() {
        return Err(ErrorKind::InvalidInput);
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_TEXT_BYTES).unwrap_or(u64::MAX) + 1;
    let read = file.take(limit).read_to_end(&mut bytes);
    read.map_err(|error| error.kind())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
