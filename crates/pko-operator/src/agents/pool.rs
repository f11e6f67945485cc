//! One channel for each workspace that is spoken to. One that nobody has asked for in a while is let go: most workspaces
//! rest most of the time, and a channel is some 45 KiB here and as much in the agent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{ConnectError, Connection, circuit::Silence, client::greet, connect};
use crate::workspace_runtime::AgentAt;

/// How long a channel is kept that nobody asks for. Who uses one still holds it for as long as it takes: a run that is
/// followed keeps its own.
const KEPT_FOR: Duration = Duration::from_secs(20);

/// The agents that were spoken to, by the uid of their Workspace.
#[derive(Clone, Default)]
pub(crate) struct Agents {
    known: Arc<Mutex<HashMap<String, Known>>>,
    /// Those whose runs were asked for, by their instance.
    met: Arc<Mutex<HashMap<String, String>>>,
    silence: Silence,
    /// Where all workspaces are said to be, for whoever develops the manager outside of the cluster.
    localhost: Option<String>,
}

struct Known {
    address: String,
    instance: String,
    connection: Connection,
    asked_for: Instant,
}

impl Known {
    fn is_to(&self, address: &str, instance: &str) -> bool {
        self.address == address && self.instance == instance
    }
}

impl Agents {
    /// Knows none yet. `localhost` takes the place of every address in the cluster.
    pub(crate) fn new(localhost: Option<&str>) -> Self {
        Self {
            known: Arc::default(),
            met: Arc::default(),
            silence: Silence::default(),
            localhost: localhost.map(str::to_owned),
        }
    }

    /// The channel to a workspace's agent, the same as before if it still is that agent.
    pub(crate) async fn connect(
        &self,
        workspace: &str,
        agent: &AgentAt,
    ) -> Result<Connection, ConnectError> {
        let address = self.address(agent);
        if let Some(known) = self.known().get_mut(workspace)
            && known.is_to(address, &agent.instance)
        {
            known.asked_for = Instant::now();
            return Ok(known.connection.clone());
        }
        let connection = connect(address, &agent.credentials).await?;
        let known = Known {
            address: address.to_owned(),
            instance: agent.instance.clone(),
            connection: connection.clone(),
            asked_for: Instant::now(),
        };
        self.known().insert(workspace.to_owned(), known);
        Ok(connection)
    }

    /// Speaks to a workspace's agent about a run that it may not know; if it keeps others waiting, then not now.
    pub(crate) async fn greet(
        &self,
        workspace: &str,
        agent: &AgentAt,
        run: &str,
    ) -> Result<(), String> {
        let asked = Instant::now();
        self.silence.may_ask(workspace, &agent.instance, asked)?;
        let answer = match self.connect(workspace, agent).await {
            Ok(connection) => greet(&connection, run).await,
            Err(error) => Err(format!("unable to connect to workspace: {error}")),
        };
        let learned = match &answer {
            Ok(()) => Ok(()),
            Err(message) => Err(message.as_str()),
        };
        let of = (workspace, agent.instance.as_str());
        self.silence.learn(of, learned, asked, Instant::now());
        answer
    }

    /// Closes the channel of a workspace that is gone.
    pub(crate) fn forget(&self, workspace: &str) {
        self.silence.forget(workspace);
        self.known().remove(workspace);
        self.is_unmet(workspace);
    }

    /// Lets go of channels that nobody has asked for in a while.
    pub(crate) fn tidy(&self) {
        self.let_go_of(KEPT_FOR);
    }

    fn let_go_of(&self, unused_for: Duration) {
        let mut known = self.known();
        known.retain(|_, known| known.asked_for.elapsed() < unused_for);
        known.shrink_to_fit();
    }

    /// Whether this agent is met for the first time; from now on it is not.
    pub(crate) fn is_new(&self, workspace: &str, instance: &str) -> bool {
        let met = self.met().insert(workspace.to_owned(), instance.to_owned());
        met.as_deref() != Some(instance)
    }

