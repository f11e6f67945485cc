//! The setup of a new agent: installs packages and selects stacks. It can take minutes, so it runs
//! in the background and triggers a reconcile of the Workspace when it ends.
//!
//! # Guarantees
//! No reconcile waits longer than a moment for it. A failure is retried with backoff; another agent
//! or another spec is set up at once.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use parking_lot::{Mutex, MutexGuard};
use pko_api::{Workspace, auto::v1alpha1::WorkspaceStack};
use pko_core::workspace::{SetupStage, SetupState};
use pko_proto::agent as wire;
use tokio::sync::Notify;

use crate::{
    agents::{self, ConnectError, Connection, config_item},
    controllers::Context,
    watch::WorkspaceTrigger,
    workspace_runtime::{AgentTarget, MarkError},
};

/// How long a reconcile waits: a setup that is done by then is never shown as in progress.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The first and the longest delay after a transient failure.
const TRANSIENT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(5));
/// The same for a failure that needs a change by the user.
const PERMANENT: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

/// For one attempt. Installing packages can take many minutes.
const DEADLINE: Duration = Duration::from_hours(1);

/// The setups that are in progress or have failed, by the uid of the Workspace.
#[derive(Clone)]
pub(crate) struct WorkspaceSetup {
    known: Arc<Mutex<HashMap<String, SetupEntry>>>,
    trigger: WorkspaceTrigger,
}

struct SetupEntry {
    attempt: SetupAttempt,
    state: SetupProgress,
    failures: u32,
    ended: Arc<Notify>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SetupAttempt {
    instance: String,
    generation: Option<i64>,
}

enum SetupProgress {
    Working(SetupStage),
    Failed(SetupFailure, Instant),
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
struct SetupFailure {
    stage: SetupStage,
    message: String,
    is_transient: bool,
}

impl WorkspaceSetup {
    pub(crate) fn new(trigger: WorkspaceTrigger) -> Self {
        Self {
            known: Arc::default(),
            trigger,
        }
    }

    /// The state of the setup. Starts it if it is not done.
    pub(crate) async fn ensure(
        &self,
        workspace: &Workspace,
        agent: AgentTarget,
        context: &Arc<Context>,
    ) -> SetupState {
        if context.runtime.is_initialized(workspace) {
            self.forget(&workspace.uid().unwrap_or_default());
            return SetupState::Done;
        }
        let Some(ended) = self.start_unless_running(workspace, agent, context) else {
            return self.state(workspace);
        };
        // A setup that ends within a moment is not reported as in progress.
        let _ = tokio::time::timeout(MAX_WAIT, ended.notified()).await;
        self.state(workspace)
    }

    /// Starts the setup unless it is in progress or failed recently. Returns what signals its end,
    /// if it is in progress.
    fn start_unless_running(
        &self,
        workspace: &Workspace,
        agent: AgentTarget,
        context: &Arc<Context>,
    ) -> Option<Arc<Notify>> {
        let uid = workspace.uid().unwrap_or_default();
        let attempt = SetupAttempt {
            instance: agent.instance.clone(),
            generation: workspace.metadata.generation,
        };
        let mut known = self.known();
        let failures = match known.get(&uid) {
            Some(entry) if matches!(entry.state, SetupProgress::Working(_)) => {
                return Some(Arc::clone(&entry.ended));
            }
            Some(entry) if entry.attempt == attempt => {
                if !entry.remaining_delay().is_zero() {
                    return None;
                }
                entry.failures
            }
            _ => 0,
        };
        let ended = Arc::new(Notify::new());
        let entry = SetupEntry {
            attempt,
            state: SetupProgress::Working(SetupStage::Installing),
            failures,
            ended: Arc::clone(&ended),
        };
        known.insert(uid, entry);
        drop(known);
        let (this, workspace, context) = (self.clone(), workspace.clone(), Arc::clone(context));
        tokio::spawn(async move { this.work(workspace, agent, context).await });
        Some(ended)
    }

    async fn work(self, workspace: Workspace, agent: AgentTarget, context: Arc<Context>) {
        let uid = workspace.uid().unwrap_or_default();
        let stage = |stage| self.set_stage(&uid, stage);
        let setup = prepare(&workspace, &agent, &context, stage);
        let setup = tokio::time::timeout(DEADLINE, setup).await;
        let result = setup.unwrap_or_else(|_| Err(self.late(&uid)));
        let mut known = self.known();
        let ended = known.get(&uid).map(|entry| Arc::clone(&entry.ended));
        match result {
            Ok(()) => drop(known.remove(&uid)),
            Err(failure) => {
                if let Some(entry) = known.get_mut(&uid) {
                    entry.failures += 1;
                    entry.state = SetupProgress::Failed(failure, Instant::now());
                }
            }
        }
        drop(known);
        if let Some(ended) = ended {
            ended.notify_one();
        }
        let namespace = workspace.namespace().unwrap_or_default();
        // The receiver lives as long as the manager.
        let _ = self
            .trigger
            .send(ObjectRef::new(&workspace.name_any()).within(&namespace));
    }

    fn late(&self, uid: &str) -> SetupFailure {
        let known = self.known();
        let stage = match known.get(uid).map(|entry| &entry.state) {
            Some(SetupProgress::Working(stage)) => *stage,
            _ => SetupStage::Installing,
        };
        SetupFailure {
            stage,
            message: "the workspace's agent did not finish within an hour".to_owned(),
            is_transient: true,
        }
    }

