//! The order of tests: a few run concurrently, then those that disturb others, one at a time.
//!
//! All tests start at once (`RUST_TEST_THREADS` is at least their number) and wait here. Otherwise
//! an exclusive test would stop all others each time it starts.

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit, watch};

/// How many run side by side: most of the time a test waits for the node.
const LANES: usize = 6;

static SLOTS: Semaphore = Semaphore::const_new(LANES);
static CALM: RwLock<()> = RwLock::const_new(());
/// How many tests have begun that run beside others.
static WAITING: std::sync::LazyLock<watch::Sender<usize>> =
    std::sync::LazyLock::new(|| watch::Sender::new(0));

/// A test that runs, or is going to run, beside others.
pub(crate) struct ConcurrentTest;

impl ConcurrentTest {
    pub(crate) fn begin() -> Self {
        WAITING.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for ConcurrentTest {
    fn drop(&mut self) {
        WAITING.send_modify(|count| *count -= 1);
    }
}

pub(crate) async fn run_concurrently() -> (SemaphorePermit<'static>, RwLockReadGuard<'static, ()>) {
    let slot = SLOTS.acquire().await.unwrap();
    (slot, CALM.read().await)
}

/// Waits until no concurrent test is left.
pub(crate) async fn run_exclusively() -> RwLockWriteGuard<'static, ()> {
    let mut waiting = WAITING.subscribe();
    waiting.wait_for(|count| *count == 0).await.unwrap();
    CALM.write().await
}
