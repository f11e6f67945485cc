//! One connection for each workspace, closed when it has been idle for a while: most workspaces are
//! idle most of the time, and a connection takes about 45 KiB here and as much in the agent.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use super::{
    ConnectError, Connection, ReceiveBudget,
    circuit::{RetryPermit, UnresponsiveAgents},
    client::probe,
    connect,
};
use crate::workspace_runtime::AgentTarget;

/// Closing affects new calls only: a caller keeps its connection as long as it needs it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// By the uid of their Workspace.
#[derive(Clone, Default)]
pub(crate) struct AgentPool {
    connections: Arc<Mutex<HashMap<String, PooledConnection>>>,
    /// The instances whose runs were listed, by Workspace.
    probed: Arc<Mutex<HashMap<String, String>>>,
    /// When asked about runs, by Updates.
    unresponsive: UnresponsiveAgents,
    /// When asked for their version, by Workspaces. An agent may answer the one and not the other;
    /// if one circuit were for both, its conditions would come and go.
    versionless: UnresponsiveAgents,
    budget: ReceiveBudget,
    /// Replaces every address in the cluster, for a manager outside of it.
    localhost: Option<String>,
}

struct PooledConnection {
    address: String,
    instance: String,
    connection: Connection,
    last_used: Instant,
}

impl PooledConnection {
    fn is_to(&self, address: &str, instance: &str) -> bool {
        self.address == address && self.instance == instance
    }
}

impl AgentPool {
    pub(crate) fn new(localhost: Option<&str>) -> Self {
        Self {
            connections: Arc::default(),
            probed: Arc::default(),
            unresponsive: UnresponsiveAgents::default(),
            versionless: UnresponsiveAgents::default(),
            budget: ReceiveBudget::default(),
            localhost: localhost.map(str::to_owned),
        }
    }

    /// The connection to a workspace's agent. Reused as long as it is the same agent.
    pub(crate) async fn connect(
        &self,
        workspace: &str,
        agent: &AgentTarget,
    ) -> Result<Connection, ConnectError> {
        let address = self.address(agent);
        if let Some(known) = self.connections().get_mut(workspace)
            && known.is_to(address, &agent.instance)
        {
            known.last_used = Instant::now();
            return Ok(known.connection.clone());
        }
        let share = self.budget.share(&agent.namespace);
        let connection = connect(address, &agent.credentials, share).await?;
        let known = PooledConnection {
            address: address.to_owned(),
            instance: agent.instance.clone(),
            connection: connection.clone(),
            last_used: Instant::now(),
        };
        self.connections().insert(workspace.to_owned(), known);
        Ok(connection)
    }

    /// Checks that a workspace's agent responds. Fails at once while another caller finds it
    /// unresponsive. An agent that was may be called until the permit is dropped.
    pub(crate) async fn probe(
        &self,
        workspace: &str,
        agent: &AgentTarget,
        run: &str,
    ) -> Result<Option<RetryPermit>, String> {
        let asked = Instant::now();
        let permit = self.unresponsive.check(workspace, agent, asked)?;
        let answer = match self.connect(workspace, agent).await {
            Ok(connection) => probe(&connection, run).await,
            Err(error) => Err(format!("unable to connect to workspace: {error}")),
        };
        let of = (workspace, agent.instance.as_str());
        let result = answer.as_ref().map(|&()| ()).map_err(String::as_str);
        self.unresponsive.record(of, result, asked, Instant::now());
        answer.map(|()| permit)
    }

    /// Fails at once after an agent did not report its version in time. A caller that does not fail
    /// records the result of its call.
    pub(crate) fn check_version(
        &self,
        workspace: &str,
        agent: &AgentTarget,
    ) -> Result<Option<RetryPermit>, String> {
        self.versionless.check(workspace, agent, Instant::now())
    }

    /// Records the error of a call that started at `asked`, or that it had none.
    pub(crate) fn record_version(
        &self,
        workspace: &str,
        agent: &AgentTarget,
        error: Option<&String>,
        asked: Instant,
    ) {
        let of = (workspace, agent.instance.as_str());
        let result = error.map_or(Ok(()), |message| Err(message.as_str()));
        self.versionless.record(of, result, asked, Instant::now());
    }

    /// Forgets a workspace that is deleted.
    pub(crate) fn forget(&self, workspace: &str) {
        self.unresponsive.forget(workspace);
        self.versionless.forget(workspace);
        self.connections().remove(workspace);
        self.forget_instance(workspace);
    }

    pub(crate) fn close_idle(&self) {
        self.close_unused(IDLE_TIMEOUT);
    }

