//! One workspace: a folder with a project, the CLI in it, and what is remembered between its calls.
//!
//! Whoever wants the CLI to change something takes a [`CliSession`]; there is one at a time, and others wait
//! in order.

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
pub(crate) use error::WorkspaceError;
pub(crate) use operation::{Observer, OperationOutcome};
pub(crate) use stack::StackRequest;

type WorkspaceResult<T> = Result<T, WorkspaceError>;

/// A workspace.
pub(crate) struct Workspace {
    pub(crate) cli: Cli,
    pub(crate) log_level: u32,
    /// What is noted of the stacks' configuration files.
    notes: PathBuf,
    project_info: ProjectInfo,
    version: OnceCell<CliVersion>,
    memory: Arc<Mutex<Memory>>,
    shutdown: StopSource,
}

/// What is remembered between calls.
#[derive(Debug)]
struct Memory {
    /// The stack of calls that name none.
    current: Option<String>,
    /// Stacks that are known to exist.
    existing: Vec<String>,
    /// What was last set, and what the file was then.
    configured: HashMap<String, (String, String)>,
    providers: SecretsProviders,
}

/// The right to use the CLI, and what is remembered.
pub(crate) struct CliSession {
    workspace: Arc<Workspace>,
    memory: OwnedMutexGuard<Memory>,
    stop: StopSignal,
}

impl Workspace {
    /// Opens the folder that the CLI runs in; what is to be remembered is kept in `data`.
    pub(crate) fn open(
        cli: Cli,
        log_level: u32,
        data: &Path,
        shutdown: StopSource,
    ) -> WorkspaceResult<Arc<Self>> {
        let memory = Memory {
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
            memory: Arc::new(Mutex::new(memory)),
            shutdown,
        }))
    }

    /// The project as it was when the workspace was opened.
    pub(crate) fn project_info(&self) -> &ProjectInfo {
        &self.project_info
    }

    /// Waits until nobody else uses the CLI.
    pub(crate) async fn open_session(self: &Arc<Self>, stop: StopSignal) -> CliSession {
        let memory = Arc::clone(&self.memory).lock_owned().await;
        CliSession {
            workspace: Arc::clone(self),
            memory,
            stop,
        }
    }

    /// A session that only the end of the agent stops.
    pub(crate) async fn session_until_shutdown(self: &Arc<Self>) -> CliSession {
        self.open_session(self.shutdown.signal()).await
    }

    /// The CLI's version; asked for once.
    pub(crate) async fn version(&self) -> WorkspaceResult<&CliVersion> {
        let ask = async || {
            let invocation = Invocation::new(argv::version());
            let finished = self.cli.run(invocation, self.shutdown.signal()).await;
            let finished = CliFailure::check("failed to run `pulumi version`", finished)?;
            let check = !self
                .cli
                .variable(SKIP_CHECK)
                .is_some_and(|value| is_true(&value));
            Ok(CliVersion::parse(&finished.stdout, check)?)
        };
        self.version.get_or_try_init(ask).await
    }

    /// Who the backend says that we are.
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
        let printed: WhoAmI = parsed(what, &finished.stdout)?;
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
    /// From here on it is not stopped any more: what is left to do is short, and completes what has
    /// been done.
    pub(crate) fn ignore_stop(&mut self) {
        self.stop = StopSource::new().signal();
    }

    /// The CLI.
    pub(crate) fn program(&self) -> &Path {
        &self.workspace.cli.program
    }

    /// The folder that the CLI runs in.
    pub(crate) fn folder(&self) -> &Path {
        &self.workspace.cli.folder
    }

    /// Installs what the program needs.
    pub(crate) async fn install(&self) -> WorkspaceResult<()> {
        let invocation = Invocation {
            logged: true,
            ..Invocation::new(argv::install())
        };
        self.call("could not install dependencies", invocation)
            .await?;
        Ok(())
    }

    /// One call of the CLI that must go well; what it printed.
    async fn call(&self, what: &'static str, invocation: Invocation) -> Result<String, CliFailure> {
        let finished = self.workspace.cli.run(invocation, self.stop.clone()).await;
        CliFailure::check(what, finished).map(|finished| finished.stdout)
    }
}

fn parsed<T: serde::de::DeserializeOwned>(what: &'static str, printed: &str) -> WorkspaceResult<T> {
    serde_json::from_str(printed).map_err(|source| WorkspaceError::Unexpected { what, source })
}
