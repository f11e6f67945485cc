//! The file server of source-controller: archives over plain HTTP.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jiff::{Timestamp, Unit};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::archive::archive;
use super::source::{Artifact, TestSource};
use crate::git_server::http::{HttpRequest, respond};

/// A server of artifacts. It ends when it is dropped.
pub struct ArtifactServer {
    address: SocketAddr,
    state: Arc<Mutex<ArtifactStore>>,
}

#[derive(Default)]
struct ArtifactStore {
    files: BTreeMap<String, Vec<u8>>,
    /// One path for each request.
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

    /// Stores the archive of a revision, with files by path and content. Returns the artifact for
    /// the source's status.
    ///
    /// # Panics
    ///
    /// If a path is not valid in an archive.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test's own mistake")]
    pub fn publish(&self, source: &TestSource, revision: &str, files: &[(&str, &str)]) -> Artifact {
        let bytes = archive(files).expect("paths that fit in an archive");
        let path = source.path(revision);
        let now = Timestamp::now();
        let artifact = Artifact {
            digest: format!("sha256:{}", hex::encode(Sha256::digest(&bytes))),
            last_update_time: now.round(Unit::Second).unwrap_or(now),
            revision: revision.to_owned(),
            size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            url: format!("http://{}/{path}", self.address),
            path,
        };
        self.state.lock().files.insert(artifact.path.clone(), bytes);
        artifact
    }

    /// Forgets an archive, as source-controller does with those of before.
    pub fn withdraw(&self, artifact: &Artifact) {
        self.state.lock().files.remove(&artifact.path);
    }

    /// Serves other bytes for an archive, so that its digest does not match.
    pub fn corrupt(&self, artifact: &Artifact) {
        let other = b"not what was stored".to_vec();
        self.state.lock().files.insert(artifact.path.clone(), other);
    }

    /// The number of requests for an archive.
    #[must_use]
    pub fn requests(&self, artifact: &Artifact) -> usize {
        let state = self.state.lock();
        state
            .requested_paths
            .iter()
            .filter(|path| **path == artifact.path)
            .count()
    }
}

impl Drop for ArtifactServer {
    fn drop(&mut self) {
        self.state.lock().stopped = true;
        // Unblocks the accept loop
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, state: &Arc<Mutex<ArtifactStore>>) {
    for stream in listener.incoming() {
        if state.lock().stopped {
            return;
        }
        let Ok(stream) = stream else { continue };
        let state = Arc::clone(state);
        // A client may disconnect
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
        let mut state = state.lock();
        state.requested_paths.push(path.clone());
        state.files.get(&path).cloned()
    };
    let headers = [("Content-Type", "application/gzip")];
    match file {
        Some(bytes) => respond(&mut stream, "200 OK", &headers, &bytes),
        None => respond(&mut stream, "404 Not Found", &[], b"404 page not found\n"),
    }
}
