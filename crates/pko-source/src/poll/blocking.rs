//! Runs a blocking lister on a limited number of threads.

use std::{fmt::Display, hash::Hash, sync::Arc};

use tokio::{sync::Semaphore, task};

use super::{ListRequest, ListResponse, Lister};

/// Adapts a [`BlockingLister`] to [`Lister`]. A call that hangs keeps its permit, so hanging calls
/// cannot use more threads than there are permits.
pub struct Blocking<L: BlockingLister> {
    lister: Arc<L>,
    threads: Arc<Semaphore>,
}

pub trait BlockingLister: Send + Sync + Sized + 'static {
    type Repository: Clone + Eq + Hash + Send + Sync + 'static;
    type Revision: Clone + Eq + Send + Sync + 'static;
    type Commit: Clone + Eq + Send + Sync + 'static;
    type Error: Display + Send + Sync + 'static;

    fn host(&self, repository: &Self::Repository) -> String;

    /// Like [`Lister::list`]. It must return by the deadline.
    fn list(&self, request: ListRequest<Blocking<Self>>) -> ListResponse<Blocking<Self>>;
}

impl<L: BlockingLister> Blocking<L> {
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

    async fn list(&self, request: ListRequest<Self>) -> ListResponse<Self> {
        let thread = Arc::clone(&self.threads).acquire_owned().await;
        let lister = Arc::clone(&self.lister);
        let running = task::spawn_blocking(move || {
            let answer = lister.list(request);
            drop(thread);
            answer
        });
        match running.await {
            Ok(answer) => answer,
            // The poller catches the panic and reports it.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => std::future::pending().await,
            },
        }
    }
}
