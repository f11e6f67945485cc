//! Workspaces as processes: an agent beside the manager, in its own session and folder.
//!
//! # Guarantees
//! An agent outlives the manager that started it; the next manager finds it by its record and
//! continues with it. It is stopped only by a change of the source or the environment, or by the
//! deletion of the Workspace: first SIGTERM, then SIGKILL.

mod environment;
mod files;
mod record;
mod source;
mod support;

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsString,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use kube::{Client, ResourceExt as _, runtime::reflector::ObjectRef};
use parking_lot::Mutex;
use pko_api::Workspace;
use pko_auth::token::audience;
use pko_core::workspace::{AgentEndpoint, RuntimeState, WAITING_FOR_AGENT, end_of_log, pod};
use rustix::process::Signal;
use tokio::{
    process::{Child, Command},
    time::Instant,
};

use self::{
    environment::{EnvironmentError, ReferenceReader},
    files::MountError,
    record::{AgentAuth, AgentRecord},
    source::WorkspaceSource,
};
use super::{AgentTarget, MarkError, ServedPrograms, WorkspaceId, WorkspaceRuntime, short_hash};
use crate::{
    agents::{AgentTokens, Credentials},
    manager_key,
    watch::WorkspaceTrigger,
};

/// A living agent is waited for: on a busy machine it is slow, and another one would be slower.
const START_DEADLINE: Duration = Duration::from_mins(5);
/// How long an agent waits for a run that it interrupts.
const STOP_PATIENCE: Duration = Duration::from_mins(9);
/// Longer than [`STOP_PATIENCE`].
const STOP_DEADLINE: Duration = Duration::from_mins(10);
const KILL_DEADLINE: Duration = Duration::from_secs(10);
const RETRY_AFTER: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// The folder of the agent in that of the workspace.
const DATA: &str = ".pko";
/// Nothing reports the end of a process.
const RECHECK_INTERVAL: Duration = Duration::from_secs(30);

/// What every workspace inherits of the manager's environment.
const PROGRAMS: [&str; 4] = ["PATH", "PKO_PULUMI", "PKO_ENGINE_STEP_DELAY", "TMPDIR"];
/// What fetching a program inherits in addition: proxies and trust.
const NETWORK: [&str; 11] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSH_KNOWN_HOSTS",
];

#[derive(Clone)]
pub(crate) struct ProcessRuntime {
    folder: PathBuf,
    agent: PathBuf,
    client: Client,
    tokens: AgentTokens,
    programs: ServedPrograms,
    attempts: Arc<Mutex<HashMap<String, StartAttempt>>>,
    /// Serializes changes of a folder.
    folder_locks: Arc<Mutex<HashMap<PathBuf, FolderLock>>>,
    trigger: WorkspaceTrigger,
}

type FolderLock = Arc<tokio::sync::Mutex<()>>;

#[derive(Clone, Debug)]
struct StartAttempt {
    fingerprint: String,
    failure: Option<(String, Instant)>,
}

#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Mounts(#[from] MountError),
    #[error("failed to prepare the folder of the workspace")]
    Folder(#[from] io::Error),
    #[error("failed to run the agent {program}")]
    Run { program: String, source: io::Error },
    #[error("failed to fetch the program: {0}")]
    Fetch(String),
    #[error("the previous agent does not stop")]
    NotEnding,
    #[error("the agent ended before it listened: {0}")]
    Ended(String),
    #[error("the agent did not listen within {0} s and was killed")]
    NotListening(u64),
    #[error("another agent still serves this workspace; it is stopped before the next attempt")]
    Occupied,
}

