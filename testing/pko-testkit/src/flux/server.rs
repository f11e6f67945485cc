//! The file server of source-controller: archives over plain HTTP.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use jiff::{Timestamp, Unit};
use sha2::{Digest, Sha256};

use super::archive::archive;
use super::source::{Artifact, TestSource, hex};
use crate::git_server::http::{HttpRequest, respond};

/// A server of artifacts. It ends when it is dropped.
pub struct ArtifactServer {
    address: SocketAddr,
    state: Arc<Mutex<ArtifactStore>>,
}

#[derive(Default)]
struct ArtifactStore {
    files: BTreeMap<String, Vec<u8>>,
    /// The paths that were asked for, one for each request.
    requested_paths: Vec<String>,
    stopped: bool,
}

impl ArtifactServer {
    pub fn start() -> io::Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST)
    }

    /// The same at another address of this machine, such as one that pods reach.
    pub fn start_at(address: Ipv4Addr) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::default());
        let served = Arc::clone(&state);
        thread::spawn(move || accept(&listener, &served));
        Ok(Self { address, state })
    }

    /// Stores the archive of a revision, whose files are given by path and content; gives what the source's status says
    /// about it.
    ///
    /// # Panics
    ///
    /// If a path is none that an archive can have.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test's own mistake")]
    pub fn publish(&self, source: &TestSource, revision: &str, files: &[(&str, &str)]) -> Artifact {
        let bytes = archive(files).expect("paths that fit in an archive");
        let path = source.path(revision);
        let now = Timestamp::now();
        let artifact = Artifact {
            digest: format!("sha256:{}", hex(&Sha256::digest(&bytes))),
            last_update_time: now.round(Unit::Second).unwrap_or(now),
            revision: revision.to_owned(),
            size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            url: format!("http://{}/{path}", self.address),
            path,
        };
        lock(&self.state).files.insert(artifact.path.clone(), bytes);
        artifact
    }

    /// Forgets an archive, as source-controller does with those of before.
    pub fn withdraw(&self, artifact: &Artifact) {
        lock(&self.state).files.remove(&artifact.path);
    }

    /// Serves something else in the place of an archive, whose digest it does not have.
    pub fn corrupt(&self, artifact: &Artifact) {
        let other = b"not what was stored".to_vec();
        lock(&self.state).files.insert(artifact.path.clone(), other);
    }

    /// How often an archive was asked for.
    #[must_use]
    pub fn requests(&self, artifact: &Artifact) -> usize {
        let state = lock(&self.state);
        state
            .requested_paths
            .iter()
            .filter(|path| **path == artifact.path)
            .count()
    }
}

impl Drop for ArtifactServer {
    fn drop(&mut self) {
        lock(&self.state).stopped = true;
        // whoever waits for the next connection gets this one
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, state: &Arc<Mutex<ArtifactStore>>) {
    for stream in listener.incoming() {
        if lock(state).stopped {
            return;
        }
        let Ok(stream) = stream else { continue };
        let state = Arc::clone(state);
        // a client that goes away is its own business
        thread::spawn(move || answer(stream, &state));
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<ArtifactStore>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    let Some(request) = HttpRequest::read(&mut stream)? else {
        return Ok(());
    };
    let path = request.path.trim_start_matches('/').to_owned();
    let file = {
        let mut state = lock(state);
        state.requested_paths.push(path.clone());
        state.files.get(&path).cloned()
    };
    let headers = [("Content-Type", "application/gzip")];
    match file {
        Some(bytes) => respond(&mut stream, "200 OK", &headers, &bytes),
        None => respond(&mut stream, "404 Not Found", &[], b"404 page not found\n"),
    }
}

fn lock(state: &Mutex<ArtifactStore>) -> MutexGuard<'_, ArtifactStore> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
