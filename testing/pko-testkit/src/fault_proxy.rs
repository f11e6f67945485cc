//! A proxy between a client and the API server that injects faults.
//!
//! ```text
//!   manager ──TLS──▶ proxy ──TLS, as a chosen user──▶ kube-apiserver
//!                      └── counts writes and events; kills, rejects, cuts, delays, drops
//! ```
//!
//! Nothing is random: faults hit the n-th write or the n-th event.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::runtime;
use tokio::sync::{oneshot, watch};

mod connections;
mod latest_events;
mod list_replays;
mod request;
mod rules;
mod tls;
mod watches;

use crate::control_plane::{AccessError, CertificateError, ControlPlane};
use connections::ProxyState;
use watches::WatchEnd;

/// The time to begin or end an outage.
const PATIENCE: Duration = Duration::from_secs(30);

/// A write that passed through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiWrite {
    pub method: String,
    /// The path, without the query.
    pub path: String,
}

/// The moment of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillPoint {
    /// The API server does not receive the write.
    Before,
    /// The API server has committed the write; the client gets no response.
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// 429 with `Retry-After: 1`; nothing is written.
    TooManyRequests,
    /// 500; nothing is written.
    ServerError,
    /// The write is committed, but the response is 504, as from slow storage.
    TimeoutAfterCommit,
    /// The write is committed, but the connection breaks before the response.
    CutAfterCommit,
}

/// A running proxy, until it is dropped.
pub struct FaultProxy {
    proxy: Arc<ProxyState>,
    kubeconfig: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Starts a proxy that acts as a user, in at most two groups.
    ///
    /// It has its own thread, so it keeps working while a test blocks.
    pub fn start(plane: &ControlPlane, user: &str, groups: &[&str]) -> Result<Self, ProxyError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let url = format!("https://127.0.0.1:{port}");
        let kubeconfig = plane.kubeconfig_at(&url, user, groups)?;
        let authority = plane.authority();
        let proxy = Arc::new(ProxyState {
            port,
            server_port: plane.port(),
            acceptor: tls::acceptor(authority)?,
            connector: tls::connector(authority, &authority.client(user, groups)?)?,
            rules: Mutex::default(),
            lists: Mutex::default(),
            ends: watch::Sender::new(WatchEnd::None),
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

    /// All writes so far, in order, including failed ones. Leases, reviews, tokens, dry runs and
    /// events do not count.
    #[must_use]
    pub fn writes(&self) -> Vec<ApiWrite> {
        self.proxy.rules().writes.clone()
    }

    /// Sets whether events count as writes.
    pub fn count_events(&self, wanted: bool) {
        self.proxy.rules().count_events = wanted;
    }

    /// Runs an action, such as killing the client, before or after the k-th write from now.
    ///
    /// # Guarantees
    ///
    /// That write gets no response. From its arrival, nothing passes on existing connections, so it
    /// is the last write of its client. New connections work.
    pub fn kill_at(&self, k: usize, when: KillPoint, action: impl Fn() + Send + Sync + 'static) {
        self.proxy.rules().kill_at(k, when, Arc::new(action));
    }

    /// Breaks the connections that a kill silenced, for a client that was not killed.
    pub fn resume(&self) {
        let kills = self.proxy.rules().kills;
        self.proxy.resumed.send_replace(kills);
    }

    /// Fails every n-th write.
    pub fn fail(&self, every: usize, how: WriteFailure) {
        self.fail_from(every, every, how);
    }

    /// Fails the k-th write from now, and every n-th after it. `k` is at most `every`.
    pub fn fail_from(&self, k: usize, every: usize, how: WriteFailure) {
        let seen = every.saturating_sub(k);
        self.proxy.rules().fail(every, seen, how);
    }

    pub fn cut_watches(&self) {
        self.proxy.ends.send_replace(WatchEnd::Cut);
    }

    /// Ends all watches with 410 Gone.
    pub fn expire_watches(&self) {
        self.proxy.ends.send_replace(WatchEnd::Gone);
    }

    /// Delays the events of a resource, such as `workspaces`.
    pub fn delay_watch(&self, resource: &str, delay: Duration) {
        self.proxy.rules().delay(resource, delay);
    }

    /// Drops every n-th modification of a resource, such as `updates`, from all watches.
    pub fn drop_watch_events(&self, resource: &str, every: usize) {
        self.proxy.rules().drop_every(resource, every);
    }

    /// Collects the modifications of each object of a resource for this long, and delivers only the
    /// last.
    pub fn coalesce_watch(&self, resource: &str, window: Duration) {
        self.proxy.rules().coalesce(resource, window);
    }

    /// Records the current response to each list that clients have requested so far.
    pub async fn record_lists(&self) -> Result<(), ProxyError> {
        self.proxy
            .record_lists()
            .await
            .map_err(ProxyError::ListReplays)
    }

    /// Answers the next request for each recorded list of a resource with the recording, like a
    /// stale API server. A watch from there delivers all events since.
    pub fn replay_lists(&self, resource: &str) {
        self.proxy.lists().replay(resource);
    }

    /// How many writes, events and lists a fault has hit so far; watches that were ended
    /// and outages are none of these.
    #[must_use]
    pub fn fault_count(&self) -> usize {
        let fault_count = self.proxy.rules().fault_count;
        fault_count + self.proxy.lists().fault_count
    }

    /// Begins or ends an outage: all connections break, and new ones are refused.
    pub fn set_outage(&self, outage: bool) {
        self.proxy.outage.send_replace(outage);
        let (listens, changed) = &self.proxy.listens;
        let mut listens = listens.lock();
        // A longer delay shows in the test itself
        changed.wait_while_for(&mut listens, |listens| *listens == outage, PATIENCE);
    }

    /// Removes all faults. Counts stay.
    pub fn clear_faults(&self) {
        self.proxy.rules().clear_faults();
        self.proxy.lists().clear_faults();
        self.resume();
        self.set_outage(false);
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

#[derive(thiserror::Error)]
pub enum ProxyError {
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A certificate can't be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A certificate can't be read.
    #[error("failed to read a certificate of the proxy")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("failed to set up TLS for the proxy")]
    Tls(#[from] rustls::Error),
    /// The API server does not list.
    #[error("failed to list what is to be kept")]
    ListReplays(#[source] connections::ProxyIoError),
    /// No port, or no thread.
    #[error("failed to prepare a proxy")]
    Prepare(#[from] io::Error),
}

crate::error_text::debug_is_text!(ProxyError);
