//! Runs on disk: a folder for each, with `state.json`, `events.jsonl` and `result.pb`. An event's
//! sequence number is its line number.

use std::{
    fs::{self, File, Permissions},
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use pko_proto::run::RunResult;
use prost::Message;

use super::{record::RunRecord, retention::FinishedRun};
use crate::pulumi::event_log::EventDigest;

pub(super) const STATE: &str = "state.json";
const EVENTS: &str = "events.jsonl";
const RESULT: &str = "result.pb";

#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error("failed to open the run journal in {}", folder.display())]
    Open { folder: PathBuf, source: io::Error },
    #[error("another agent serves this workspace and holds {}", .0.display())]
    InUse(PathBuf),
    #[error("failed to write the run journal in {}", folder.display())]
    Write { folder: PathBuf, source: io::Error },
    #[error("failed to read the run journal in {}", folder.display())]
    Read { folder: PathBuf, source: io::Error },
}

#[derive(Debug)]
pub(crate) struct Journal {
    pub(super) runs: PathBuf,
    /// Held while the journal is open: two agents would mark each other's runs as interrupted.
    lock: File,
}

impl Drop for Journal {
    /// A child between its fork and its exec has a copy of the file; closing ours alone would leave
    /// the lock held until then.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl Journal {
    /// Opens the journal in the agent's data folder, and makes that folder private to its user.
    pub(crate) fn open(folder: &Path) -> Result<Self, JournalError> {
        let runs = folder.join("runs");
        let failed = |source| JournalError::Open {
            folder: folder.to_owned(),
            source,
        };
        fs::create_dir_all(&runs).map_err(failed)?;
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)?;
        sync_folder(folder).map_err(failed)?;
        if let Some(Err(error)) = folder.parent().map(sync_folder) {
            // It belongs to another user, and may not be readable.
            tracing::debug!(%error, "Failed to sync the folder of the agent's data");
        }
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { runs, lock }),
            Err(fs::TryLockError::WouldBlock) => Err(JournalError::InUse(path)),
            Err(fs::TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    pub(crate) fn events(&self, run_id: &str) -> PathBuf {
        self.runs.join(run_id).join(EVENTS)
    }

    /// Writes the state of a run that may start afterwards. If it fails, the id stays unused.
    pub(crate) fn create_record(&self, record: &RunRecord) -> Result<(), JournalError> {
        self.write_record(record).inspect_err(|_| {
            // If a part of it stays, the next agent reports a run that never started.
            let _ = fs::remove_dir_all(self.runs.join(&record.run_id));
        })
    }

    /// Writes a run's state durably.
    pub(crate) fn write_record(&self, record: &RunRecord) -> Result<(), JournalError> {
        let text = serde_json::to_vec(record).map_err(|error| self.write_error()(error.into()))?;
        self.write(&record.run_id, STATE, &text)
    }

    pub(crate) fn write_result(
        &self,
        run_id: &str,
        result: &RunResult,
    ) -> Result<(), JournalError> {
        self.write(run_id, RESULT, &result.encode_to_vec())
    }

    /// A run's result, unless it is missing, damaged or pruned.
    pub(crate) fn result(&self, run_id: &str) -> Result<Option<RunResult>, JournalError> {
        match fs::read(self.runs.join(run_id).join(RESULT)) {
            Ok(bytes) => {
                let result = RunResult::decode(&*bytes);
                Ok(result
                    .inspect_err(
                        |error| tracing::error!(run = run_id, %error, "A result is damaged"),
                    )
                    .ok())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.read_error()(error)),
        }
    }

    pub(super) fn read_error(&self) -> impl Fn(io::Error) -> JournalError {
        |source| JournalError::Read {
            folder: self.runs.clone(),
            source,
        }
    }

    fn write_error(&self) -> impl Fn(io::Error) -> JournalError {
        |source| JournalError::Write {
            folder: self.runs.clone(),
            source,
        }
    }

    /// The digest of a run's events, as far as they are written.
    pub(crate) fn digest(&self, run_id: &str) -> EventDigest {
        let mut digest = EventDigest::default();
        let Ok(file) = File::open(self.events(run_id)) else {
            return digest;
        };
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            // The last line may be incomplete.
            if line.pop_if(|last| *last == b'\n').is_some() {
                digest.add(&line);
            }
            line.clear();
        }
        digest
    }

    pub(crate) fn remove_events(&self, run_id: &str) {
        self.remove_file(run_id, EVENTS);
    }

    /// Removes events and result, but not the id.
    pub(crate) fn remove_result(&self, run_id: &str) {
        self.remove_file(run_id, EVENTS);
        self.remove_file(run_id, RESULT);
    }

    pub(crate) fn remove(&self, run_id: &str) {
        if let Err(error) = fs::remove_dir_all(self.runs.join(run_id)) {
            tracing::warn!(run = run_id, %error, "Failed to remove a run from the journal");
        }
    }

    /// The size of a finished run.
    pub(crate) fn measure(&self, record: &RunRecord) -> FinishedRun {
        let folder = self.runs.join(&record.run_id);
        let size = |name| folder.join(name).metadata().map_or(0, |data| data.len());
        let (event_bytes, result_bytes) = if record.acknowledged {
            (0, 0)
        } else {
            (size(EVENTS), size(RESULT))
        };
        FinishedRun {
            run_id: record.run_id.clone(),
            acknowledged: record.acknowledged,
            event_bytes,
            result_bytes,
        }
    }

    fn remove_file(&self, run_id: &str, name: &str) {
        match fs::remove_file(self.runs.join(run_id).join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(run = run_id, %error, "Failed to remove a file from the journal");
            }
            _ => {}
        }
    }

    /// Atomic, and durable when it returns.
    fn write(&self, run_id: &str, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        let folder = self.runs.join(run_id);
        let write = || {
            match fs::create_dir(&folder) {
                Ok(()) => sync_folder(&self.runs)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            let mut file = tempfile::NamedTempFile::new_in(&folder)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(folder.join(name))?;
            sync_folder(&folder)
        };
        write().map_err(self.write_error())
    }
}