impl WorkspaceRuntime for ProcessRuntime {
    fn wait_until_synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(true))
    }

    fn ensure<'a>(&'a self, workspace: &'a Workspace) -> BoxFuture<'a, RuntimeState> {
        Box::pin(self.find_or_start(workspace))
    }

    /// The journal is in the workspace's folder, which belongs to one Workspace as long as that
    /// exists.
    fn agent(&self, workspace: &Workspace) -> Option<AgentTarget> {
        let folder = self.folder(workspace);
        AgentRecord::read(&folder)?;
        Some(AgentTarget {
            address: format!("unix:{}", record::socket(&folder).display()),
            credentials: self.credentials(workspace),
            instance: workspace.uid()?,
            namespace: workspace.namespace().unwrap_or_default(),
            owns_runs: true,
        })
    }

    fn is_initialized(&self, workspace: &Workspace) -> bool {
        AgentRecord::read(&self.folder(workspace)).is_some_and(|record| record.initialized)
    }

    fn local_path(&self, workspace: &Workspace, path: &str) -> String {
        files::local_path(&self.folder(workspace), path)
            .display()
            .to_string()
    }

    /// Stops the agent and removes its files in the background, because a run may take minutes to
    /// end. Does nothing while the folder is locked: a later call does it.
    fn remove(&self, workspace: &WorkspaceId) {
        let folder = self.folder_of(&workspace.namespace, &workspace.name);
        let Ok(lock) = self.folder_lock(&folder).try_lock_owned() else {
            return;
        };
        let uid = workspace.uid.clone();
        tokio::spawn(async move {
            let _lock = lock;
            // The folder may belong to a new Workspace of that name by now.
            if AgentRecord::read(&folder).is_none_or(|record| record.uid != uid)
                || !stop(&folder).await
            {
                return;
            }
            if let Err(error) = tokio::fs::remove_dir_all(&folder).await {
                tracing::warn!(folder = %folder.display(), %error, "Failed to remove the files of a workspace");
            }
            if let Some(namespace) = folder.parent() {
                // Fails unless it is empty.
                let _ = fs::remove_dir(namespace);
            }
        });
    }

    fn unmanaged(&self) -> Vec<WorkspaceId> {
        let mut found = Vec::new();
        for namespace in children(&self.folder) {
            for workspace in children(&namespace) {
                let name = |path: &Path| {
                    path.file_name()
                        .map(|name| name.to_string_lossy().into_owned())
                };
                if let (Some(namespace), Some(name), Some(record)) = (
                    name(&namespace),
                    name(&workspace),
                    AgentRecord::read(&workspace),
                ) {
                    found.push(WorkspaceId {
                        namespace,
                        name,
                        uid: record.uid,
                    });
                }
            }
        }
        found
    }

    fn mark_initialized<'a>(
        &'a self,
        workspace: &'a Workspace,
        _instance: &'a str,
    ) -> BoxFuture<'a, Result<(), MarkError>> {
        Box::pin(async move { Ok(self.record_initialized(workspace)?) })
    }
}

impl ProcessRuntime {
    pub(crate) fn new(
        folder: PathBuf,
        agent: PathBuf,
        client: Client,
        tokens: AgentTokens,
        programs: ServedPrograms,
        trigger: WorkspaceTrigger,
    ) -> Self {
        Self {
            folder,
            agent,
            client,
            tokens,
            programs,
            attempts: Arc::default(),
            folder_locks: Arc::default(),
            trigger,
        }
    }

    fn folder_of(&self, namespace: &str, name: &str) -> PathBuf {
        self.folder.join(namespace).join(name)
    }

    fn folder(&self, workspace: &Workspace) -> PathBuf {
        self.folder_of(
            &workspace.namespace().unwrap_or_default(),
            &workspace.name_any(),
        )
    }

    /// The credentials that the agent accepts, by its record.
    fn credentials(&self, workspace: &Workspace) -> Credentials {
        let record = AgentRecord::read(&self.folder(workspace));
        let audience = audience_of(workspace);
        match record.map(|record| record.auth).unwrap_or_default() {
            AgentAuth::None => Credentials::None,
            AgentAuth::Manager { .. } => Credentials::Manager {
                tokens: Arc::clone(&self.tokens.manager),
                audience,
            },
            AgentAuth::Kube => match self.tokens.service_account.clone() {
                Some(tokens) => Credentials::ServiceAccount { tokens, audience },
                None => Credentials::Unavailable,
            },
        }
    }

