//! Concurrent requests for the same key share one call.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

pub(super) struct SingleFlight<K, V>(Arc<Mutex<InFlight<K, V>>>);

type InFlight<K, V> = HashMap<K, watch::Receiver<Option<V>>>;

impl<K, V> SingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// The result of the call in flight for this key, or else of `call`.
    ///
    /// The call runs in its own task, so it completes even if its first caller disconnects. `None`
    /// if the call panicked.
    pub(super) async fn join<F>(&self, key: K, call: impl FnOnce() -> F) -> Option<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut result = self.subscribe(key, call);
        let result = result.wait_for(Option::is_some).await.ok()?;
        result.clone()
    }

    fn subscribe<F>(&self, key: K, call: impl FnOnce() -> F) -> watch::Receiver<Option<V>>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut in_flight = self.0.lock();
        if let Some(result) = in_flight.get(&key) {
            return result.clone();
        }
        let (sender, receiver) = watch::channel(None);
        in_flight.insert(key.clone(), receiver.clone());
        let entry = InFlightEntry {
            key,
            in_flight: Arc::clone(&self.0),
        };
        let call = call();
        tokio::spawn(async move {
            let value = call.await;
            // Remove the entry before publishing, so that later requests make a new call.
            drop(entry);
            sender.send_replace(Some(value));
        });
        receiver
    }
}

/// Removes a call from the map when it ends, also by a panic.
struct InFlightEntry<K: Eq + Hash, V> {
    key: K,
    in_flight: Arc<Mutex<InFlight<K, V>>>,
}

impl<K: Eq + Hash, V> Drop for InFlightEntry<K, V> {
    fn drop(&mut self) {
        self.in_flight.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn concurrent_requests_for_one_key_share_a_call() {
        let flights = Arc::new(SingleFlight::new());
        let (calls, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let request = |key: &'static str| {
            let (flights, calls, gate) = (flights.clone(), calls.clone(), gate.clone());
            tokio::spawn(async move {
                let result = flights.join(key, || async move {
                    let number = calls.fetch_add(1, Ordering::SeqCst);
                    gate.notified().await;
                    number
                });
                result.await
            })
        };
        let (first, second, third) = (request("a"), request("a"), request("a"));
        while flights.0.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        // The first caller disconnects.
        first.abort();
        tokio::task::yield_now().await;
        gate.notify_one();
        assert_eq!(second.await.unwrap(), Some(0));
        assert_eq!(third.await.unwrap(), Some(0));
        assert!(flights.0.lock().is_empty());
        gate.notify_one();
        assert_eq!(request("a").await.unwrap(), Some(1), "results are not kept");
    }

    #[tokio::test]
    async fn panicking_call_releases_its_waiters() {
        let flights: SingleFlight<&str, ()> = SingleFlight::new();
        let result = flights.join("a", || async { panic!("of the test") }).await;
        assert_eq!(result, None);
        assert!(flights.0.lock().is_empty());
    }
}
