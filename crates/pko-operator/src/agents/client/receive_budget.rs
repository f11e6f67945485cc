//! A budget for what agents send, so that they cannot fill the manager's memory or occupy its CPU
//! together. Each namespace has a share of its own.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use pko_proto::MAX_RESULT_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// All large messages that are being received.
const TOTAL_BYTES: usize = 32 * 1024 * 1024;
/// Those of one namespace: one of the largest.
const NAMESPACE_BYTES: usize = MAX_RESULT_BYTES;
/// A smaller message needs no budget.
pub(super) const FREE_BYTES: usize = 64 * 1024;
/// A message of another agent takes [`super::receive_limits::MESSAGE_DEADLINE`] at most.
const MAX_WAIT: Duration = Duration::from_mins(1);
/// What the agents of one namespace may send in each second.
const BYTES_PER_SECOND: usize = 16 * 1024 * 1024;
const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct ReceiveBudget {
    total: Arc<Semaphore>,
    namespaces: Arc<Mutex<HashMap<String, Weak<NamespaceShare>>>>,
}

impl Default for ReceiveBudget {
    fn default() -> Self {
        Self {
            total: Arc::new(Semaphore::new(TOTAL_BYTES)),
            namespaces: Arc::default(),
        }
    }
}

impl ReceiveBudget {
    pub(crate) fn share(&self, namespace: &str) -> ReceiveShare {
        let mut namespaces = self.namespaces.lock();
        let known = namespaces.get(namespace).and_then(Weak::upgrade);
        let share = known.unwrap_or_else(|| {
            namespaces.retain(|_, share| share.strong_count() > 0);
            let share = Arc::new(NamespaceShare::default());
            namespaces.insert(namespace.to_owned(), Arc::downgrade(&share));
            share
        });
        ReceiveShare {
            total: Arc::clone(&self.total),
            namespace: share,
        }
    }
}

struct NamespaceShare {
    bytes: Arc<Semaphore>,
    rate: Mutex<RateWindow>,
}

impl Default for NamespaceShare {
    fn default() -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(NAMESPACE_BYTES)),
            rate: Mutex::new(RateWindow {
                since: Instant::now(),
                bytes: 0,
            }),
        }
    }
}

/// What the agents of one namespace may send.
#[derive(Clone)]
pub(crate) struct ReceiveShare {
    total: Arc<Semaphore>,
    namespace: Arc<NamespaceShare>,
}

/// The memory of one message, until it is dropped.
pub(super) struct MessagePermit {
    _namespace: OwnedSemaphorePermit,
    _total: OwnedSemaphorePermit,
    /// The share is the namespace's as long as anything of it is in use.
    _share: ReceiveShare,
}

impl ReceiveShare {
    /// Waits until there is room for a message of so many bytes.
    pub(super) async fn acquire(self, bytes: usize) -> Result<MessagePermit, Status> {
        let bytes = u32::try_from(bytes.min(NAMESPACE_BYTES)).unwrap_or(u32::MAX);
        let acquire = async {
            // The share first, so that no message waits for it while it holds a part of the total.
            let namespace = Arc::clone(&self.namespace.bytes);
            let namespace = namespace.acquire_many_owned(bytes).await.ok()?;
            let total = Arc::clone(&self.total).acquire_many_owned(bytes);
            Some(MessagePermit {
                _namespace: namespace,
                _total: total.await.ok()?,
                _share: self,
            })
        };
        let acquired = tokio::time::timeout(MAX_WAIT, acquire).await;
        acquired.ok().flatten().ok_or_else(|| {
            Status::unavailable(format!(
                "other agents use all of the {TOTAL_BYTES} bytes that the manager has for their messages, or those \
                 of this namespace its {NAMESPACE_BYTES}"
            ))
        })
    }

    /// Counts bytes that have arrived. Returns how long to wait before more are taken.
    pub(super) fn throttle(&self, bytes: usize) -> Option<Duration> {
        self.namespace.rate.lock().add(bytes, Instant::now())
    }
}

struct RateWindow {
    since: Instant,
    bytes: usize,
}

impl RateWindow {
    fn add(&mut self, bytes: usize, now: Instant) -> Option<Duration> {
        let age = now.saturating_duration_since(self.since);
        if age >= SECOND {
            self.since = now;
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let is_over = self.bytes > BYTES_PER_SECOND;
        is_over.then(|| (self.since + SECOND).saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn namespace_uses_no_more_than_its_share() {
        let budget = ReceiveBudget::default();
        let held = budget.share("a").acquire(MAX_RESULT_BYTES).await.unwrap();
        assert!(budget.share("a").acquire(1).now_or_never().is_none());
        let other = budget.share("b").acquire(1).now_or_never();
        assert!(other.is_some_and(|permit| permit.is_ok()));
        drop(held);
        assert!(budget.share("a").acquire(1).now_or_never().is_some());
    }

    #[tokio::test]
    async fn all_namespaces_share_one_budget() {
        let budget = ReceiveBudget::default();
        let mut held = Vec::new();
        for namespace in 0..TOTAL_BYTES / NAMESPACE_BYTES {
            let share = budget.share(&namespace.to_string());
            held.push(share.acquire(usize::MAX).await.unwrap());
        }
        assert!(budget.share("more").acquire(1).now_or_never().is_none());
        held.pop();
        assert!(budget.share("more").acquire(1).now_or_never().is_some());
    }

    #[test]
    fn unused_shares_are_forgotten() {
        let budget = ReceiveBudget::default();
        let kept = budget.share("kept");
        for namespace in 0..100 {
            budget.share(&namespace.to_string());
        }
        drop(kept);
        assert!(budget.namespaces.lock().len() <= 2);
    }

    #[test]
    fn rate_window_waits_for_the_next_second() {
        let now = Instant::now();
        let mut window = RateWindow {
            since: now,
            bytes: 0,
        };
        assert_eq!(window.add(BYTES_PER_SECOND, now), None);
        let half = now + SECOND / 2;
        assert_eq!(window.add(1, half), Some(SECOND / 2));
        assert_eq!(window.add(1, now + SECOND), None);
    }
}
