//! OpenSSH's own server, with keys and repositories of a test.
//!
//! A listener of ours takes the connections and starts one `sshd -i` for each, so that there is no port to be lost and
//! no moment in which it does not listen yet; and a test can see when a connection has ended.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::eventually::{DEADLINE, PAUSE};

const PROGRAM: &str = "/usr/sbin/sshd";

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SshdError {
    /// A program is missing.
    #[error("{program} is missing: install it with `apt-get install {package}`")]
    Missing {
        /// What is missing
        program: &'static str,
        /// What has it
        package: &'static str,
    },
    /// `ssh-keygen` failed.
    #[error("failed to make a key with ssh-keygen {0:?}")]
    Key(Vec<String>),
    /// The system said no.
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
    /// Has `ssh-keygen` write a key, such as `["-t", "ed25519"]`, with a passphrase that may be empty.
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
    state: Arc<State>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    over: AtomicBool,
    connections: AtomicUsize,
    open: AtomicUsize,
}

impl Sshd {
    /// A server with one key of each of these kinds (such as `["-t", "ed25519"]`), and more lines for its
    /// configuration.
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
                package: "openssh-server",
            });
        }
        let folder = tempfile::tempdir()?;
        let keys = host_keys.iter().map(|kind| KeyPair::generate(kind, ""));
        let host_keys = keys.collect::<Result<Vec<_>, _>>()?;
        write_configuration(folder.path(), &host_keys, lines)?;
        make_separation_folder()?;
        let socket = TcpListener::bind((address, 0))?;
        let address = socket.local_addr()?;
        let state = Arc::new(State::default());
        let listener = Listener {
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
    pub fn usual() -> Result<Self, SshdError> {
        Self::start(&[&["-t", "ed25519"]], &["AcceptEnv GIT_PROTOCOL"])
    }

    /// Where it listens.
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

    /// The lines by which a client knows this server.
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

    /// A folder for repositories.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How many connections there were.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Waits until no connection is open any more; whether that came true.
    #[must_use]
    pub fn becomes_idle(&self) -> bool {
        let end = Instant::now() + DEADLINE;
        while Instant::now() < end {
            if self.state.open.load(Ordering::SeqCst) == 0 {
                return true;
            }
            thread::sleep(PAUSE);
        }
        false
    }

    /// What the server wrote, for a test that fails.
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

struct Listener {
    socket: TcpListener,
    configuration: PathBuf,
    log: PathBuf,
    state: Arc<State>,
}

impl Listener {
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
            let served = self.command(stream);
            thread::spawn(move || {
                if let Ok(mut command) = served {
                    drop(command.status());
                }
                state.open.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for stream in open {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    fn command(&self, stream: TcpStream) -> io::Result<Command> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let mut command = Command::new(PROGRAM);
        command.args(["-i", "-e", "-f"]).arg(&self.configuration);
        command.stdin(Stdio::from(OwnedFd::from(stream.try_clone()?)));
        command.stdout(Stdio::from(OwnedFd::from(stream)));
        command.stderr(log);
        Ok(command)
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
