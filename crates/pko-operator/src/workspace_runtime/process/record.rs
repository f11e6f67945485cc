//! The file in a workspace's folder by which the next manager adopts its agent.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;

use crate::workspace_runtime::short_hash;

const FILE: &str = "record.json";
/// The path of a socket has at most 108 characters, which a namespace and a name may exceed.
/// Namespaces can't start with a dot.
const SOCKETS: &str = ".sockets";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentRecord {
    /// Of the Workspace.
    pub(crate) uid: String,
    pub(crate) fingerprint: String,
    pub(crate) process: i32,
    /// Records of the first versions lack it; their agents accept every caller.
    #[serde(default)]
    pub(crate) auth: AgentAuth,
    #[serde(default)]
    pub(crate) initialized: bool,
}

/// Which callers an agent accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum AgentAuth {
    /// Every caller that can open its socket.
    #[default]
    None,
    /// The manager with this key id.
    Manager { key: String },
    /// Callers that the API server authenticates and authorizes.
    Kube,
}

impl AgentRecord {
    /// None if it is missing or unreadable.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// Writes the record atomically.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let unfinished = folder.join(format!("{FILE}.unfinished"));
        fs::write(&unfinished, serde_json::to_vec(self)?)?;
        fs::rename(unfinished, folder.join(FILE))
    }
}

/// Whether a process is the agent of a folder. The id may belong to another program by now; the
/// agent has its socket in its command line.
pub(crate) fn is_agent(process: i32, folder: &Path) -> bool {
    let command_line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let socket = socket(folder);
    let socket = socket.as_os_str().as_encoded_bytes();
    command_line
        .split(|byte| *byte == 0)
        .any(|argument| argument.ends_with(socket))
}

/// All agents of a folder, also those that don't listen.
pub(crate) fn agents(folder: &Path) -> Vec<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten();
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process| is_agent(*process, folder))
        .collect()
}

/// Sends a signal if the process still is the agent of the folder.
pub(crate) fn signal(process: i32, folder: &Path, signal: Signal) {
    if let Some(id) = Pid::from_raw(process).filter(|_| is_agent(process, folder)) {
        let _ = rustix::process::kill_process(id, signal);
    }
}

/// The socket of the agent of `<root>/<namespace>/<name>`.
pub(crate) fn socket(folder: &Path) -> PathBuf {
    let mut parts = folder.iter().rev();
    let (name, namespace) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let both = [namespace.as_encoded_bytes(), b"/", name.as_encoded_bytes()].concat();
    let short = short_hash(&both, 8);
    let all = folder.parent().and_then(Path::parent).unwrap_or(folder);
    all.join(SOCKETS).join(short)
}

/// The process that listens at the socket of a folder.
pub(crate) async fn listener(folder: &Path) -> Option<i32> {
    let stream = UnixStream::connect(socket(folder)).await.ok()?;
    stream.peer_cred().ok()?.pid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_read_as_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(AgentRecord::read(folder.path()), None);
        let record = AgentRecord {
            uid: "u".into(),
            fingerprint: "f".into(),
            process: 1,
            auth: AgentAuth::Manager { key: "k".into() },
            initialized: true,
        };
        record.write(folder.path()).unwrap();
        assert_eq!(AgentRecord::read(folder.path()), Some(record));
    }

    #[test]
    fn record_without_auth_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let old = r#"{"uid":"u","fingerprint":"f","process":1}"#;
        fs::write(folder.path().join(FILE), old).unwrap();
        assert_eq!(
            AgentRecord::read(folder.path()).unwrap().auth,
            AgentAuth::None
        );
    }

    #[test]
    fn socket_path_is_short_for_long_names() {
        let folder = Path::new("/w").join("n".repeat(63)).join("m".repeat(63));
        assert_eq!(socket(&folder).parent(), Some(Path::new("/w/.sockets")));
        assert!(socket(&folder).as_os_str().len() < 40);
        assert_ne!(socket(&folder), socket(Path::new("/w/a/b")));
    }

    #[test]
    fn process_of_another_program_is_not_an_agent() {
        let folder = tempfile::tempdir().unwrap();
        let this = i32::try_from(std::process::id()).unwrap();
        assert!(!is_agent(this, folder.path()));
        assert!(!is_agent(0, folder.path()));
    }

    #[tokio::test]
    async fn listener_is_identified_by_its_process() {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("namespace/name");
        fs::create_dir_all(socket(&folder).parent().unwrap()).unwrap();
        assert_eq!(listener(&folder).await, None);
        let _socket = tokio::net::UnixListener::bind(socket(&folder)).unwrap();
        let this = i32::try_from(std::process::id()).unwrap();
        assert_eq!(listener(&folder).await, Some(this));
    }
}