    /// The record of the next agent starts without the mark.
    fn record_initialized(&self, workspace: &Workspace) -> io::Result<()> {
        let folder = self.folder(workspace);
        let Some(record) = AgentRecord::read(&folder)
            .filter(|record| Some(&record.uid) == workspace.metadata.uid.as_ref())
        else {
            return Ok(());
        };
        let record = AgentRecord {
            initialized: true,
            ..record
        };
        record.write(&folder)
    }

    /// Finds a workspace's agent, or starts one in the background.
    async fn find_or_start(&self, workspace: &Workspace) -> RuntimeState {
        if let Some(message) = support::unsupported(&workspace.spec) {
            return RuntimeState::Invalid(message);
        }
        if let Err(invalid) = pod::check(workspace) {
            return RuntimeState::Invalid(invalid.to_string());
        }
        let folder = self.folder(workspace);
        let fingerprint = fingerprint(workspace);
        if self.is_running(&folder, workspace, &fingerprint).await {
            return RuntimeState::Running(AgentEndpoint {
                address: format!("unix:{}", record::socket(&folder).display()),
                name: format!("\"{}\"", workspace.name_any()),
                is_outdated: false,
                requeue_after: RECHECK_INTERVAL,
            });
        }
        let key = format!(
            "{}/{}",
            workspace.namespace().unwrap_or_default(),
            workspace.name_any()
        );
        self.attempt(key, fingerprint, workspace)
    }

    async fn is_running(&self, folder: &Path, workspace: &Workspace, fingerprint: &str) -> bool {
        let Some(record) = AgentRecord::read(folder) else {
            return false;
        };
        let is_current = record.fingerprint == fingerprint && Some(record.uid) == workspace.uid();
        is_current
            && self.accepts_manager(&record.auth)
            && record::listener(folder).await == Some(record.process)
    }

    /// Whether an agent accepts this manager. One with another key never will, and is replaced.
    fn accepts_manager(&self, auth: &AgentAuth) -> bool {
        match auth {
            AgentAuth::Manager { key } => *key == self.tokens.manager.key_id(),
            AgentAuth::None | AgentAuth::Kube => true,
        }
    }

    /// Starts an agent unless one is starting, or has just failed to.
    fn attempt(&self, key: String, fingerprint: String, workspace: &Workspace) -> RuntimeState {
        let mut attempts = self.attempts.lock();
        match attempts.get(&key) {
            // Its end triggers the Workspace, which then starts what it needs.
            Some(StartAttempt { failure: None, .. }) => {}
            Some(StartAttempt {
                fingerprint: last,
                failure: Some((message, at)),
            }) if *last == fingerprint && at.elapsed() < RETRY_AFTER => {
                return RuntimeState::Failed(message.clone());
            }
            _ => {
                attempts.insert(
                    key.clone(),
                    StartAttempt {
                        fingerprint: fingerprint.clone(),
                        failure: None,
                    },
                );
                let (this, workspace) = (self.clone(), workspace.clone());
                tokio::spawn(async move { this.start_and_wake(key, fingerprint, workspace).await });
            }
        }
        RuntimeState::Starting(WAITING_FOR_AGENT.to_owned())
    }

    async fn start_and_wake(self, key: String, fingerprint: String, workspace: Workspace) {
        let result = self.start(&workspace, &fingerprint).await;
        match result {
            Ok(()) => {
                self.attempts.lock().remove(&key);
            }
            Err(error) => {
                let message = full_text(&error);
                tracing::warn!(
                    workspace = key,
                    error = message,
                    "Workspace failed to start"
                );
                let attempt = StartAttempt {
                    fingerprint,
                    failure: Some((message, Instant::now())),
                };
                self.attempts.lock().insert(key, attempt);
            }
        }
        let name = ObjectRef::new(&workspace.name_any())
            .within(&workspace.namespace().unwrap_or_default());
        let _ = self.trigger.send(name);
    }

    fn folder_lock(&self, folder: &Path) -> FolderLock {
        let mut locks = self.folder_locks.lock();
        locks.entry(folder.to_owned()).or_default().clone()
    }

