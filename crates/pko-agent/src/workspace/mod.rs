//! One workspace: a folder with a project, the CLI in it, and state that is kept between calls.
//!
//! Changes are made in a [`CliSession`]. There is one session at a time; others wait in order.

mod config_file;
pub(crate) mod config_plan;
pub(crate) mod env_file;
mod error;
mod operation;
mod secrets_providers;
mod stack;
mod stack_config;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use pko_proto::agent::{ProjectInfo, WhoAmIResult};
use serde::Deserialize;
use tokio::sync::{Mutex, OnceCell, OwnedMutexGuard};

use crate::pulumi::{
    Cli, CliFailure, Invocation, Project, StopSignal, StopSource, argv,
    version::{CliVersion, SKIP_CHECK, is_true},
};

use secrets_providers::SecretsProviders;

pub(crate) use config_file::mark_source_replaced;
pub(crate) use error::{WorkspaceError, error_chain};
pub(crate) use operation::{Observer, OperationOutcome};
pub(crate) use stack::StackRequest;

type WorkspaceResult<T> = Result<T, WorkspaceError>;

pub(crate) struct Workspace {
    pub(crate) cli: Cli,
    pub(crate) log_level: u32,
    /// The folder of [`config_file`] notes.
    notes: PathBuf,
    project_info: ProjectInfo,
    version: OnceCell<CliVersion>,
    state: Arc<Mutex<SessionState>>,
    shutdown: StopSource,
}

/// State that is kept between calls.
#[derive(Debug)]
struct SessionState {
    /// The default stack of upstream's calls.
    current: Option<String>,
    /// Stacks that exist.
    existing: Vec<String>,
    /// By stack: the fingerprints of the last configuration and of the file after it.
    configured: HashMap<String, (String, String)>,
    providers: SecretsProviders,
}

/// Exclusive use of the CLI.
pub(crate) struct CliSession {
    workspace: Arc<Workspace>,
    state: OwnedMutexGuard<SessionState>,
    stop: StopSignal,
}

impl Workspace {
    /// Opens the CLI's folder. State that survives a restart is in `data`.
    pub(crate) fn open(
        cli: Cli,
        log_level: u32,
        data: &Path,
        shutdown: StopSource,
    ) -> WorkspaceResult<Arc<Self>> {
        let state = SessionState {
            current: None,
            existing: Vec::new(),
            configured: HashMap::new(),
            providers: SecretsProviders::open(data),
        };
        let project_info = Project::load(&cli.folder)?.info();
        Ok(Arc::new(Self {
            cli,
            log_level,
            notes: data.join("config"),
            project_info,
            version: OnceCell::new(),
            state: Arc::new(Mutex::new(state)),
            shutdown,
        }))
    }

    /// The project at the time when the workspace was opened.
    pub(crate) fn project_info(&self) -> &ProjectInfo {
        &self.project_info
    }

    /// Waits for other sessions to end.
    pub(crate) async fn open_session(self: &Arc<Self>, stop: StopSignal) -> CliSession {
        let state = Arc::clone(&self.state).lock_owned().await;
        CliSession {
            workspace: Arc::clone(self),
            state,
            stop,
        }
    }

    /// Forgets what is known about stacks, which is in doubt after a panic.
    pub(crate) async fn forget_session_state(&self) {
        let mut state = self.state.lock().await;
        state.existing.clear();
        state.configured.clear();
    }

    /// A session that stops only when the agent shuts down.
    pub(crate) async fn session_until_shutdown(self: &Arc<Self>) -> CliSession {
        self.open_session(self.shutdown.signal()).await
    }

    /// The CLI's version, which is read once.
    pub(crate) async fn version(&self) -> WorkspaceResult<&CliVersion> {
        let read = async || {
            let invocation = Invocation::new(argv::version());
            let finished = self.cli.run(invocation, self.shutdown.signal()).await;
            let finished = CliFailure::check("failed to run `pulumi version`", finished)?;
            let check = !self
                .cli
                .variable(SKIP_CHECK)
                .is_some_and(|value| is_true(&value));
            Ok(CliVersion::parse(&finished.stdout, check)?)
        };
        self.version.get_or_try_init(read).await
    }

    /// The user of the state backend.
    pub(crate) async fn who_am_i(&self) -> WorkspaceResult<WhoAmIResult> {
        let as_json = self.version().await?.has_who_am_i_json();
        let invocation = Invocation {
            exact: true,
            ..Invocation::new(argv::who_am_i(as_json))
        };
        let finished = self.cli.run(invocation, self.shutdown.signal()).await;
        let what = "could not retrieve WhoAmIDetailedInfo";
        let finished = CliFailure::check(what, finished)?;
        if !as_json {
            return Ok(WhoAmIResult {
                user: finished.stdout.trim().to_owned(),
                ..Default::default()
            });
        }
        let printed: WhoAmI = parse_json(what, &finished.stdout)?;
        Ok(WhoAmIResult {
            user: printed.user,
            organizations: printed.organizations.unwrap_or_default(),
            url: printed.url,
        })
    }

    fn project(&self) -> WorkspaceResult<Project> {
        Ok(Project::load(&self.cli.folder)?)
    }
}

#[derive(Deserialize)]
struct WhoAmI {
    user: String,
    organizations: Option<Vec<String>>,
    #[serde(default)]
    url: String,
}

impl CliSession {
    /// Ignores stops from here on, for short steps that complete a finished operation.
    pub(crate) fn ignore_stop(&mut self) {
        self.stop = StopSource::new().signal();
    }

    pub(crate) fn program(&self) -> &Path {
        &self.workspace.cli.program
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.workspace.cli.folder
    }

    /// Installs the program's dependencies.
    pub(crate) async fn install(&self) -> WorkspaceResult<()> {
        let invocation = Invocation {
            logged: true,
            ..Invocation::new(argv::install())
        };
        self.call("could not install dependencies", invocation)
            .await?;
        Ok(())
    }

    /// Runs the CLI, and returns its standard output on success.
    async fn call(&self, what: &'static str, invocation: Invocation) -> Result<String, CliFailure> {
        let finished = self.workspace.cli.run(invocation, self.stop.clone()).await;
        CliFailure::check(what, finished).map(|finished| finished.stdout)
    }
}

fn parse_json<T: serde::de::DeserializeOwned>(
    what: &'static str,
    printed: &str,
) -> WorkspaceResult<T> {
    serde_json::from_str(printed).map_err(|source| WorkspaceError::Output { what, source })
}
