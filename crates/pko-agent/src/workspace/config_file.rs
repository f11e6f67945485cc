//! A stack's configuration file, with the source's version of it kept apart.
//!
//! # Flow
//! The CLI writes into a file that is part of the source. Before that, [`ConfigFile::begin`] saves
//! the source's version. [`ConfigChange::reset`] restores it, so that removed keys get the source's
//! value again. [`ConfigChange::finish`] saves a fingerprint of the CLI's version.
//!
//! # Guarantees
//! The stack's salt and secrets provider, which the CLI stores in that file, survive a reset. A
//! file that another program has changed is a new version of the source.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The lines of the file that belong to the stack, not to the source.
const STACKS_OWN: [&str; 3] = ["encryptionsalt:", "secretsprovider:", "encryptedkey:"];

#[derive(Debug)]
pub(crate) struct ConfigFile {
    file: PathBuf,
    note: PathBuf,
}

/// What is saved about a file.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct ConfigNote {
    /// The source's version, if the source has the file.
    source: Option<String>,
    /// The fingerprint after the last change; `None` during a change.
    written: Option<String>,
    /// The lines that belong to the stack.
    own: Vec<String>,
}

/// A change in progress.
#[derive(Debug)]
pub(crate) struct ConfigChange {
    file: ConfigFile,
    note: ConfigNote,
}

impl ConfigFile {
    /// `notes` is the folder of all notes.
    pub(crate) fn new(file: PathBuf, notes: &Path) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let note = notes.join(format!("{name}.json"));
        Self { file, note }
    }

    pub(crate) fn fingerprint(&self) -> io::Result<String> {
        Ok(fingerprint(read(&self.file)?.as_deref()))
    }

    /// Must precede commands that write the file.
    pub(crate) fn begin(self) -> io::Result<ConfigChange> {
        let present = read(&self.file)?;
        let noted: Option<ConfigNote> =
            read(&self.note)?.and_then(|text| serde_json::from_str(&text).ok());
        let mut note = noted.unwrap_or_default();
        let ours = match &note.written {
            Some(written) => *written == fingerprint(present.as_deref()),
            // A change did not finish, so the file is partly the CLI's.
            None => self.note.exists(),
        };
        let own = own_lines(present.as_deref().unwrap_or_default());
        if ours {
            note.own = own;
        } else {
            note.own = merge_own_lines(own, &note.own);
            note.source = present;
        }
        note.written = None;
        let change = ConfigChange { file: self, note };
        change.write_note()?;
        Ok(change)
    }
}

impl ConfigChange {
    /// The source's version.
    pub(crate) fn source(&self) -> Option<&str> {
        self.note.source.as_deref()
    }

    /// Restores the source's version, with the stack's own lines.
    pub(crate) fn reset(&self) -> io::Result<()> {
        match merge(self.source(), &self.note.own) {
            Some(text) => write(&self.file.file, &text),
            None if self.file.file.exists() => fs::remove_file(&self.file.file),
            None => Ok(()),
        }
    }

    /// Must follow the commands that write the file.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let present = read(&self.file.file)?;
        self.note.written = Some(fingerprint(present.as_deref()));
        self.note.own = merge_own_lines(
            own_lines(present.as_deref().unwrap_or_default()),
            &self.note.own,
        );
        self.write_note()
    }

    /// Must follow the removal of the stack and its file.
    pub(crate) fn discard(self) -> io::Result<()> {
        fs::remove_file(&self.file.note)
    }

    fn write_note(&self) -> io::Result<()> {
        let text = serde_json::to_string(&self.note).map_err(io::Error::other)?;
        if let Some(folder) = self.file.note.parent() {
            fs::create_dir_all(folder)?;
        }
        write(&self.file.note, &text)
    }
}

/// Marks all files as a new version of the source, even if one equals the CLI's version of the old
/// one. The stacks' own lines are kept.
pub(crate) fn mark_source_replaced(notes: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(notes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let text = read(&path)?.unwrap_or_default();
        let mut note: ConfigNote = serde_json::from_str(&text).unwrap_or_default();
        note.written = Some("replaced".to_owned());
        write(&path, &serde_json::to_string(&note)?)?;
    }
    Ok(())
}

/// The source's text with its lines replaced by the stack's own.
fn merge(source: Option<&str>, own: &[String]) -> Option<String> {
    if source.is_none() && own.is_empty() {
        return None;
    }
    let replaced = |line: &str| {
        let key = own_key(line);
        key.is_some() && own.iter().any(|own| own_key(own) == key)
    };
    let lines = source.unwrap_or_default().split_inclusive('\n');
    let rest: String = lines.filter(|line| !replaced(line)).collect();
    let own: String = own.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    Some(own + &rest)
}

