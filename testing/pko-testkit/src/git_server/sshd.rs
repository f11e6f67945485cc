//! OpenSSH's own server, with keys and repositories of a test.
//!
//! A listener in this process accepts connections and starts one `sshd -i` for each. So there is no
//! port to lose, no moment without a listener, and a test can observe the end of a connection.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            process::CommandExt as _,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tempfile::TempDir;

use crate::eventually::{DEADLINE, PAUSE};
use crate::skip;

const PROGRAM: &str = "/usr/sbin/sshd";
const SERVER_PACKAGE: &str = "openssh-server";

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SshdError {
    #[error("{program} is missing: install it with `apt-get install {package}`")]
    Missing {
        program: &'static str,
        package: &'static str,
    },
    #[error("failed to make a key with ssh-keygen {0:?}")]
    Key(Vec<String>),
    #[error("failed to prepare an SSH server")]
    Io(#[from] io::Error),
}

/// A pair of keys that `ssh-keygen` wrote.
#[derive(Debug, Clone)]
pub struct KeyPair {
    /// The text of the private key
    pub private: String,
    /// The one line of the public key
    pub public: String,
}

impl KeyPair {
    /// Has `ssh-keygen` write a key, such as `["-t", "ed25519"]`, with a passphrase that may be
    /// empty.
    pub fn generate(arguments: &[&str], passphrase: &str) -> Result<Self, SshdError> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("key");
        let mut command = Command::new("ssh-keygen");
        command
            .args(["-q", "-C", "", "-N", passphrase])
            .args(arguments);
        let status = command.arg("-f").arg(&file).status();
        let status = status.map_err(|_| SshdError::Missing {
            program: "ssh-keygen",
            package: "openssh-client",
        })?;
        if !status.success() {
            let arguments = arguments.iter().map(ToString::to_string);
            return Err(SshdError::Key(arguments.collect()));
        }
        let public = fs::read_to_string(file.with_extension("pub"))?;
        Ok(Self {
            private: fs::read_to_string(file)?,
            public: public.trim().to_owned(),
        })
    }
}

/// An SSH server on the loopback interface. It ends when this is dropped.
pub struct Sshd {
    folder: TempDir,
    address: SocketAddr,
    host_keys: Vec<KeyPair>,
    state: Arc<SshdState>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct SshdState {
    over: AtomicBool,
    connections: AtomicUsize,
    open: AtomicUsize,
    /// Processes that serve a connection each. One that is in the list is not reaped.
    servers: Mutex<Vec<u32>>,
}

impl SshdState {
    fn servers(&self) -> MutexGuard<'_, Vec<u32>> {
        self.servers.lock()
    }

    /// Waits for the end of a process.
    fn reap(&self, mut server: Child) {
        if let Some(id) = process(server.id()) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ended = waitid(WaitId::Pid(id), options);
        }
        let mut servers = self.servers();
        drop(server.wait());
        servers.retain(|id| *id != server.id());
    }

    /// Ends the processes that the end of their connection has not ended.
    fn end_servers(&self) {
        for id in self.servers().iter().filter_map(|id| process(*id)) {
            let _gone = kill_process_group(id, Signal::KILL);
        }
    }
}