    async fn start(&self, workspace: &Workspace, fingerprint: &str) -> Result<(), StartError> {
        let folder = self.folder(workspace);
        let lock = self.folder_lock(&folder);
        let _lock = lock.lock().await;
        if self.adopt(&folder, workspace, fingerprint).await {
            return Ok(());
        }
        if !stop(&folder).await {
            return Err(StartError::NotEnding);
        }
        files::private_folder(&folder)?;
        if let Some(sockets) = record::socket(&folder).parent() {
            files::private_folder(sockets)?;
        }
        // First of all, so that the owner of the folder is always known.
        let mut record = AgentRecord {
            uid: workspace.uid().unwrap_or_default(),
            fingerprint: fingerprint.to_owned(),
            process: 0,
            auth: AgentAuth::Manager {
                key: self.tokens.manager.key_id(),
            },
            initialized: false,
        };
        record.write(&folder)?;
        let mut child = self.serve(workspace, &folder).await?;
        record.process = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .unwrap_or_default();
        if let Err(error) = record.write(&folder) {
            child.kill().await?;
            return Err(error.into());
        }
        wait_or_kill(&folder, record.process, START_DEADLINE, child).await
    }

    /// Waits for an agent that an earlier manager started for the same workspace, if it is alive
    /// and does not listen yet. Returns whether it listens.
    async fn adopt(&self, folder: &Path, workspace: &Workspace, fingerprint: &str) -> bool {
        let record = AgentRecord::read(folder).filter(|record| {
            record.fingerprint == fingerprint
                && Some(&record.uid) == workspace.metadata.uid.as_ref()
                && self.accepts_manager(&record.auth)
        });
        let Some(AgentRecord { process, .. }) = record else {
            return false;
        };
        let is_alive = || record::is_agent(process, folder);
        let waited = wait_until_listening(folder, process, START_DEADLINE, is_alive);
        waited.await == StartResult::Listening
    }

    async fn serve(&self, workspace: &Workspace, folder: &Path) -> Result<Child, StartError> {
        let namespace = workspace.namespace().unwrap_or_default();
        let reader = ReferenceReader {
            client: &self.client,
            namespace: &namespace,
        };
        let environment = reader.environment(&workspace.spec).await?;
        let secret = secret_variables(&environment.secret);
        let mounts = files::mounts(&workspace.spec);
        let environment = environment
            .values
            .into_iter()
            .map(|(name, value)| (name, files::local_value(folder, &mounts, value)));
        files::write_mounts(folder, &mounts, &reader).await?;
        let source = self.fetch(workspace, folder, &reader).await?;
        let log = File::create(folder.join("agent.log"))?;
        let log_level = workspace.spec.pulumi_log_level.unwrap_or(0).to_string();
        self.command(folder)
            .args(["serve", "--skip-install", "--own-session", "--workspace"])
            .arg(&source)
            .arg("--listen")
            .arg(format!("unix:{}", record::socket(folder).display()))
            .arg("--data-dir")
            .arg(folder.join(DATA))
            .args(["--stop-patience", &STOP_PATIENCE.as_secs().to_string()])
            .args(["--pulumi-log-level", &log_level])
            .args(["--auth-mode", "manager", "--kube-audience"])
            .arg(audience_of(workspace))
            .arg("--manager-public-key")
            .arg(manager_key::public_file(&self.folder))
            .envs(environment)
            .env(pod::SECRET_VARIABLES, secret)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|source| self.run_error(source))
    }

    /// The agent, with a minimal environment.
    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.agent);
        let home = folder.join("home");
        command
            .env_clear()
            .envs(inherited(&PROGRAMS))
            .env("HOME", &home)
            .env("PULUMI_HOME", home.join(".pulumi"))
            .env("PULUMI_SKIP_UPDATE_CHECK", "true")
            .current_dir(folder)
            .stdin(Stdio::null());
        command
    }

    fn run_error(&self, source: io::Error) -> StartError {
        StartError::Run {
            program: self.agent.display().to_string(),
            source,
        }
    }

    /// Fetches the program. Returns its folder.
    async fn fetch(
        &self,
        workspace: &Workspace,
        folder: &Path,
        reader: &ReferenceReader<'_>,
    ) -> Result<PathBuf, StartError> {
        let target = folder.join("source");
        let mut spec = workspace.spec.clone();
        if let Some(served) = self.programs.artifact(workspace) {
            spec.flux = Some(served);
        }
        let fetch = match source::of(&spec) {
            Some(WorkspaceSource::Fetched(fetch)) => fetch,
            Some(WorkspaceSource::Local(folder)) => return Ok(folder.into()),
            None => return Err(StartError::Fetch("the Workspace has no source".to_owned())),
        };
        fs::create_dir_all(folder.join("home"))?;
        let output = self
            .command(folder)
            .args(["init", "--target-dir"])
            .arg(&target)
            .args(fetch.arguments)
            .args(["--source-dir", &fetch.inside])
            .envs(inherited(&NETWORK))
            .envs(reader.variables(&fetch.variables).await?)
            .env(
                pod::SECRET_VARIABLES,
                secret_variables(&environment::secret_names(&fetch.variables)),
            )
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| self.run_error(error))?;
        if !output.status.success() {
            let output = [output.stdout, output.stderr].concat();
            let output = String::from_utf8_lossy(&output);
            return Err(StartError::Fetch(end_of_log(&output)));
        }
        Ok(target.join(fetch.inside.trim_start_matches('/')))
    }
}

