//! A lister that blocks, on threads of their own, of which there are only so many.

use std::{fmt::Display, hash::Hash, sync::Arc};

use tokio::{sync::Semaphore, task};

use super::{Answer, Lister, Question};

/// A function that blocks, as a [`Lister`]. A thread that does not come back in time keeps its place, so that a
/// function that hangs for good costs no more threads than there are places.
pub struct Blocking<L: BlockingLister> {
    lister: Arc<L>,
    threads: Arc<Semaphore>,
}

/// As [`Lister`], but blocking.
pub trait BlockingLister: Send + Sync + Sized + 'static {
    /// An address, and who asks.
    type Repository: Clone + Eq + Hash + Send + Sync + 'static;
    /// What somebody wants to know of a repository.
    type Revision: Clone + Eq + Send + Sync + 'static;
    /// What a revision is.
    type Commit: Clone + Eq + Send + Sync + 'static;
    /// Why there is no answer.
    type Error: Display + Send + Sync + 'static;

    /// As [`Lister::host`].
    fn host(&self, repository: &Self::Repository) -> String;

    /// As [`Lister::list`]. It must end at the deadline.
    fn list(&self, question: Question<Blocking<Self>>) -> Answer<Blocking<Self>>;
}

impl<L: BlockingLister> Blocking<L> {
    /// With so many threads at most.
    #[must_use]
    pub fn new(lister: L, threads: usize) -> Self {
        Self {
            lister: Arc::new(lister),
            threads: Arc::new(Semaphore::new(threads)),
        }
    }
}

impl<L: BlockingLister> Lister for Blocking<L> {
    type Repository = L::Repository;
    type Revision = L::Revision;
    type Commit = L::Commit;
    type Error = L::Error;

    fn host(&self, repository: &Self::Repository) -> String {
        self.lister.host(repository)
    }

    async fn list(&self, question: Question<Self>) -> Answer<Self> {
        let thread = Arc::clone(&self.threads).acquire_owned().await;
        let lister = Arc::clone(&self.lister);
        let running = task::spawn_blocking(move || {
            let answer = lister.list(question);
            drop(thread);
            answer
        });
        match running.await {
            Ok(answer) => answer,
            // It is caught above us, and reported as what it is.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => std::future::pending().await,
            },
        }
    }
}