    fn close_unused(&self, unused_for: Duration) {
        let mut known = self.connections();
        known.retain(|_, known| known.last_used.elapsed() < unused_for);
        known.shrink_to_fit();
    }

    /// Remembers the instance of an agent. Returns whether it is new.
    pub(crate) fn remember_instance(&self, workspace: &str, instance: &str) -> bool {
        let probed = self
            .probed()
            .insert(workspace.to_owned(), instance.to_owned());
        probed.as_deref() != Some(instance)
    }

    pub(crate) fn forget_instance(&self, workspace: &str) {
        self.probed().remove(workspace);
    }

    fn address<'all>(&'all self, agent: &'all AgentTarget) -> &'all str {
        let elsewhere = self.localhost.as_deref();
        let elsewhere = elsewhere.filter(|_| !agent.address.starts_with("unix:"));
        elsewhere.unwrap_or(&agent.address)
    }

    fn probed(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.probed.lock()
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<String, PooledConnection>> {
        self.connections.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use pko_proto::agent::InstallRequest;

    use super::*;
    use crate::agents::{
        Credentials,
        test_agent::{StreamEnding, TestAgent, UpstreamAgent},
    };

    async fn calls(agents: &AgentPool, agent: &AgentTarget) -> bool {
        let connection = agents.connect("ws", agent).await.unwrap();
        let mut automation = connection.automation;
        automation.install(InstallRequest {}).await.is_ok()
    }

    #[tokio::test]
    async fn pool_reuses_one_connection_and_reconnects() {
        let upstream = UpstreamAgent::new(None, StreamEnding::Eof);
        let mut agent = TestAgent::serve(upstream.routes());
        let agents = AgentPool::new(None);
        for _ in 0..3 {
            assert!(calls(&agents, &agent.at("pod-1")).await);
        }
        let count = |agent: &TestAgent| agent.connections.load(Ordering::SeqCst);
        assert_eq!(count(&agent), 1);

        agent.restart(upstream.routes()).await;
        pko_testkit::eventually("the connection to be back", async || {
            let back = calls(&agents, &agent.at("pod-1")).await;
            if back { Ok(()) } else { Err("not yet") }
        })
        .await
        .unwrap();

        let before = count(&agent);
        assert!(calls(&agents, &agent.at("pod-2")).await);
        assert_eq!(
            count(&agent),
            before + 1,
            "another agent, another connection"
        );
        agents.forget("ws");
        assert!(agents.connections().is_empty() && agents.probed().is_empty());
    }

    #[tokio::test]
    async fn pool_closes_idle_connections_but_not_for_holders() {
        let upstream = UpstreamAgent::new(None, StreamEnding::Eof);
        let agent = TestAgent::serve(upstream.routes());
        let agents = AgentPool::new(None);
        let mut held = agents.connect("ws", &agent.at("pod-1")).await.unwrap();
        agents.close_unused(Duration::from_hours(1));
        assert_eq!(agents.connections().len(), 1, "it was used just now");
        agents.close_unused(Duration::ZERO);
        assert!(agents.connections().is_empty());
        assert!(held.automation.install(InstallRequest {}).await.is_ok());
        assert!(calls(&agents, &agent.at("pod-1")).await, "and back again");
        assert_eq!(agent.connections.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn pool_keeps_no_failed_connection() {
        let agents = AgentPool::new(None);
        let nowhere = AgentTarget {
            address: "unix:/nonexistent/socket".to_owned(),
            credentials: Credentials::None,
            instance: "pod-1".to_owned(),
            namespace: "ns".to_owned(),
            owns_runs: true,
        };
        assert!(agents.connect("ws", &nowhere).await.is_err());
        assert!(agents.connections().is_empty());
    }

    #[test]
    fn pool_localhost_replaces_cluster_addresses() {
        let agents = AgentPool::new(Some("localhost:50051"));
        let at = |address: &str| AgentTarget {
            address: address.to_owned(),
            credentials: Credentials::None,
            instance: String::new(),
            namespace: "ns".to_owned(),
            owns_runs: true,
        };
        assert_eq!(
            agents.address(&at("ws-workspace.ns:50051")),
            "localhost:50051"
        );
        assert_eq!(agents.address(&at("unix:/run/ws")), "unix:/run/ws");
        assert_eq!(AgentPool::new(None).address(&at("ws.ns:1")), "ws.ns:1");
    }

    #[test]
    fn pool_remembers_an_instance_once() {
        let agents = AgentPool::new(None);
        assert!(agents.remember_instance("ws", "pod-1"));
        assert!(!agents.remember_instance("ws", "pod-1"));
        assert!(agents.remember_instance("ws", "pod-2"), "another one");
        agents.forget_instance("ws");
        assert!(agents.remember_instance("ws", "pod-2"));
    }
}