    fn set_stage(&self, uid: &str, stage: SetupStage) {
        if let Some(entry) = self.known().get_mut(uid) {
            entry.state = SetupProgress::Working(stage);
        }
    }

    fn state(&self, workspace: &Workspace) -> SetupState {
        let known = self.known();
        match known.get(&workspace.uid().unwrap_or_default()) {
            None => SetupState::Done,
            Some(entry) => match &entry.state {
                SetupProgress::Working(stage) => SetupState::InProgress(*stage),
                SetupProgress::Failed(failure, _) => SetupState::Failed {
                    stage: failure.stage,
                    message: failure.message.clone(),
                    is_transient: failure.is_transient,
                    retry_in: entry.remaining_delay(),
                },
            },
        }
    }

    /// Forgets a failure.
    pub(crate) fn forget(&self, uid: &str) {
        let mut known = self.known();
        if known
            .get(uid)
            .is_some_and(|entry| matches!(entry.state, SetupProgress::Failed(..)))
        {
            known.remove(uid);
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, SetupEntry>> {
        self.known.lock()
    }
}

impl SetupEntry {
    /// The rest of the delay after the last failure.
    fn remaining_delay(&self) -> Duration {
        let SetupProgress::Failed(failure, at) = &self.state else {
            return Duration::ZERO;
        };
        delay(self.failures, failure.is_transient).saturating_sub(at.elapsed())
    }
}

fn delay(failures: u32, is_transient: bool) -> Duration {
    let (first, longest) = if is_transient { TRANSIENT } else { PERMANENT };
    let doubled = 1_u32
        .checked_shl(failures.saturating_sub(1))
        .unwrap_or(u32::MAX);
    first.saturating_mul(doubled).min(longest)
}

async fn prepare(
    workspace: &Workspace,
    agent: &AgentTarget,
    context: &Context,
    stage: impl Fn(SetupStage),
) -> Result<(), SetupFailure> {
    let uid = workspace.uid().unwrap_or_default();
    let connection = context.agents.connect(&uid, agent).await;
    let mut connection = connection.map_err(|error| connect_failure(&error))?;
    // The project of a destroy has no program, and some language hosts fail to install without one.
    if workspace.spec.project_info.is_none() {
        install(&mut connection, context).await?;
    }
    stage(SetupStage::Initializing);
    for stack in &workspace.spec.stacks {
        let initialized = initialize(&mut connection, workspace, agent, context, stack).await;
        initialized.map_err(|status| {
            let text = agents::status_text(&status);
            let message = format!("Failed to initialize stack \"{}\": {text}", stack.name);
            call_failure(SetupStage::Initializing, message, &status)
        })?;
    }
    let marked = context.runtime.mark_initialized(workspace, &agent.instance);
    marked.await.map_err(|error| mark_failure(&error))
}

async fn install(connection: &mut Connection, context: &Context) -> Result<(), SetupFailure> {
    let start = Instant::now();
    let installed = connection.automation.install(wire::InstallRequest {}).await;
    context
        .metrics
        .installed(installed.is_ok(), start.elapsed());
    match installed {
        Ok(_) => Ok(()),
        Err(status) => {
            let message = agents::status_text(&status);
            Err(call_failure(SetupStage::Installing, message, &status))
        }
    }
}

/// Selects a stack. Runs carry their config; an agent of upstream gets it here.
async fn initialize(
    connection: &mut Connection,
    workspace: &Workspace,
    agent: &AgentTarget,
    context: &Context,
    stack: &WorkspaceStack,
) -> Result<(), Box<tonic::Status>> {
    let select = wire::SelectStackRequest {
        stack_name: stack.name.clone(),
        create: stack.create,
        secrets_provider: stack.secrets_provider.clone(),
    };
    connection.automation.select_stack(select).await?;
    if agent.owns_runs {
        return Ok(());
    }
    if !stack.config.is_empty() {
        let local_path = |path: &str| context.runtime.local_path(workspace, path);
        let items = stack
            .config
            .iter()
            .map(|item| config_item(item, local_path));
        let items: Result<Vec<_>, String> = items.collect();
        let config = items.map_err(tonic::Status::invalid_argument)?;
        let request = wire::SetAllConfigRequest { config };
        connection.automation.set_all_config(request).await?;
    }
    if !stack.environment.is_empty() {
        let request = wire::AddEnvironmentsRequest {
            environment: stack.environment.clone(),
        };
        connection.automation.add_environments(request).await?;
    }
    Ok(())
}

fn call_failure(stage: SetupStage, message: String, status: &tonic::Status) -> SetupFailure {
    SetupFailure {
        stage,
        message,
        is_transient: agents::is_transient(status),
    }
}

fn connect_failure(error: &ConnectError) -> SetupFailure {
    SetupFailure {
        stage: SetupStage::Installing,
        message: format!("unable to connect to workspace: {error}"),
        is_transient: true,
    }
}

fn mark_failure(error: &MarkError) -> SetupFailure {
    SetupFailure {
        stage: SetupStage::Initializing,
        message: error.to_string(),
        is_transient: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_retry_delay_doubles_up_to_a_limit() {
        let delays = |is_transient| {
            let failures = [1, 2, 3, 40].into_iter();
            failures
                .map(|failures| delay(failures, is_transient).as_secs())
                .collect::<Vec<_>>()
        };
        assert_eq!(delays(true), [5, 10, 20, 300]);
        assert_eq!(delays(false), [60, 120, 240, 3600]);
    }
}
