//! A proxy between a client and the API server that fails where a test wants it to.
//!
//! ```text
//!   manager ──TLS──▶ proxy ──TLS, as the user of the test's choice──▶ kube-apiserver
//!                      └── counts writes; kills, refuses, cuts, delays and drops by these counts
//! ```
//!
//! Nothing is random: a fault meets the n-th write or the n-th event.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{oneshot, watch};

mod lists;
mod newest;
mod request;
mod rules;
mod serve;
mod tls;
mod watches;

use crate::control_plane::{AccessError, CertificateError, ControlPlane};
use serve::Proxy;
use watches::End;

/// How long the proxy may take to begin or end an outage.
const PATIENCE: Duration = Duration::from_secs(30);

/// A write that came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
}

/// On which side of a write something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The API server never hears of the write.
    Before,
    /// The API server has done it, and nobody is told.
    After,
}

/// How a write fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 429 with `Retry-After: 1`; nothing is written.
    TooManyRequests,
    /// 500; nothing is written.
    ServerError,
    /// It is written, but the answer is 504, as of a storage that was too slow.
    TimeoutAfterCommit,
    /// It is written, but the connection breaks before the answer.
    CutAfterCommit,
}

/// A running proxy, until it is dropped.
pub struct FaultProxy {
    proxy: Arc<Proxy>,
    kubeconfig: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Starts a proxy whose requests are those of a user, in at most two groups.
    ///
    /// It has a thread of its own, so it works on while a test blocks.
    pub fn start(plane: &ControlPlane, user: &str, groups: &[&str]) -> Result<Self, ProxyError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let url = format!("https://127.0.0.1:{port}");
        let kubeconfig = plane.kubeconfig_at(&url, user, groups)?;
        let authority = plane.authority();
        let proxy = Arc::new(Proxy {
            port,
            server_port: plane.port(),
            acceptor: tls::acceptor(authority)?,
            connector: tls::connector(authority, &authority.client(user, groups)?)?,
            rules: Mutex::default(),
            lists: Mutex::default(),
            ends: watch::Sender::new(End::None),
            resumed: watch::Sender::new(0),
            outage: watch::Sender::new(false),
            listens: (Mutex::new(true), Condvar::new()),
        });
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let work = Arc::clone(&proxy).serve(listener);
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = work => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self {
            proxy,
            kubeconfig,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The path of a kubeconfig whose server is the proxy.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// All writes so far, in order, whatever became of them. Leases, reviews, tokens, dry runs and
    /// events are none.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        self.proxy.rules().writes.clone()
    }

    /// Whether events are writes too.
    pub fn count_events(&self, wanted: bool) {
        self.proxy.rules().count_events = wanted;
    }

    /// At the k-th write from now, before it or after it, does something, such as killing the client.
    ///
    /// # Guarantees
    ///
    /// That write is never answered. From its arrival on nothing passes on any connection of that
    /// time, so it is the last of its client's writes. Connections that are made later work.
    pub fn kill_at(&self, k: usize, when: When, deed: impl Fn() + Send + Sync + 'static) {
        self.proxy.rules().kill_at(k, when, Arc::new(deed));
    }

    /// Breaks the connections that a kill left silent, for a client that was not killed.
    pub fn resume(&self) {
        let kills = self.proxy.rules().kills;
        self.proxy.resumed.send_replace(kills);
    }

    /// From now on every n-th write fails.
    pub fn fail(&self, every: usize, how: Failure) {
        self.fail_from(every, every, how);
    }

    /// The k-th write from now fails, and every n-th after it; k is at most n.
    pub fn fail_from(&self, k: usize, every: usize, how: Failure) {
        let seen = every.saturating_sub(k);
        self.proxy.rules().fail(every, seen, how);
    }

    /// Breaks all watches.
    pub fn cut_watches(&self) {
        self.proxy.ends.send_replace(End::Cut);
    }

    /// Tells all watches that what they have seen is too old (410), and ends them.
    pub fn gone(&self) {
        self.proxy.ends.send_replace(End::Gone);
    }

    /// From now on the events of a resource, such as `workspaces`, come later.
    pub fn delay_watch(&self, resource: &str, delay: Duration) {
        self.proxy.rules().delay(resource, delay);
    }

    /// From now on every n-th change of a resource, such as `updates`, is not told to any watch.
    pub fn drop_watch_events(&self, resource: &str, every: usize) {
        self.proxy.rules().drop_every(resource, every);
    }

    /// From now on changes of an object of a resource gather for so long, and only the last is told.
    pub fn coalesce_watch(&self, resource: &str, window: Duration) {
        self.proxy.rules().coalesce(resource, window);
    }

    /// Keeps what the API server says now to each list that a client has asked for so far.
    pub async fn keep_lists(&self) -> Result<(), ProxyError> {
        self.proxy.keep_lists().await.map_err(ProxyError::Lists)
    }

    /// Answers the next request for each kept list of a resource with what was kept, as an API server does that
    /// lags behind. A watch from there on tells all that has been since then.
    pub fn replay_lists(&self, resource: &str) {
        self.proxy.lists().replay(resource);
    }

    /// How many writes, events and lists a fault has met so far; watches that were ended and outages are none of these.
    #[must_use]
    pub fn met(&self) -> usize {
        let met = self.proxy.rules().met;
        met + self.proxy.lists().met
    }

    /// Breaks all connections and refuses new ones, as a server that restarts; or ends that.
    pub fn outage(&self, outage: bool) {
        self.proxy.outage.send_replace(outage);
        let (listens, changed) = &self.proxy.listens;
        let listens = listens.lock().unwrap_or_else(PoisonError::into_inner);
        // What would take longer shows in the test itself
        let _ = changed.wait_timeout_while(listens, PATIENCE, |listens| *listens == outage);
    }

    /// Ends all faults; what was counted stays.
    pub fn heal(&self) {
        self.proxy.rules().heal();
        self.proxy.lists().heal();
        self.resume();
        self.outage(false);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Why a proxy does not start.
#[derive(thiserror::Error)]
pub enum ProxyError {
    /// There is no way into the control plane.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A certificate can't be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A certificate can't be read.
    #[error("failed to read a certificate of the proxy")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// TLS refuses.
    #[error("failed to set up TLS for the proxy")]
    Tls(#[from] rustls::Error),
    /// The API server does not list.
    #[error("failed to list what is to be kept")]
    Lists(#[source] serve::Broken),
    /// No port, or no thread.
    #[error("failed to prepare a proxy")]
    Prepare(#[from] io::Error),
}

crate::error_text::debug_is_text!(ProxyError);