fn process(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

impl Sshd {
    /// A server with one key of each of these kinds (such as `["-t", "ed25519"]`), and more lines
    /// for its configuration.
    pub fn start(host_keys: &[&[&str]], lines: &[&str]) -> Result<Self, SshdError> {
        Self::start_at(Ipv4Addr::LOCALHOST, host_keys, lines)
    }

    /// The same at another address of this machine, such as one that pods reach.
    pub fn start_at(
        address: Ipv4Addr,
        host_keys: &[&[&str]],
        lines: &[&str],
    ) -> Result<Self, SshdError> {
        if !Path::new(PROGRAM).exists() {
            return Err(SshdError::Missing {
                program: PROGRAM,
                package: SERVER_PACKAGE,
            });
        }
        let folder = tempfile::tempdir()?;
        let keys = host_keys.iter().map(|kind| KeyPair::generate(kind, ""));
        let host_keys = keys.collect::<Result<Vec<_>, _>>()?;
        write_configuration(folder.path(), &host_keys, lines)?;
        make_separation_folder()?;
        let socket = TcpListener::bind((address, 0))?;
        let address = socket.local_addr()?;
        let state = Arc::new(SshdState::default());
        let listener = SshdListener {
            socket,
            configuration: folder.path().join("sshd_config"),
            log: folder.path().join("log"),
            state: Arc::clone(&state),
        };
        Ok(Self {
            folder,
            address,
            host_keys,
            state,
            listener: Some(thread::spawn(move || listener.run())),
        })
    }

    /// A server with an Ed25519 key that passes `GIT_PROTOCOL` on, as the big forges do.
    pub fn start_default() -> Result<Self, SshdError> {
        Self::start(&[&["-t", "ed25519"]], &["AcceptEnv GIT_PROTOCOL"])
    }

    /// As [`Self::start`]. Where OpenSSH's server is not installed, the test is skipped: it returns
    /// at once.
    pub fn start_or_skip(host_keys: &[&[&str]], lines: &[&str]) -> Result<Option<Self>, SshdError> {
        skip_if_missing(Self::start(host_keys, lines))
    }

    /// As [`Self::start_default`]. Where OpenSSH's server is not installed, the test is skipped: it
    /// returns at once.
    pub fn start_default_or_skip() -> Result<Option<Self>, SshdError> {
        skip_if_missing(Self::start_default())
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The one user that may come in: the one who runs the test.
    #[must_use]
    pub fn user() -> String {
        let output = Command::new("id").arg("-un").output();
        let output = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).trim().to_owned()
    }

    /// Lets the owner of this public key in, from now on.
    pub fn authorize(&self, public: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let options = options.create(true).append(true);
        let mut file = options.open(self.folder.path().join("authorized_keys"))?;
        writeln!(file, "{public}")
    }

    /// The server's lines for a client's `known_hosts`.
    #[must_use]
    pub fn known_hosts(&self) -> String {
        let port = self.port();
        let lines = self.host_keys.iter();
        let host = self.address.ip();
        let lines = lines.map(|key| format!("[{host}]:{port} {}\n", key.public));
        lines.collect()
    }

    /// The keys of this server.
    #[must_use]
    pub fn host_keys(&self) -> &[KeyPair] {
        &self.host_keys
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How many connections there were.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Waits until no connection is open. Returns false after the deadline.
    #[must_use]
    pub fn wait_until_idle(&self) -> bool {
        let end = Instant::now() + DEADLINE;
        while Instant::now() < end {
            if self.state.open.load(Ordering::SeqCst) == 0 {
                return true;
            }
            thread::sleep(PAUSE);
        }
        false
    }

    /// The server's log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        // The listener sees it with the next connection.
        drop(TcpStream::connect_timeout(
            &self.address,
            Duration::from_secs(1),
        ));
        if let Some(listener) = self.listener.take() {
            drop(listener.join());
        }
    }
}

struct SshdListener {
    socket: TcpListener,
    configuration: PathBuf,
    log: PathBuf,
    state: Arc<SshdState>,
}

impl SshdListener {
    fn run(self) {
        let mut open: Vec<TcpStream> = Vec::new();
        for stream in self.socket.incoming().filter_map(Result::ok) {
            if self.state.over.load(Ordering::SeqCst) {
                break;
            }
            open.extend(stream.try_clone());
            self.state.connections.fetch_add(1, Ordering::SeqCst);
            self.state.open.fetch_add(1, Ordering::SeqCst);
            let state = Arc::clone(&self.state);
            let served = self.command(stream).and_then(|mut command| command.spawn());
            if let Ok(server) = &served {
                state.servers().push(server.id());
            }
            thread::spawn(move || {
                if let Ok(server) = served {
                    state.reap(server);
                }
                state.open.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for stream in open {
            drop(stream.shutdown(Shutdown::Both));
        }
        self.state.end_servers();
    }

    fn command(&self, stream: TcpStream) -> io::Result<Command> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let mut command = Command::new(PROGRAM);
        command.args(["-i", "-e", "-f"]).arg(&self.configuration);
        // To be ended with the programs that it starts and waits for.
        command.process_group(0);
        command.stdin(Stdio::from(OwnedFd::from(stream.try_clone()?)));
        command.stdout(Stdio::from(OwnedFd::from(stream)));
        command.stderr(log);
        Ok(command)
    }
}

fn skip_if_missing(started: Result<Sshd, SshdError>) -> Result<Option<Sshd>, SshdError> {
    match started {
        Err(SshdError::Missing { package, .. }) if package == SERVER_PACKAGE => {
            let install = format_args!("apt-get install {package}");
            skip(format_args!("OpenSSH's server is not installed: {install}"));
            Ok(None)
        }
        started => started.map(Some),
    }
}

fn write_configuration(folder: &Path, keys: &[KeyPair], lines: &[&str]) -> io::Result<()> {
    let authorized = folder.join("authorized_keys");
    fs::write(&authorized, "")?;
    let mut text = vec![
        "UsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no".to_owned(),
        "KbdInteractiveAuthentication no\nPidFile none\nUseDNS no\nLogLevel VERBOSE".to_owned(),
        format!("AuthorizedKeysFile {}", authorized.display()),
    ];
    for (index, key) in keys.iter().enumerate() {
        let file = folder.join(format!("host_key_{index}"));
        fs::write(&file, &key.private)?;
        fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        text.push(format!("HostKey {}", file.display()));
    }
    text.extend(lines.iter().map(ToString::to_string));
    fs::write(folder.join("sshd_config"), text.join("\n") + "\n")
}

/// A server of root's does not start without this folder, which the system's own server would make.
fn make_separation_folder() -> io::Result<()> {
    if fs::metadata("/proc/self")?.uid() == 0 {
        fs::create_dir_all("/run/sshd")?;
        fs::set_permissions("/run/sshd", Permissions::from_mode(0o755))?;
    }
    Ok(())
}
