//! Reads what a previous agent stored about its runs.
//!
//! # Guarantees
//! A run is forgotten only if no record of it was ever written: only then nothing has begun under
//! its id. A damaged or unreadable record keeps its id in use, so that the run is not started
//! again.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    journal::{Journal, JournalError, STATE},
    record::RunRecord,
};

/// The beginning of the names of files that are being written.
const TEMPORARY: &str = ".tmp";
/// A damaged record, which is kept beside the one that replaces it.
const DAMAGED: &str = "state.damaged";

/// What is stored under a run's id.
#[derive(Debug)]
pub(super) enum StoredRun {
    Recorded(RunRecord),
    /// No record was ever written.
    Missing,
    /// There was a record, and it is damaged.
    Damaged(&'static str),
    /// The record cannot be read at the moment.
    Unreadable(io::Error),
}

/// All runs in the journal.
#[derive(Debug, Default)]
pub(super) struct StoredRuns {
    /// Oldest first.
    pub(super) recorded: Vec<RunRecord>,
    /// Ids, with what is wrong.
    pub(super) damaged: Vec<(String, &'static str)>,
    pub(super) unreadable: Vec<String>,
}

impl Journal {
    /// All runs. Folders of runs that were never recorded are removed.
    pub(super) fn stored_runs(&self) -> Result<StoredRuns, JournalError> {
        let mut stored = StoredRuns::default();
        for entry in fs::read_dir(&self.runs).map_err(self.read_error())? {
            let name = entry.map_err(self.read_error())?.file_name();
            let Some(run_id) = name.to_str() else {
                tracing::warn!(?name, "The journal has a file that is not a run");
                continue;
            };
            match self.stored(run_id) {
                StoredRun::Recorded(record) => stored.recorded.push(record),
                StoredRun::Missing => self.remove(run_id),
                StoredRun::Damaged(why) => stored.damaged.push((run_id.to_owned(), why)),
                StoredRun::Unreadable(error) => {
                    tracing::error!(run = run_id, %error, "Failed to read a run of the journal; it is kept, and not started again");
                    stored.unreadable.push(run_id.to_owned());
                }
            }
        }
        stored
            .recorded
            .sort_by(|a, b| (a.created_at, &a.run_id).cmp(&(b.created_at, &b.run_id)));
        Ok(stored)
    }

    pub(super) fn stored(&self, run_id: &str) -> StoredRun {
        let folder = self.runs.join(run_id);
        match fs::read(folder.join(STATE)) {
            Ok(text) => decode(&text, run_id),
            Err(error) if is_missing(&error) => without_record(&folder),
            Err(error) => StoredRun::Unreadable(error),
        }
    }

    /// Renames a damaged record, which may help a person later.
    pub(super) fn set_aside_damaged(&self, run_id: &str) {
        let folder = self.runs.join(run_id);
        match fs::rename(folder.join(STATE), folder.join(DAMAGED)) {
            Err(error) if !is_missing(&error) => {
                tracing::warn!(run = run_id, %error, "Failed to set a damaged record of the journal aside");
            }
            _ => {}
        }
    }

    /// The file of a run's record, for messages.
    pub(super) fn record_file(&self, run_id: &str) -> PathBuf {
        self.runs.join(run_id).join(STATE)
    }
}

/// The reasons do not quote the file.
fn decode(text: &[u8], run_id: &str) -> StoredRun {
    match serde_json::from_slice::<RunRecord>(text) {
        Ok(record) if record.run_id == run_id => StoredRun::Recorded(record),
        Ok(_) => StoredRun::Damaged("it is the record of another run"),
        Err(error) if error.is_eof() => StoredRun::Damaged("it is cut off"),
        Err(error) if error.is_syntax() => StoredRun::Damaged("it is not JSON"),
        Err(_) => StoredRun::Damaged("it has unknown or missing fields"),
    }
}

/// A folder without a record: nothing began, unless other files prove that there was a record.
fn without_record(folder: &Path) -> StoredRun {
    let is_temporary = |name: &OsStr| name.to_string_lossy().starts_with(TEMPORARY);
    let read = || -> io::Result<bool> {
        for entry in fs::read_dir(folder)? {
            if !is_temporary(&entry?.file_name()) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    match read() {
        Ok(true) => StoredRun::Missing,
        Ok(false) => StoredRun::Damaged("it is missing"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => StoredRun::Missing,
        // Not a folder, so not ours.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            StoredRun::Damaged("its folder is a file")
        }
        Err(error) => StoredRun::Unreadable(error),
    }
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::{super::journal::tests::record, *};

    fn journal() -> (tempfile::TempDir, Journal) {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        (folder, journal)
    }

    #[test]
    fn unrecorded_run_is_removed() {
        let (_folder, journal) = journal();
        let begun = journal.runs.join("begun");
        fs::create_dir(&begun).unwrap();
        fs::write(begun.join(".tmpAb12"), "{\"run_").unwrap();
        let stored = journal.stored_runs().unwrap();
        assert!(stored.damaged.is_empty() && stored.unreadable.is_empty());
        assert!(!begun.exists());
    }

    #[test]
    fn damaged_run_is_kept() {
        let (_folder, journal) = journal();
        let other = serde_json::to_string(&record("other")).unwrap();
        let table = [
            ("cut", STATE, "", "it is cut off"),
            ("half", STATE, &other[..20], "it is cut off"),
            ("zeros", STATE, "\0\0\0\0", "it is not JSON"),
            ("empty", STATE, "{}", "it has unknown or missing fields"),
            ("moved", STATE, &*other, "it is the record of another run"),
            ("events", "events.jsonl", "", "it is missing"),
            ("aside", DAMAGED, "", "it is missing"),
        ];
        for (run_id, file, text, _) in &table {
            fs::create_dir(journal.runs.join(run_id)).unwrap();
            fs::write(journal.runs.join(run_id).join(file), text).unwrap();
        }
        let mut damaged = journal.stored_runs().unwrap().damaged;
        damaged.sort();
        let mut expected: Vec<_> = table
            .iter()
            .map(|(run_id, _, _, why)| ((*run_id).to_owned(), *why))
            .collect();
        expected.sort();
        assert_eq!(damaged, expected);
        assert!(table.iter().all(|(id, ..)| journal.runs.join(id).exists()));
    }

    /// A folder in place of the file gives an error that is neither "not found" nor a damaged
    /// record, as a broken disk does.
    #[test]
    fn unreadable_run_is_kept() {
        let (_folder, journal) = journal();
        journal.write_record(&record("fine")).unwrap();
        fs::create_dir_all(journal.record_file("broken")).unwrap();
        let stored = journal.stored_runs().unwrap();
        assert_eq!(stored.unreadable, ["broken"]);
        assert_eq!(stored.recorded, [record("fine")]);
        assert!(journal.record_file("broken").exists());
    }

    #[test]
    fn damaged_record_is_set_aside() {
        let (_folder, journal) = journal();
        journal.write_record(&record("a")).unwrap();
        fs::write(journal.record_file("a"), "{").unwrap();
        journal.set_aside_damaged("a");
        assert!(matches!(journal.stored("a"), StoredRun::Damaged(_)));
        journal.write_record(&record("a")).unwrap();
        assert!(matches!(journal.stored("a"), StoredRun::Recorded(_)));
        assert!(journal.runs.join("a").join(DAMAGED).exists());
    }
}
