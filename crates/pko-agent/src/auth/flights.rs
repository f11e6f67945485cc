//! One question for all who ask the same at the same time.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

/// Questions that are under way.
pub(super) struct Flights<K, A>(Arc<Mutex<UnderWay<K, A>>>);

type UnderWay<K, A> = HashMap<K, watch::Receiver<Option<A>>>;

impl<K, A> Flights<K, A>
where
    K: Clone + Eq + Hash + Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// The answer to the question that is under way under this key, else to this one. It goes on even if whoever asked
    /// first hangs up: the others wait for it, too. Nothing if it came to no answer.
    pub(super) async fn join<F>(&self, key: K, ask: impl FnOnce() -> F) -> Option<A>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let mut answer = self.answer_to(key, ask);
        let answer = answer.wait_for(Option::is_some).await.ok()?;
        answer.clone()
    }

    fn answer_to<F>(&self, key: K, ask: impl FnOnce() -> F) -> watch::Receiver<Option<A>>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = under_way.get(&key) {
            return answer.clone();
        }
        let (sender, receiver) = watch::channel(None);
        under_way.insert(key.clone(), receiver.clone());
        let landed = Landing {
            key,
            flights: Arc::clone(&self.0),
        };
        let asked = ask();
        tokio::spawn(async move {
            let answer = asked.await;
            // First nobody joins any more, then the answer is given: who comes now asks anew.
            drop(landed);
            sender.send_replace(Some(answer));
        });
        receiver
    }
}

/// Takes a question off the list, however it ends.
struct Landing<K: Eq + Hash, A> {
    key: K,
    flights: Arc<Mutex<UnderWay<K, A>>>,
}

impl<K: Eq + Hash, A> Drop for Landing<K, A> {
    fn drop(&mut self) {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn who_asks_the_same_at_the_same_time_shares_the_answer() {
        let flights = Arc::new(Flights::new());
        let (asked, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let ask = |key: &'static str| {
            let (flights, asked, gate) = (flights.clone(), asked.clone(), gate.clone());
            tokio::spawn(async move {
                let answer = flights.join(key, || async move {
                    let number = asked.fetch_add(1, Ordering::SeqCst);
                    gate.notified().await;
                    number
                });
                answer.await
            })
        };
        let (first, second, third) = (ask("a"), ask("a"), ask("a"));
        while flights.0.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        // The one who asked first is gone.
        first.abort();
        tokio::task::yield_now().await;
        gate.notify_one();
        assert_eq!(second.await.unwrap(), Some(0));
        assert_eq!(third.await.unwrap(), Some(0));
        assert!(flights.0.lock().unwrap().is_empty());
        gate.notify_one();
        assert_eq!(ask("a").await.unwrap(), Some(1), "nothing is remembered");
    }

    #[tokio::test]
    async fn a_question_that_panics_leaves_nobody_waiting() {
        let flights: Flights<&str, ()> = Flights::new();
        let answer = flights.join("a", || async { panic!("of the test") }).await;
        assert_eq!(answer, None);
        assert!(flights.0.lock().unwrap().is_empty());
    }
}