fn own_lines(text: &str) -> Vec<String> {
    let own = text.lines().filter(|line| own_key(line).is_some());
    own.map(|line| line.trim_end().to_owned()).collect()
}

fn own_key(line: &str) -> Option<&'static str> {
    STACKS_OWN.into_iter().find(|key| line.starts_with(key))
}

/// The first lines, and those of the others whose keys are missing.
fn merge_own_lines(mut first: Vec<String>, others: &[String]) -> Vec<String> {
    let missing = |line: &&String| !first.iter().any(|own| own_key(own) == own_key(line));
    let added: Vec<String> = others.iter().filter(missing).cloned().collect();
    first.extend(added);
    first
}

fn fingerprint(text: Option<&str>) -> String {
    let hash = Sha256::digest(text.unwrap_or_default());
    // An empty file differs from none.
    let prefix = if text.is_some() { "" } else { "none-" };
    format!("{prefix}{}", hex::encode(hash))
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Atomic.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "# comment\nconfig:\n  demo:a: source\n";
    const SALT: &str = "encryptionsalt: v1:abc\n";

    struct ConfigFixture(tempfile::TempDir);

    impl ConfigFixture {
        fn new(source: Option<&str>) -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            if let Some(source) = source {
                place.set(source);
            }
            place
        }

        fn path(&self) -> PathBuf {
            self.0.path().join("Pulumi.dev.yaml")
        }

        fn set(&self, text: &str) {
            fs::write(self.path(), text).unwrap();
        }

        fn text(&self) -> Option<String> {
            read(&self.path()).unwrap()
        }

        fn begin(&self) -> ConfigChange {
            ConfigFile::new(self.path(), &self.0.path().join("notes"))
                .begin()
                .unwrap()
        }

        /// The CLI sets something.
        fn change(&self, text: &str) {
            let change = self.begin();
            change.reset().unwrap();
            self.set(text);
            change.finish().unwrap();
        }
    }

    #[test]
    fn removed_key_returns_to_source_value() {
        let place = ConfigFixture::new(Some(SOURCE));
        place.change(&format!("{SALT}config:\n  demo:a: ours\n  demo:b: ours\n"));
        place.begin().reset().unwrap();
        assert_eq!(place.text().unwrap(), format!("{SALT}{SOURCE}"));
    }

    #[test]
    fn config_file_absent_in_source_is_removed() {
        let place = ConfigFixture::new(None);
        place.change(&format!("{SALT}config:\n  demo:a: ours\n"));
        place.begin().reset().unwrap();
        assert_eq!(place.text().as_deref(), Some(SALT));
        let place = ConfigFixture::new(None);
        place.change("config:\n  demo:a: ours\n");
        place.begin().reset().unwrap();
        assert_eq!(place.text(), None);
    }

    #[test]
    fn new_source_keeps_encryption_salt() {
        let place = ConfigFixture::new(Some(SOURCE));
        place.change(&format!("{SALT}config: {{}}\n"));
        let new = "config:\n  demo:a: newer\n";
        place.set(new);
        place.begin().reset().unwrap();
        assert_eq!(place.text().unwrap(), format!("{SALT}{new}"));
    }

    #[test]
    fn unfinished_config_change_is_undone() {
        let place = ConfigFixture::new(Some(SOURCE));
        let change = place.begin();
        place.set("config:\n  demo:half: ours\n");
        drop(change);
        place.begin().reset().unwrap();
        assert_eq!(place.text().unwrap(), SOURCE);
    }

    #[test]
    fn refetched_source_replaces_unfinished_change() {
        let place = ConfigFixture::new(Some(SOURCE));
        place.change(&format!("{SALT}config: {{}}\n"));
        drop(place.begin());
        let new = "config:\n  demo:a: newer\n";
        place.set(new);
        mark_source_replaced(&place.0.path().join("notes")).unwrap();
        place.begin().reset().unwrap();
        assert_eq!(place.text().unwrap(), format!("{SALT}{new}"));
        mark_source_replaced(&place.0.path().join("nothing")).unwrap();
    }

    #[test]
    fn stack_secrets_provider_overrides_source() {
        let place = ConfigFixture::new(Some("secretsprovider: awskms://old\nconfig: {}\n"));
        place.change("secretsprovider: gcpkms://new\nencryptedkey: k\nconfig: {}\n");
        place.begin().reset().unwrap();
        let expected = "secretsprovider: gcpkms://new\nencryptedkey: k\nconfig: {}\n";
        assert_eq!(place.text().unwrap(), expected);
    }
}
