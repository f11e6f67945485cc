//! What a new agent does once: packages are installed, and stacks selected. That may take minutes, so it is done in the
//! background, and its end wakes the Workspace.
//!
//! # Guarantees
//! No worker waits for it longer than a moment. A failure is tried again after a pause that grows; another agent, or
//! another spec, is tried at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Decoded, Workspace, auto::v1alpha1::WorkspaceStack};
use pko_core::workspace::{SetupStage, SetupState};
use pko_proto::agent as wire;
use tokio::sync::{Notify, mpsc::UnboundedSender};

use crate::{
    agents::{self, ConnectError, Connection, config_item},
    controllers::Context,
    workspace_runtime::{AgentAt, MarkError},
};

/// As long as a pass waits: what is done by then needs no words in between.
const MOMENT: Duration = Duration::from_secs(1);
/// The pause after the first failure that may pass by itself, and the longest one.
const TRANSIENT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(5));
/// The same for a failure that somebody has to mend, maybe elsewhere.
const LASTING: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

/// All preparations that go on or went wrong, by the Workspace's uid.
#[derive(Clone)]
pub(crate) struct Preparations {
    known: Arc<Mutex<HashMap<String, Entry>>>,
    wake: UnboundedSender<ObjectRef<Decoded<Workspace>>>,
}

struct Entry {
    attempt: Attempt,
    state: State,
    failures: u32,
    ended: Arc<Notify>,
}

/// Which agent is prepared for which spec.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attempt {
    instance: String,
    generation: Option<i64>,
}

enum State {
    Working(SetupStage),
    Failed(Failure, Instant),
}

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
struct Failure {
    stage: SetupStage,
    message: String,
    is_transient: bool,
}

impl Preparations {
    pub(crate) fn new(wake: UnboundedSender<ObjectRef<Decoded<Workspace>>>) -> Self {
        Self {
            known: Arc::default(),
            wake,
        }
    }

    /// How far a workspace's agent is; it is set to work if it is not done.
    pub(crate) async fn ask(
        &self,
        workspace: &Workspace,
        agent: AgentAt,
        context: &Arc<Context>,
    ) -> SetupState {
        if context.places.is_initialized(workspace) {
            self.forget(&workspace.uid().unwrap_or_default());
            return SetupState::Done;
        }
        let Some(ended) = self.set_to_work(workspace, agent, context) else {
            return self.told(workspace);
        };
        // Whoever is done in a moment is not shown as being at it.
        let _ = tokio::time::timeout(MOMENT, ended.notified()).await;
        self.told(workspace)
    }

    /// Starts the work unless it goes on, or failed not long ago. Gives what tells its end, if it goes on.
    fn set_to_work(
        &self,
        workspace: &Workspace,
        agent: AgentAt,
        context: &Arc<Context>,
    ) -> Option<Arc<Notify>> {
        let uid = workspace.uid().unwrap_or_default();
        let attempt = Attempt {
            instance: agent.instance.clone(),
            generation: workspace.metadata.generation,
        };
        let mut known = self.known();
        let failures = match known.get(&uid) {
            Some(entry) if matches!(entry.state, State::Working(_)) => {
                return Some(Arc::clone(&entry.ended));
            }
            Some(entry) if entry.attempt == attempt => {
                if !entry.pause_left().is_zero() {
                    return None;
                }
                entry.failures
            }
            _ => 0,
        };
        let ended = Arc::new(Notify::new());
        let entry = Entry {
            attempt,
            state: State::Working(SetupStage::Installing),
            failures,
            ended: Arc::clone(&ended),
        };
        known.insert(uid, entry);
        drop(known);
        let (this, workspace, context) = (self.clone(), workspace.clone(), Arc::clone(context));
        tokio::spawn(async move { this.work(workspace, agent, context).await });
        Some(ended)
    }

    async fn work(self, workspace: Workspace, agent: AgentAt, context: Arc<Context>) {
        let uid = workspace.uid().unwrap_or_default();
        let stage = |stage| self.reach(&uid, stage);
        let result = prepare(&workspace, &agent, &context, stage).await;
        let mut known = self.known();
        let ended = known.get(&uid).map(|entry| Arc::clone(&entry.ended));
        match result {
            Ok(()) => drop(known.remove(&uid)),
            Err(failure) => {
                if let Some(entry) = known.get_mut(&uid) {
                    entry.failures += 1;
                    entry.state = State::Failed(failure, Instant::now());
                }
            }
        }
        drop(known);
        if let Some(ended) = ended {
            ended.notify_one();
        }
        let namespace = workspace.namespace().unwrap_or_default();
        // The other end is there as long as the manager is.
        let _ = self
            .wake
            .send(ObjectRef::new(&workspace.name_any()).within(&namespace));
    }

