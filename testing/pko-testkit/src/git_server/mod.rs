//! A git server over HTTP: git's own `http-backend` behind a small server that checks credentials,
//! records requests and injects faults.
//!
//! Tests push by writing to the repository's folder with git.

mod fault;
pub(crate) mod http;
mod http_backend;
mod repository;
pub mod sshd;
mod tls;

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use parking_lot::{Condvar, Mutex};

pub use fault::Fault;
pub use http::RecordedRequest;
pub use repository::{TestFile, TestRepository};

/// Both ways of a connection.
pub(crate) trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

/// A git server. It ends when it is dropped, with all that hangs on it.
pub struct GitServer {
    address: SocketAddr,
    state: Arc<GitServerState>,
    certificate: Option<String>,
}

struct GitServerState {
    root: PathBuf,
    users: Mutex<Vec<String>>,
    fault: Mutex<Option<Fault>>,
    requests: Mutex<Vec<RecordedRequest>>,
    old_protocol: AtomicBool,
    stopped: Mutex<bool>,
    stop: Condvar,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl GitServer {
    /// Serves the repositories in a folder, to anyone.
    pub fn start(root: &Path) -> io::Result<Self> {
        Self::start_at(root, Ipv4Addr::LOCALHOST)
    }

    /// The same at another address of this machine, such as one that pods reach.
    pub fn start_at(root: &Path, address: Ipv4Addr) -> io::Result<Self> {
        Self::start_with(root, address, None)
    }

    /// The same within TLS, with a certificate of an authority of its own.
    pub fn start_with_tls(root: &Path) -> io::Result<Self> {
        let tls::ServerTls { config, authority } = tls::server_tls()?;
        let mut server = Self::start_with(root, Ipv4Addr::LOCALHOST, Some(Arc::new(config)))?;
        server.certificate = Some(authority);
        Ok(server)
    }

    fn start_with(
        root: &Path,
        address: Ipv4Addr,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(GitServerState {
            root: root.to_owned(),
            users: Mutex::default(),
            fault: Mutex::default(),
            requests: Mutex::default(),
            old_protocol: AtomicBool::default(),
            stopped: Mutex::default(),
            stop: Condvar::default(),
            tls,
        });
        let served = Arc::clone(&state);
        thread::spawn(move || served.accept(&listener));
        Ok(Self {
            address,
            state,
            certificate: None,
        })
    }

    /// Requires credentials. Can be called for several users.
    pub fn require(&self, user: &str, password: &str) {
        let encoded = STANDARD.encode(format!("{user}:{password}"));
        self.state.users.lock().push(format!("Basic {encoded}"));
    }

    /// Sets or clears the fault.
    pub fn set_fault(&self, fault: Option<Fault>) {
        *self.state.fault.lock() = fault;
    }

    /// Disables version 2 of the protocol.
    pub fn disable_protocol_v2(&self) {
        self.state.old_protocol.store(true, Ordering::Relaxed);
    }

    /// The address of a repository.
    #[must_use]
    pub fn url(&self, repository: &str) -> String {
        let host = self.address.ip().to_string();
        format!("{}/{repository}", self.origin(&host))
    }

    /// The same with a user and a password in it.
    #[must_use]
    pub fn url_with(&self, user: &str, password: &str, repository: &str) -> String {
        let host = format!("{user}:{password}@{}", self.address.ip());
        format!("{}/{repository}", self.origin(&host))
    }

    /// The server by another of its names, such as `localhost`.
    #[must_use]
    pub fn origin(&self, host: &str) -> String {
        let scheme = if self.state.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{host}:{}", self.address.port())
    }

    /// The certificate of its authority, in PEM, if it has TLS.
    #[must_use]
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// All requests since the last time.
    #[must_use]
    pub fn take_requests(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut *self.state.requests.lock())
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        *self.state.stopped.lock() = true;
        self.state.stop.notify_all();
        // Unblocks the accept loop
        let _ = TcpStream::connect(self.address);
    }
}

impl GitServerState {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for (stream, number) in listener.incoming().zip(0..) {
            if *self.stopped.lock() {
                return;
            }
            let Ok(stream) = stream else { continue };
            let state = Arc::clone(&self);
            // A client may disconnect
            thread::spawn(move || state.serve(stream, number));
        }
    }

    fn serve(&self, stream: TcpStream, number: u64) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        match &self.tls {
            None => self.answer_all(&mut { stream }, number),
            Some(config) => {
                let session =
                    rustls::ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                let mut stream = rustls::StreamOwned::new(session, stream);
                self.answer_all(&mut stream, number)?;
                stream.conn.send_close_notify();
                stream.flush()
            }
        }
    }

    /// Answers until there is no other request, or an answer that was the last.
    fn answer_all(&self, wire: &mut dyn Wire, connection: u64) -> io::Result<()> {
        while !self.is_stopped()
            && let Some(request) = http::HttpRequest::read(wire)?
        {
            self.requests.lock().push(request.to_record(connection));
            self.answer(&request, wire)?;
        }
        Ok(())
    }

    fn answer(&self, request: &http::HttpRequest, wire: &mut dyn Wire) -> io::Result<()> {
        let fault = self.fault.lock().clone();
        if let Some(fault) = fault
            && fault.apply(self, request, wire)?
        {
            return Ok(());
        }
        let users = self.users.lock().clone();
        let allowed = users.is_empty()
            || users
                .iter()
                .any(|user| request.header("authorization") == Some(user));
        if !allowed {
            let headers = [("WWW-Authenticate", "Basic realm=\"git\"")];
            return http::respond(wire, "401 Unauthorized", &headers, b"");
        }
        http_backend::run(
            &self.root,
            request,
            self.old_protocol.load(Ordering::Relaxed),
            wire,
        )
    }

    fn is_stopped(&self) -> bool {
        *self.stopped.lock()
    }

    /// Waits a while; true when the server ends.
    fn wait(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        self.stop
            .wait_while_for(&mut stopped, |stopped| !*stopped, time);
        *stopped
    }
}