    /// It was not met after all.
    pub(crate) fn is_unmet(&self, workspace: &str) {
        self.met().remove(workspace);
    }

    fn address<'all>(&'all self, agent: &'all AgentAt) -> &'all str {
        let elsewhere = self.localhost.as_deref();
        let elsewhere = elsewhere.filter(|_| !agent.address.starts_with("unix:"));
        elsewhere.unwrap_or(&agent.address)
    }

    fn met(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use pko_proto::agent::InstallRequest;

    use super::*;
    use crate::agents::{
        Credentials,
        test_agent::{Agent, Ending, Upstream},
    };

    async fn calls(agents: &Agents, agent: &AgentAt) -> bool {
        let connection = agents.connect("ws", agent).await.unwrap();
        let mut automation = connection.automation;
        automation.install(InstallRequest {}).await.is_ok()
    }

    #[tokio::test]
    async fn a_workspace_has_one_channel_which_comes_back_by_itself() {
        let upstream = Upstream::new(None, Ending::Eof);
        let mut agent = Agent::serve(upstream.routes());
        let agents = Agents::new(None);
        for _ in 0..3 {
            assert!(calls(&agents, &agent.at("pod-1")).await);
        }
        let count = |agent: &Agent| agent.connections.load(Ordering::SeqCst);
        assert_eq!(count(&agent), 1);

        agent.restart(upstream.routes()).await;
        pko_testkit::eventually("the channel to be back", async || {
            let back = calls(&agents, &agent.at("pod-1")).await;
            if back { Ok(()) } else { Err("not yet") }
        })
        .await
        .unwrap();

        let before = count(&agent);
        assert!(calls(&agents, &agent.at("pod-2")).await);
        assert_eq!(count(&agent), before + 1, "another agent, another channel");
        agents.forget("ws");
        assert!(agents.known().is_empty() && agents.met().is_empty());
    }

    #[tokio::test]
    async fn a_channel_that_nobody_asks_for_is_let_go_and_who_has_it_keeps_it() {
        let upstream = Upstream::new(None, Ending::Eof);
        let agent = Agent::serve(upstream.routes());
        let agents = Agents::new(None);
        let mut held = agents.connect("ws", &agent.at("pod-1")).await.unwrap();
        agents.let_go_of(Duration::from_hours(1));
        assert_eq!(agents.known().len(), 1, "it was asked for just now");
        agents.let_go_of(Duration::ZERO);
        assert!(agents.known().is_empty());
        assert!(held.automation.install(InstallRequest {}).await.is_ok());
        assert!(calls(&agents, &agent.at("pod-1")).await, "and back again");
        assert_eq!(agent.connections.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn an_agent_that_is_not_there_is_not_kept() {
        let agents = Agents::new(None);
        let nowhere = AgentAt {
            address: "unix:/nonexistent/socket".to_owned(),
            credentials: Credentials::Nothing,
            instance: "pod-1".to_owned(),
            owns_runs: true,
        };
        assert!(agents.connect("ws", &nowhere).await.is_err());
        assert!(agents.known().is_empty());
    }

    #[test]
    fn who_develops_may_say_where_all_workspaces_are() {
        let agents = Agents::new(Some("localhost:50051"));
        let at = |address: &str| AgentAt {
            address: address.to_owned(),
            credentials: Credentials::Nothing,
            instance: String::new(),
            owns_runs: true,
        };
        assert_eq!(
            agents.address(&at("ws-workspace.ns:50051")),
            "localhost:50051"
        );
        assert_eq!(agents.address(&at("unix:/run/ws")), "unix:/run/ws");
        assert_eq!(Agents::new(None).address(&at("ws.ns:1")), "ws.ns:1");
    }

    #[test]
    fn an_agent_is_met_once() {
        let agents = Agents::new(None);
        assert!(agents.is_new("ws", "pod-1"));
        assert!(!agents.is_new("ws", "pod-1"));
        assert!(agents.is_new("ws", "pod-2"), "another one");
        agents.is_unmet("ws");
        assert!(agents.is_new("ws", "pod-2"));
    }
}
