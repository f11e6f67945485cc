//! The archives that were made last, and the places in which others are made.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use pko_core::program::{Archive, ArchiveCache, ArchiveKey};
use tokio::sync::{Mutex as AsyncMutex, Semaphore, SemaphorePermit};

/// Thousands of usual archives, or dozens of the largest.
const BUDGET: usize = 32 << 20;
/// Programs that are in memory at once, for the controller and for the server: one does not wait
/// for the clients of the other.
const PLACES: usize = 2;

/// Shared by the controller of Programs and by the server.
pub(crate) struct ArchiveStore {
    archives: Mutex<ArchiveCache>,
    /// Archives that are being made: others wait, and find them in the cache.
    in_progress: Mutex<HashMap<ArchiveKey, Weak<AsyncMutex<()>>>>,
    publishing: Semaphore,
    serving: Semaphore,
}

/// The manager stops.
#[derive(Debug, thiserror::Error)]
#[error("failed to process the Program: {0}")]
pub(crate) struct ProcessingError(tokio::task::JoinError);

impl Default for ArchiveStore {
    fn default() -> Self {
        Self {
            archives: Mutex::new(ArchiveCache::new(BUDGET)),
            in_progress: Mutex::default(),
            publishing: Semaphore::new(PLACES),
            serving: Semaphore::new(PLACES),
        }
    }
}

impl ArchiveStore {
    pub(crate) fn get(&self, key: &ArchiveKey) -> Option<Archive> {
        self.archives.lock().get(key)
    }

    pub(crate) fn insert(&self, key: ArchiveKey, archive: Archive) {
        self.archives.lock().insert(key, archive);
    }

    pub(crate) fn remove(&self, key: &ArchiveKey) {
        self.archives.lock().remove(key);
    }

    /// Waits until a body may be read and processed to be published. None never comes: the
    /// semaphore is never closed.
    pub(crate) async fn place_to_publish(&self) -> Option<SemaphorePermit<'_>> {
        self.publishing.acquire().await.ok()
    }

    /// The same, to be served.
    pub(super) async fn place_to_serve(&self) -> Option<SemaphorePermit<'_>> {
        self.serving.acquire().await.ok()
    }

    /// The archive from memory, or else what `make` returns, which is then kept. Requests for one
    /// archive make it once.
    pub(super) async fn get_or_make<E>(
        &self,
        key: ArchiveKey,
        make: impl Future<Output = Result<Archive, E>>,
    ) -> Result<Archive, E> {
        let progress = self.progress(&key);
        let _alone = progress.lock().await;
        if let Some(archive) = self.get(&key) {
            return Ok(archive);
        }
        let archive = make.await?;
        self.insert(key, archive.clone());
        Ok(archive)
    }

    fn progress(&self, key: &ArchiveKey) -> Arc<AsyncMutex<()>> {
        let mut all = self.in_progress.lock();
        if let Some(progress) = all.get(key).and_then(Weak::upgrade) {
            return progress;
        }
        all.retain(|_, progress| progress.strong_count() > 0);
        let progress = Arc::default();
        all.insert(key.clone(), Arc::downgrade(&progress));
        progress
    }
}

/// Runs work that takes CPU time, without keeping other tasks waiting. Panics as the work does.
pub(crate) async fn process<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProcessingError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => ProcessingError(error),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[tokio::test]
    async fn archive_is_made_once_for_concurrent_requests() {
        let (store, made) = (ArchiveStore::default(), AtomicUsize::new(0));
        let key = || ArchiveKey {
            uid: "u".to_owned(),
            generation: 1,
        };
        let archive = || async {
            made.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(Archive {
                bytes: Arc::from(*b"bytes"),
                digest: "sha256:a".to_owned(),
            })
        };
        let requests = (0..20).map(|_| store.get_or_make(key(), archive()));
        let found = futures::future::join_all(requests).await;
        assert!(
            found
                .iter()
                .all(|found| found.as_ref().unwrap().digest == "sha256:a")
        );
        assert_eq!(made.load(Ordering::Relaxed), 1);
        assert!(store.get(&key()).is_some());
    }

    #[tokio::test]
    async fn archive_that_failed_is_made_again() {
        let store = ArchiveStore::default();
        let key = || ArchiveKey {
            uid: "u".to_owned(),
            generation: 1,
        };
        assert_eq!(store.get_or_make(key(), async { Err(1) }).await, Err(1));
        assert_eq!(store.get_or_make(key(), async { Err(2) }).await, Err(2));
        assert_eq!(store.in_progress.lock().len(), 1, "and then forgotten");
    }
}