/// The names of the variables that the agent masks.
fn secret_variables(names: &BTreeSet<String>) -> String {
    serde_json::json!({ "names": names }).to_string()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect()
}

/// Those variables that the manager itself has.
fn inherited(names: &[&'static str]) -> Vec<(&'static str, OsString)> {
    let set = names.iter();
    set.filter_map(|name| Some((*name, std::env::var_os(name)?)))
        .collect()
}

fn audience_of(workspace: &Workspace) -> String {
    audience(
        &workspace.namespace().unwrap_or_default(),
        &workspace.name_any(),
    )
}

/// A change of these needs another agent: the source, the environment and the mounts. Config is not
/// included, because each run carries its own.
fn fingerprint(workspace: &Workspace) -> String {
    let spec = &workspace.spec;
    let parts = serde_json::json!([
        spec.flux,
        spec.local,
        spec.project_info,
        spec.env,
        spec.env_from,
        spec.pod_template,
        spec.pulumi_log_level
    ]);
    let mut text = parts.to_string();
    // Added conditionally: fingerprints of earlier versions stay valid.
    if let Some(git) = &spec.git {
        text.push_str(&serde_json::json!(git).to_string());
    }
    short_hash(text.as_bytes(), 16)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartResult {
    Listening,
    Ended,
    TimedOut,
}

/// Waits until a new agent listens. Kills one that does not.
async fn wait_or_kill(
    folder: &Path,
    process: i32,
    deadline: Duration,
    mut child: Child,
) -> Result<(), StartError> {
    let is_alive = || matches!(child.try_wait(), Ok(None));
    match wait_until_listening(folder, process, deadline, is_alive).await {
        StartResult::Listening => Ok(()),
        StartResult::TimedOut => {
            child.kill().await?;
            Err(StartError::NotListening(deadline.as_secs()))
        }
        StartResult::Ended if is_locked(folder) => Err(StartError::Occupied),
        StartResult::Ended => {
            let log = fs::read_to_string(folder.join("agent.log")).unwrap_or_default();
            Err(StartError::Ended(end_of_log(&log)))
        }
    }
}

async fn wait_until_listening(
    folder: &Path,
    process: i32,
    deadline: Duration,
    mut is_alive: impl FnMut() -> bool,
) -> StartResult {
    let end = Instant::now() + deadline;
    loop {
        // Checked first: an agent that listened and then ended did start.
        let is_alive = is_alive();
        if record::listener(folder).await == Some(process) {
            return StartResult::Listening;
        }
        if !is_alive {
            return StartResult::Ended;
        }
        if Instant::now() > end {
            return StartResult::TimedOut;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether an agent has locked the journal of a folder. It keeps the lock until all of its threads
/// are gone, which can be long after its command line is.
fn is_locked(folder: &Path) -> bool {
    let Ok(lock) = File::open(folder.join(DATA).join("lock")) else {
        return false;
    };
    let is_locked = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
    // Not left to the drop: a child between its fork and its exec has a copy of the file.
    let _ = lock.unlock();
    is_locked
}

/// Stops the agents of a folder: the recorded one, one that listens without a record, and any that
/// has not got that far. Returns whether they are gone.
async fn stop(folder: &Path) -> bool {
    let recorded = AgentRecord::read(folder).map(|record| record.process);
    let agents: BTreeSet<i32> = recorded
        .into_iter()
        .chain(record::listener(folder).await)
        .chain(record::agents(folder))
        .collect();
    let is_gone = || !agents.iter().any(|agent| record::is_agent(*agent, folder));
    for (signal, patience) in [(Signal::TERM, STOP_DEADLINE), (Signal::KILL, KILL_DEADLINE)] {
        for agent in &agents {
            record::signal(*agent, folder, signal);
        }
        let end = Instant::now() + patience;
        while !is_gone() && Instant::now() <= end {
            tokio::time::sleep(PAUSE).await;
        }
    }
    let end = Instant::now() + KILL_DEADLINE;
    while is_locked(folder) && Instant::now() <= end {
        tokio::time::sleep(PAUSE).await;
    }
    let is_free = is_gone() && !is_locked(folder);
    if is_free {
        let _ = fs::remove_file(record::socket(folder));
    }
    is_free
}

fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    /// A workspace's folder with the lock of its agent's journal.
    fn workspace() -> (tempfile::TempDir, PathBuf, File) {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("namespace/name");
        fs::create_dir_all(folder.join(DATA)).unwrap();
        fs::create_dir_all(record::socket(&folder).parent().unwrap()).unwrap();
        let lock = File::create(folder.join(DATA).join("lock")).unwrap();
        (all, folder, lock)
    }

    /// Runs until its standard input ends, with the socket of a folder in its command line.
    fn slow_agent(folder: &Path) -> Child {
        let listen = format!("unix:{}", record::socket(folder).display());
        Command::new("sh")
            .args(["-c", "read -r _", "agent", &listen])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn id(child: &Child) -> i32 {
        i32::try_from(child.id().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn agent_start_waits_for_a_slow_agent() {
        let (_all, folder, _lock) = workspace();
        let this = i32::try_from(std::process::id()).unwrap();
        let child = slow_agent(&folder);
        let listens = async {
            tokio::time::sleep(20 * PAUSE).await;
            UnixListener::bind(record::socket(&folder)).unwrap()
        };
        let started = wait_or_kill(&folder, this, START_DEADLINE, child);
        let (started, _socket) = tokio::join!(started, listens);
        started.unwrap();
    }

    #[tokio::test]
    async fn agent_that_never_listens_is_killed() {
        let (_all, folder, _lock) = workspace();
        let child = slow_agent(&folder);
        let process = id(&child);
        let started = wait_or_kill(&folder, process, 2 * PAUSE, child).await;
        assert!(matches!(started, Err(StartError::NotListening(_))));
        assert!(!record::is_agent(process, &folder));
    }

    #[tokio::test]
    async fn agent_start_reports_another_agent_without_log() {
        let (_all, folder, lock) = workspace();
        lock.lock().unwrap();
        fs::write(folder.join("agent.log"), "it holds the lock").unwrap();
        let child = Command::new("false").spawn().unwrap();
        let process = id(&child);
        let error = wait_or_kill(&folder, process, START_DEADLINE, child).await;
        let error = error.unwrap_err();
        assert!(error.to_string().starts_with("another agent still serves"));
    }

    #[tokio::test]
    async fn agent_stop_ends_one_that_neither_listens_nor_is_recorded() {
        let (_all, folder, _lock) = workspace();
        let mut child = slow_agent(&folder);
        assert!(stop(&folder).await);
        assert!(!child.wait().await.unwrap().success());
    }

    #[tokio::test]
    async fn agent_stop_returns_when_the_lock_is_free() {
        let (_all, folder, lock) = workspace();
        lock.lock().unwrap();
        let (stopped, ()) = tokio::join!(stop(&folder), async {
            tokio::time::sleep(10 * PAUSE).await;
            drop(lock);
        });
        assert!(stopped);
        assert!(!is_locked(&folder));
    }
}
