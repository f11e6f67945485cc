//! Where lists of known servers come from. The only part that reads files.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use super::{KnownHosts, LONGEST_TEXT, Place, Problem};

/// What the text of the Secret is called in messages.
const SECRET: &str = "knownHosts in the git auth Secret";
/// For all users of a machine.
const SYSTEM: &str = "/etc/ssh/ssh_known_hosts";

/// The files that may have lists of known servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    /// `SSH_KNOWN_HOSTS`: the files, with colons between; takes the place of all others
    pub variable: Option<OsString>,
    /// The folder that may have `.ssh/known_hosts`
    pub home: Option<PathBuf>,
    /// Whether `/etc/ssh/ssh_known_hosts` counts
    pub system: bool,
}

impl Files {
    /// Those of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            variable: env::var_os("SSH_KNOWN_HOSTS"),
            home: env::home_dir(),
            system: true,
        }
    }

    /// Each file, and whether somebody asked for it by name.
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
    /// All sources in their order: the text of the git auth Secret, files, the big forges. A file that can't be
    /// read is a warning, as its servers are unknown then and nothing worse.
    #[must_use]
    pub fn load(secret: Option<&str>, files: &Files) -> Self {
        let mut hosts = Self::none();
        if let Some(text) = secret {
            hosts = hosts.with_text(SECRET, text);
        }
        let mut layer = Vec::new();
        for (path, named) in files.paths() {
            let source = path.display().to_string();
            match read_bounded(&path) {
                Ok(text) => {
                    let entries = hosts.read(&source, &text);
                    layer.extend(entries);
                }
                Err(ErrorKind::NotFound) if !named => {}
                Err(kind) => {
                    let place = Place { source, line: None };
                    hosts.warn(place, Problem::Unreadable(kind));
                }
            }
        }
        hosts.layers.push(layer);
        hosts.layers.extend(Self::built_in().layers);
        hosts
    }
}

/// One byte more than is allowed is read, so that a text that is too long is seen to be.
fn read_bounded(path: &Path) -> Result<String, ErrorKind> {
    let file = File::open(path).map_err(|error| error.kind())?;
    let metadata = file.metadata().map_err(|error| error.kind())?;
    if !metadata.is_file() {
        return Err(ErrorKind::InvalidInput);
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(LONGEST_TEXT).unwrap_or(u64::MAX) + 1;
    let read = file.take(limit).read_to_end(&mut bytes);
    read.map_err(|error| error.kind())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
