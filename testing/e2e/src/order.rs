//! Which tests run when: a few side by side, then those that disturb others, one after the other.
//!
//! All tests start at once (`RUST_TEST_THREADS` is their number or more) and wait here. A test that
//! must be alone would otherwise stop all others each time its turn comes.

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit, watch};

/// How many run side by side: most of the time a test waits for the node.
const LANES: usize = 6;

static SLOTS: Semaphore = Semaphore::const_new(LANES);
static CALM: RwLock<()> = RwLock::const_new(());
/// How many tests have begun that run beside others.
static WAITING: std::sync::LazyLock<watch::Sender<usize>> =
    std::sync::LazyLock::new(|| watch::Sender::new(0));

/// A test that runs, or is going to run, beside others.
pub(crate) struct Waiting;

impl Waiting {
    pub(crate) fn begin() -> Self {
        WAITING.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.send_modify(|count| *count -= 1);
    }
}

/// A turn beside others.
pub(crate) async fn beside_others() -> (SemaphorePermit<'static>, RwLockReadGuard<'static, ()>) {
    let slot = SLOTS.acquire().await.unwrap();
    (slot, CALM.read().await)
}

/// A turn alone, when no test is left that runs beside others.
pub(crate) async fn alone() -> RwLockWriteGuard<'static, ()> {
    let mut waiting = WAITING.subscribe();
    waiting.wait_for(|count| *count == 0).await.unwrap();
    CALM.write().await
}
