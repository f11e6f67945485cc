//! Locks of stacks in Pulumi's own format: one file per holder.

use std::fs;

use jiff::Timestamp;
use pulumi_engine_model::urn::StackIdentity;
use serde::{Deserialize, Serialize};

use super::{
    backend::{Backend, BackendError},
    bucket::BucketError,
};

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Others hold it. The text is that of Pulumi's CLI.
    #[error(
        "the stack is currently locked by {} lock(s). Either wait for the other process(es) to end \
         or delete the lock file with `pulumi cancel`.{}",
        .0.len(), .0.concat()
    )]
    StateToSave(Vec<String>),
    /// The backend failed.
    #[error("failed to access the locks of the stack")]
    Access(#[from] BackendError),
}

#[derive(Serialize, Deserialize)]
struct LockFile {
    pid: u32,
    username: String,
    hostname: String,
    timestamp: Timestamp,
}

/// A lock, released on drop.
#[derive(Debug)]
pub struct Lock<'a> {
    backend: &'a Backend,
    key: String,
    /// Reports that the lock could not be removed.
    warn: fn(&str),
}

impl<'a> Lock<'a> {
    /// Locks a stack: writes a file, then checks that it is the only one.
    ///
    /// `warn` reports a lock that cannot be removed later.
    pub fn acquire(
        backend: &'a Backend,
        stack: &StackIdentity,
        warn: fn(&str),
    ) -> Result<Self, LockError> {
        let folder = folder(stack);
        refuse_if_held(backend, &folder, None)?;
        let key = format!("{folder}/{}.json", uuid::Uuid::new_v4());
        let content = LockFile {
            pid: std::process::id(),
            username: user_name(),
            hostname: host_name(),
            timestamp: Timestamp::now(),
        };
        let content = serde_json::to_vec(&content)
            .map_err(|error| BucketError::Folder(error.into()))
            .map_err(|error| backend.error(error))?;
        let written = backend.bucket().write(&key, &content);
        written.map_err(|error| backend.error(error))?;
        let lock = Self { backend, key, warn };
        refuse_if_held(backend, &folder, Some(&lock.key))?;
        Ok(lock)
    }
}

impl Lock<'_> {
    /// Removes the lock.
    pub fn release(&self) {
        if let Err(error) = self.backend.bucket().remove(&self.key) {
            (self.warn)(&format!(
                "error: there was a problem deleting the lock at {}, manual clean up may be required: {error}",
                self.backend.place(&self.key)
            ));
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// Removes all locks of a stack.
pub fn break_all(backend: &Backend, stack: &StackIdentity) -> Result<(), BucketError> {
    for key in backend.bucket().list(&folder(stack), ".json")? {
        backend.bucket().remove(&key)?;
    }
    Ok(())
}

fn folder(stack: &StackIdentity) -> String {
    format!(".pulumi/locks/{}", stack.qualified())
}

fn refuse_if_held(backend: &Backend, folder: &str, own: Option<&str>) -> Result<(), LockError> {
    let mut held = Vec::new();
    let access = |error| backend.error(error);
    for key in backend.bucket().list(folder, ".json").map_err(access)? {
        if Some(key.as_str()) == own {
            continue;
        }
        // skips locks that are removed meanwhile
        let Some(content) = backend.bucket().read(&key).map_err(access)? else {
            continue;
        };
        let holder = serde_json::from_slice::<LockFile>(&content).map_or_else(
            |_| "unknown holder".to_owned(),
            |content| {
                format!(
                    "created by {}@{} (pid {}) at {}",
                    content.username, content.hostname, content.pid, content.timestamp
                )
            },
        );
        let place = backend.place(&key);
        // Pulumi's own file backend writes this too
        let option = if place.starts_with("file://") {
            "?no_tmp_dir=true"
        } else {
            ""
        };
        held.push(format!("\n  {place}{option}: {holder}"));
    }
    if held.is_empty() {
        Ok(())
    } else {
        Err(LockError::StateToSave(held))
    }
}

/// Name of the user this process runs as.
#[must_use]
pub fn user_name() -> String {
    use std::os::unix::fs::MetadataExt as _;
    let id = fs::metadata("/proc/self").map(|metadata| metadata.uid().to_string());
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let known = id.as_ref().ok().and_then(|id| {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == id).then(|| name.to_owned())
        })
    });
    known
        .or_else(|| std::env::var("USER").ok())
        .or_else(|| id.ok())
        .unwrap_or_else(|| "unknown".to_owned())
}

fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_has_one_holder() {
        let directory = tempfile::tempdir().unwrap();
        let backend = Backend::open(&format!("file://{}", directory.path().display())).unwrap();
        let stack = StackIdentity {
            organization: "organization".into(),
            project: "demo".into(),
            name: "dev".into(),
        };
        let held = Lock::acquire(&backend, &stack, |_| ()).unwrap();
        let error = Lock::acquire(&backend, &stack, |_| ())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("the stack is currently locked by 1 lock(s)."),
            "{error}"
        );
        assert!(
            error.contains(&format!("(pid {})", std::process::id())),
            "{error}"
        );
        drop(held);
        let abandoned =
            std::mem::ManuallyDrop::new(Lock::acquire(&backend, &stack, |_| ()).unwrap());
        break_all(&backend, &stack).unwrap();
        assert_eq!(backend.bucket().read(&abandoned.key).unwrap(), None);
        drop(Lock::acquire(&backend, &stack, |_| ()).unwrap());
    }
}
