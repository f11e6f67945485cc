//! Process workspaces: an agent beside the manager, in a session and a folder of its own.
//!
//! # Guarantees
//! An agent outlives the manager that started it; the next one finds it by its record and goes on with it. Only
//! another source or environment, or the end of the Workspace, ends it: first SIGTERM, then SIGKILL.

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
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::{Client, ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Decoded, Workspace};
use pko_core::workspace::{AgentEndpoint, RuntimeState, WAITING_FOR_AGENT, end_of_log, pod};
use pko_proto::token::audience;
use rustix::process::Signal;
use tokio::{
    process::{Child, Command},
    sync::mpsc::UnboundedSender,
    time::Instant,
};

use self::{
    environment::{EnvironmentError, Reader},
    files::MountError,
    record::{Auth, Record},
    source::Source,
};
use super::{AgentAt, short_hash};
use crate::{
    agents::{AccountTokens, Credentials, ManagerTokens, ServiceAccountIssuer},
    manager_key,
};

/// How long an agent may take to listen. One that is alive is waited for: on a busy machine it is
/// slow, and another one would be slower.
const START_DEADLINE: Duration = Duration::from_mins(5);
/// How long an agent leaves a run that it interrupts.
const STOP_PATIENCE: Duration = Duration::from_mins(9);
/// How long an agent may take to end before it is killed: longer than it is patient.
const STOP_DEADLINE: Duration = Duration::from_mins(10);
/// How long a killed agent may take to be gone.
const KILL_DEADLINE: Duration = Duration::from_secs(10);
/// After a start that failed, the next one is not before this.
const RETRY_AFTER: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// The agent's own folder in that of a workspace.
const DATA: &str = ".pko";
/// A process that is gone tells nobody.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Where programs are: what every workspace has of the manager's environment.
const PROGRAMS: [&str; 4] = ["PATH", "PKO_PULUMI", "PKO_ENGINE_STEP_DELAY", "TMPDIR"];
/// How servers are reached and whom of them we trust: what a fetch has of it, too.
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

/// What wakes a Workspace's controller.
pub(crate) type Wake = UnboundedSender<ObjectRef<Decoded<Workspace>>>;

/// All process workspaces.
#[derive(Clone)]
pub(crate) struct Processes {
    folder: PathBuf,
    agent: PathBuf,
    client: Client,
    tokens: Tokens,
    attempts: Arc<Mutex<HashMap<String, Attempt>>>,
    /// One for each folder: it is made, emptied or removed by one at a time.
    turns: Arc<Mutex<HashMap<PathBuf, Turn>>>,
    wake: Wake,
}

/// What the manager has to show to agents.
#[derive(Clone)]
pub(crate) struct Tokens {
    pub(crate) manager: Arc<ManagerTokens>,
    /// Where it is known which service account the manager is.
    pub(crate) account: Option<Arc<AccountTokens<ServiceAccountIssuer>>>,
}

type Turn = Arc<tokio::sync::Mutex<()>>;