/// Makes the names in a folder outlast a power loss.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;

    use super::{
        super::record::{RunKind, RunPhase},
        *,
    };

    pub(in super::super) fn record(run_id: &str) -> RunRecord {
        RunRecord {
            run_id: run_id.to_owned(),
            kind: RunKind::Up,
            stack: "dev".to_owned(),
            state: RunPhase::Running,
            created_at: Timestamp::from_second(1).unwrap(),
            started_at: None,
            finished_at: None,
            events: 0,
            acknowledged: false,
            process: None,
            is_call_scoped: false,
        }
    }

    #[test]
    fn journal_survives_reopen() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let result = RunResult {
            stdout: "out".to_owned(),
            ..Default::default()
        };
        journal.write_record(&record("b")).unwrap();
        journal.write_record(&record("a")).unwrap();
        journal.write_result("a", &result).unwrap();
        drop(journal);
        let journal = Journal::open(folder.path()).unwrap();
        let recorded = || journal.stored_runs().unwrap().recorded;
        assert_eq!(recorded(), [record("a"), record("b")]);
        assert_eq!(journal.result("a").unwrap(), Some(result));
        assert_eq!(journal.result("b").unwrap(), None);
        journal.remove_result("a");
        assert_eq!(journal.result("a").unwrap(), None);
        journal.remove("a");
        assert_eq!(recorded(), [record("b")]);
    }

    #[test]
    fn journal_lock_ends_despite_inherited_file() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let _inherited = journal.lock.try_clone().unwrap();
        drop(journal);
        Journal::open(folder.path()).unwrap();
    }

    #[test]
    fn journal_allows_one_agent() {
        let folder = tempfile::tempdir().unwrap();
        let _first = Journal::open(folder.path()).unwrap();
        assert!(matches!(
            Journal::open(folder.path()),
            Err(JournalError::InUse(_))
        ));
    }

    #[test]
    fn journal_folder_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join(".pko");
        let _journal = Journal::open(&data).unwrap();
        assert_eq!(data.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn journal_digest_counts_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        journal.write_record(&record("a")).unwrap();
        assert_eq!(journal.digest("a").lines, 0);
        for (text, count) in [("", 0), ("{}\n", 1), ("{}\n{}\n{", 2), ("{", 0)] {
            fs::write(journal.events("a"), text).unwrap();
            assert_eq!(journal.digest("a").lines, count, "{text:?}");
        }
    }

    #[test]
    fn journal_failed_record_leaves_id_unused() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        // A folder in place of the file: the rename fails.
        fs::create_dir_all(journal.runs.join("a").join(STATE).join("x")).unwrap();
        let error = journal.create_record(&record("a")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&journal.runs.display().to_string()), "{text}");
        assert!(!journal.runs.join("a").exists());
        journal.create_record(&record("a")).unwrap();
    }

    #[test]
    fn journal_damaged_result_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        journal.write_record(&record("a")).unwrap();
        fs::write(journal.runs.join("a").join(RESULT), [0xff; 9]).unwrap();
        assert_eq!(journal.result("a").unwrap(), None);
    }
}