    fn reach(&self, uid: &str, stage: SetupStage) {
        if let Some(entry) = self.known().get_mut(uid) {
            entry.state = State::Working(stage);
        }
    }

    fn told(&self, workspace: &Workspace) -> SetupState {
        let known = self.known();
        match known.get(&workspace.uid().unwrap_or_default()) {
            None => SetupState::Done,
            Some(entry) => match &entry.state {
                State::Working(stage) => SetupState::InProgress(*stage),
                State::Failed(failure, _) => SetupState::Failed {
                    stage: failure.stage,
                    message: failure.message.clone(),
                    is_transient: failure.is_transient,
                    retry_in: entry.pause_left(),
                },
            },
        }
    }

    /// What is known of a Workspace that is gone, or done.
    pub(crate) fn forget(&self, uid: &str) {
        let mut known = self.known();
        if known
            .get(uid)
            .is_some_and(|entry| matches!(entry.state, State::Failed(..)))
        {
            known.remove(uid);
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// What is left of the pause after the last failure.
    fn pause_left(&self) -> Duration {
        let State::Failed(failure, at) = &self.state else {
            return Duration::ZERO;
        };
        pause(self.failures, failure.is_transient).saturating_sub(at.elapsed())
    }
}

/// The pause after so many failures.
fn pause(failures: u32, is_transient: bool) -> Duration {
    let (first, longest) = if is_transient { TRANSIENT } else { LASTING };
    let doubled = 1_u32
        .checked_shl(failures.saturating_sub(1))
        .unwrap_or(u32::MAX);
    first.saturating_mul(doubled).min(longest)
}

/// Does it all, stage by stage.
async fn prepare(
    workspace: &Workspace,
    agent: &AgentAt,
    context: &Context,
    stage: impl Fn(SetupStage),
) -> Result<(), Failure> {
    let uid = workspace.uid().unwrap_or_default();
    let connection = context.agents.connect(&uid, agent).await;
    let mut connection = connection.map_err(|error| unreachable(&error))?;
    // A project without a program, as a destroy has it, wants nothing; some languages' tools fail for want of a program.
    if workspace.spec.project_info.is_none() {
        install(&mut connection, context).await?;
    }
    stage(SetupStage::Initializing);
    for stack in &workspace.spec.stacks {
        let initialized = initialize(&mut connection, workspace, agent, context, stack).await;
        initialized.map_err(|status| {
            let text = agents::text(&status);
            let message = format!("Failed to initialize stack \"{}\": {text}", stack.name);
            failed(SetupStage::Initializing, message, &status)
        })?;
    }
    let marked = context.places.mark_initialized(workspace, &agent.instance);
    marked.await.map_err(|error| unmarked(&error))
}

/// Installs what the program wants.
async fn install(connection: &mut Connection, context: &Context) -> Result<(), Failure> {
    let start = Instant::now();
    let installed = connection.automation.install(wire::InstallRequest {}).await;
    context
        .metrics
        .installed(installed.is_ok(), start.elapsed());
    match installed {
        Ok(_) => Ok(()),
        Err(status) => {
            let message = agents::text(&status);
            Err(failed(SetupStage::Installing, message, &status))
        }
    }
}

/// Selects a stack. The config goes with each run; only an agent that has no runs of its own gets it now.
async fn initialize(
    connection: &mut Connection,
    workspace: &Workspace,
    agent: &AgentAt,
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
        let local_path = |path: &str| context.places.local_path(workspace, path);
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

fn failed(stage: SetupStage, message: String, status: &tonic::Status) -> Failure {
    Failure {
        stage,
        message,
        is_transient: agents::is_transient(status),
    }
}

fn unreachable(error: &ConnectError) -> Failure {
    Failure {
        stage: SetupStage::Installing,
        message: format!("unable to connect to workspace: {error}"),
        is_transient: true,
    }
}

fn unmarked(error: &MarkError) -> Failure {
    Failure {
        stage: SetupStage::Initializing,
        message: error.to_string(),
        is_transient: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses = |is_transient| {
            let failures = [1, 2, 3, 40].into_iter();
            failures
                .map(|failures| pause(failures, is_transient).as_secs())
                .collect::<Vec<_>>()
        };
        assert_eq!(pauses(true), [5, 10, 20, 300]);
        assert_eq!(pauses(false), [60, 120, 240, 3600]);
    }
}