/// A start of an agent, and how it went.
#[derive(Clone, Debug)]
struct Attempt {
    fingerprint: String,
    failure: Option<(String, Instant)>,
}

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Mounts(#[from] MountError),
    #[error("failed to prepare the workspace's folder")]
    Folder(#[from] io::Error),
    #[error("failed to run the agent {program}")]
    Run { program: String, source: io::Error },
    #[error("failed to fetch the program: {0}")]
    Fetch(String),
    #[error("the agent of before does not end")]
    NotEnding,
    #[error("the agent ended before it listened: {0}")]
    Ended(String),
    #[error("the agent did not listen within {0} s and was killed")]
    NotListening(u64),
    #[error("another agent still serves this workspace; it is stopped before the next attempt")]
    Occupied,
}

impl Processes {
    /// Workspaces below a folder, run by this agent.
    pub(crate) fn new(
        folder: PathBuf,
        agent: PathBuf,
        client: Client,
        tokens: Tokens,
        wake: Wake,
    ) -> Self {
        Self {
            folder,
            agent,
            client,
            tokens,
            attempts: Arc::default(),
            turns: Arc::default(),
            wake,
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

    /// Where a file of the workspace's pod really is.
    pub(crate) fn local_path(&self, workspace: &Workspace, path: &str) -> String {
        files::local_path(&self.folder(workspace), path)
            .display()
            .to_string()
    }

    /// What the agent of a workspace wants to see, as its record says.
    pub(crate) fn credentials(&self, workspace: &Workspace) -> Credentials {
        let record = Record::read(&self.folder(workspace));
        let audience = audience_of(workspace);
        match record.map(|record| record.auth).unwrap_or_default() {
            Auth::None => Credentials::Nothing,
            Auth::Manager { .. } => Credentials::Manager {
                tokens: Arc::clone(&self.tokens.manager),
                audience,
            },
            Auth::Kube => match self.tokens.account.clone() {
                Some(tokens) => Credentials::Account { tokens, audience },
                None => Credentials::Unknown,
            },
        }
    }

    /// Whether the agent of now has installed packages and selected stacks.
    pub(crate) fn is_initialized(&self, workspace: &Workspace) -> bool {
        Record::read(&self.folder(workspace)).is_some_and(|record| record.initialized)
    }

    /// Remembers that in the record, which the next agent starts anew.
    pub(crate) fn mark_initialized(&self, workspace: &Workspace) -> io::Result<()> {
        let folder = self.folder(workspace);
        let Some(record) = Record::read(&folder)
            .filter(|record| Some(&record.uid) == workspace.metadata.uid.as_ref())
        else {
            return Ok(());
        };
        let record = Record {
            initialized: true,
            ..record
        };
        record.write(&folder)
    }

    /// The agent of a workspace, where its socket is. Its journal is in the workspace's folder, which is the
    /// Workspace's as long as that lives.
    pub(crate) fn agent(&self, workspace: &Workspace) -> Option<AgentAt> {
        let folder = self.folder(workspace);
        Record::read(&folder)?;
        Some(AgentAt {
            address: format!("unix:{}", record::socket(&folder).display()),
            credentials: self.credentials(workspace),
            instance: workspace.uid()?,
            owns_runs: true,
        })
    }

    /// Finds a workspace's agent, or starts one in the background.
    pub(crate) async fn ensure(&self, workspace: &Workspace) -> RuntimeState {
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
                look_again: LOOK_AGAIN,
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
        let Some(record) = Record::read(folder) else {
            return false;
        };
        let wanted = record.fingerprint == fingerprint && Some(record.uid) == workspace.uid();
        wanted
            && self.is_known_to(&record.auth)
            && record::listener(folder).await == Some(record.process)
    }

    /// Whether an agent would let this manager in. One that knows another key never will: it has to go.
    fn is_known_to(&self, auth: &Auth) -> bool {
        match auth {
            Auth::Manager { key } => *key == self.tokens.manager.key_id(),
            Auth::None | Auth::Kube => true,
        }
    }

    /// Starts an agent unless one is being started, or just failed to be.
    fn attempt(&self, key: String, fingerprint: String, workspace: &Workspace) -> RuntimeState {
        let Ok(mut attempts) = self.attempts.lock() else {
            return RuntimeState::Failed("a start went wrong".to_owned());
        };
        match attempts.get(&key) {
            // Whatever it is for: its end wakes the Workspace, and that starts what is wanted then.
            Some(Attempt { failure: None, .. }) => {}
            Some(Attempt {
                fingerprint: last,
                failure: Some((message, at)),
            }) if *last == fingerprint && at.elapsed() < RETRY_AFTER => {
                return RuntimeState::Failed(message.clone());
            }
            _ => {
                attempts.insert(
                    key.clone(),
                    Attempt {
                        fingerprint: fingerprint.clone(),
                        failure: None,
                    },
                );
                let (this, workspace) = (self.clone(), workspace.clone());
                tokio::spawn(async move { this.start_and_tell(key, fingerprint, workspace).await });
            }
        }
        RuntimeState::Starting(WAITING_FOR_AGENT.to_owned())
    }

    async fn start_and_tell(self, key: String, fingerprint: String, workspace: Workspace) {
        let result = self.start(&workspace, &fingerprint).await;
        if let Ok(mut attempts) = self.attempts.lock() {
            match result {
                Ok(()) => {
                    attempts.remove(&key);
                }
                Err(error) => {
                    tracing::warn!(workspace = key, error = %full_text(&error), "Workspace did not start");
                    attempts.insert(
                        key,
                        Attempt {
                            fingerprint,
                            failure: Some((full_text(&error), Instant::now())),
                        },
                    );
                }
            }
        }
        let name = ObjectRef::new(&workspace.name_any())
            .within(&workspace.namespace().unwrap_or_default());
        let _ = self.wake.send(name);
    }

    fn turn(&self, folder: &Path) -> Turn {
        let turns = self.turns.lock();
        turns
            .map(|mut turns| turns.entry(folder.to_owned()).or_default().clone())
            .unwrap_or_default()
    }

    async fn start(&self, workspace: &Workspace, fingerprint: &str) -> Result<(), StartError> {
        let folder = self.folder(workspace);
        let turn = self.turn(&folder);
        let _turn = turn.lock().await;
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
        // Before there is anything in the folder: whatever happens now, it is known whose it is.
        let mut record = Record {
            uid: workspace.uid().unwrap_or_default(),
            fingerprint: fingerprint.to_owned(),
            process: 0,
            auth: Auth::Manager {
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
        listening(&folder, record.process, START_DEADLINE, child).await
    }

    /// Waits for an agent that an earlier manager started for the same workspace, if it is alive and
    /// does not listen yet. Returns whether it listens.
    async fn adopt(&self, folder: &Path, workspace: &Workspace, fingerprint: &str) -> bool {
        let record = Record::read(folder).filter(|record| {
            record.fingerprint == fingerprint
                && Some(&record.uid) == workspace.metadata.uid.as_ref()
                && self.is_known_to(&record.auth)
        });
        let Some(Record { process, .. }) = record else {
            return false;
        };
        let is_alive = || record::is_agent(process, folder);
        let waited = wait_until_listening(folder, process, START_DEADLINE, is_alive);
        waited.await == Start::Listening
    }

    /// Prepares the folder and starts an agent in it.
    async fn serve(&self, workspace: &Workspace, folder: &Path) -> Result<Child, StartError> {
        let namespace = workspace.namespace().unwrap_or_default();
        let reader = Reader {
            client: &self.client,
            namespace: &namespace,
        };
        let environment = reader.environment(&workspace.spec).await?;
        let mounts = files::mounts(&workspace.spec);
        let environment = environment
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
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|source| self.not_run(source))
    }

    /// The agent, with an environment of its own: nothing of the manager's but where programs are.
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

    fn not_run(&self, source: io::Error) -> StartError {
        StartError::Run {
            program: self.agent.display().to_string(),
            source,
        }
    }

    /// Fetches the program and says where it is.
    async fn fetch(
        &self,
        workspace: &Workspace,
        folder: &Path,
        reader: &Reader<'_>,
    ) -> Result<PathBuf, StartError> {
        let target = folder.join("source");
        let fetch = match source::of(&workspace.spec) {
            Some(Source::Elsewhere(fetch)) => fetch,
            Some(Source::Here(folder)) => return Ok(folder.into()),
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
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| self.not_run(error))?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            return Err(StartError::Fetch(end_of_log(&said)));
        }
        Ok(target.join(fetch.inside.trim_start_matches('/')))
    }

    /// Ends what runs for the Workspace with this uid and removes its files, in the background: a run that is under
    /// way may take minutes to end. Where somebody is at the folder, a later call does it.
    pub(crate) fn remove(&self, namespace: &str, name: &str, uid: &str) {
        let folder = self.folder_of(namespace, name);
        let Ok(turn) = self.turn(&folder).try_lock_owned() else {
            return;
        };
        let uid = uid.to_owned();
        tokio::spawn(async move {
            let _turn = turn;
            // It may have gone to a new Workspace of that name since.
            if Record::read(&folder).is_none_or(|record| record.uid != uid) || !stop(&folder).await
            {
                return;
            }
            if let Err(error) = tokio::fs::remove_dir_all(&folder).await {
                tracing::warn!(folder = %folder.display(), %error, "Workspace's files could not be removed");
            }
            if let Some(namespace) = folder.parent() {
                // Only if it is empty.
                let _ = fs::remove_dir(namespace);
            }
        });
    }

    /// The workspaces that have a record: namespace, name, and the uid of the Workspace they run for.
    pub(crate) fn recorded(&self) -> Vec<(String, String, String)> {
        let mut found = Vec::new();
        for namespace in children(&self.folder) {
            for workspace in children(&namespace) {
                let name = |path: &Path| {
                    path.file_name()
                        .map(|name| name.to_string_lossy().into_owned())
                };
                if let (Some(namespace), Some(name), Some(record)) =
                    (name(&namespace), name(&workspace), Record::read(&workspace))
                {
                    found.push((namespace, name, record.uid));
                }
            }
        }
        found
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect()
}

/// The audience of the tokens for a workspace's agent.
/// Those variables of the manager's own that are set.
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

/// What a running agent depends on: the source, the environment and the mounts. Config is not in it: each
/// run brings its own.
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
    // Only where there is one: the agents of before go on.
    if let Some(git) = &spec.git {
        text.push_str(&serde_json::json!(git).to_string());
    }
    short_hash(text.as_bytes(), 16)
}

/// How the wait for an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Listening,
    Ended,
    TimedOut,
}

/// Waits until a new agent listens. One that does not is gone when this returns.
async fn listening(
    folder: &Path,
    process: i32,
    deadline: Duration,
    mut child: Child,
) -> Result<(), StartError> {
    let is_alive = || matches!(child.try_wait(), Ok(None));
    match wait_until_listening(folder, process, deadline, is_alive).await {
        Start::Listening => Ok(()),
        Start::TimedOut => {
            child.kill().await?;
            Err(StartError::NotListening(deadline.as_secs()))
        }
        Start::Ended if is_locked(folder) => Err(StartError::Occupied),
        Start::Ended => {
            let log = fs::read_to_string(folder.join("agent.log")).unwrap_or_default();
            Err(StartError::Ended(end_of_log(&log)))
        }
    }
}

/// Waits until a process listens for a folder, for as long as it is alive.
async fn wait_until_listening(
    folder: &Path,
    process: i32,
    deadline: Duration,
    mut is_alive: impl FnMut() -> bool,
) -> Start {
    let end = Instant::now() + deadline;
    loop {
        // Asked first: one that ends after it listened did start
        let is_alive = is_alive();
        if record::listener(folder).await == Some(process) {
            return Start::Listening;
        }
        if !is_alive {
            return Start::Ended;
        }
        if Instant::now() > end {
            return Start::TimedOut;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether an agent has the journal of a folder. It keeps this lock until all of its threads are
/// gone, which can be long after its command line is.
fn is_locked(folder: &Path) -> bool {
    let lock = File::open(folder.join(DATA).join("lock"));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Ends the agents of a folder: the one of its record, one that listens without a record, and any
/// other that has not got that far. Returns whether they are gone.
async fn stop(folder: &Path) -> bool {
    let recorded = Record::read(folder).map(|record| record.process);
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
        let started = listening(&folder, this, START_DEADLINE, child);
        let (started, _socket) = tokio::join!(started, listens);
        started.unwrap();
    }

    #[tokio::test]
    async fn agent_that_never_listens_is_killed() {
        let (_all, folder, _lock) = workspace();
        let child = slow_agent(&folder);
        let process = id(&child);
        let started = listening(&folder, process, 2 * PAUSE, child).await;
        assert!(matches!(started, Err(StartError::NotListening(_))));
        assert!(!record::is_agent(process, &folder));
    }

    #[tokio::test]
    async fn agent_that_finds_another_one_says_so_without_its_log() {
        let (_all, folder, lock) = workspace();
        lock.lock().unwrap();
        fs::write(folder.join("agent.log"), "it holds the lock").unwrap();
        let child = Command::new("false").spawn().unwrap();
        let process = id(&child);
        let error = listening(&folder, process, START_DEADLINE, child).await;
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
