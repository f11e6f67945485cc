//! Workspace pods, and the processes in them.

use std::fs;

use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::DeleteParams};
use pko_testkit::Cluster;
use rustix::process::{Pid, Signal, kill_process};

use crate::test_env::TestEnv;

/// The program of a manager and that of an agent, as they are started in their pods.
const MANAGER: &str = "/manager";
const AGENT: &str = "/share/agent";

/// A process of a pod.
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn managers(cluster: &Cluster) -> Vec<Self> {
        Self::of(cluster, MANAGER, &[])
    }

    /// The processes of a program among whose arguments are all these.
    fn of(cluster: &Cluster, program: &str, arguments: &[&str]) -> Vec<Self> {
        let processes = cluster.node_processes().into_iter();
        let wanted = processes.filter(|process| {
            let is_there = |wanted: &&str| process.arguments.iter().any(|one| one == wanted);
            process
                .arguments
                .first()
                .is_some_and(|name| name == program)
                && arguments.iter().all(is_there)
        });
        wanted.map(|process| Self(process.id)).collect()
    }

    fn status(&self, field: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let value = status.lines().find_map(|line| line.strip_prefix(field));
        value.unwrap_or_default().trim().to_owned()
    }

    /// True for PID 1 of its container.
    fn is_first(&self) -> bool {
        self.status("NSpid:").split_whitespace().next_back() == Some("1")
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&self) {
        let id = i32::try_from(self.0).ok().and_then(Pid::from_raw);
        kill_process(id.unwrap(), Signal::KILL).unwrap();
    }

    /// How much memory it has, in megabytes.
    pub(crate) fn megabytes(&self) -> f64 {
        let resident = self.status("VmRSS:");
        let kilobytes: f64 = resident.trim_end_matches("kB").trim().parse().unwrap();
        kilobytes / 1024.0
    }
}

/// The pod of a Stack's workspace.
pub(crate) fn pod_name(stack: &str) -> String {
    format!("{stack}-workspace-0")
}

impl TestEnv<'_> {
    pub(crate) async fn pod(&self, stack: &str) -> Option<Pod> {
        let pods = self.namespace.api::<Pod>();
        pods.get_opt(&pod_name(stack)).await.unwrap()
    }

    /// Its uid, which must be there.
    pub(crate) async fn pod_uid(&self, stack: &str) -> String {
        self.pod(stack).await.unwrap().uid().unwrap()
    }

    /// Waits until it is gone.
    pub(crate) async fn wait_for_no_pod(&self, stack: &str) {
        self.wait_until(format!("the pod of {stack} to be gone"), async || {
            let pods = self.namespace.api::<Pod>();
            match pods.get_opt(&pod_name(stack)).await {
                Ok(None) => Ok(()),
                Ok(Some(pod)) => Err(crate::stacks::text(&pod.status)),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
    }

    /// Deletes it, as a user or a drained node does.
    pub(crate) async fn delete_pod(&self, stack: &str) {
        let pods = self.namespace.api::<Pod>();
        let parameters = DeleteParams::default();
        pods.delete(&pod_name(stack), &parameters).await.unwrap();
    }

    /// The processes of a workspace's agent: the first of the container, which only watches, and
    /// the agent itself.
    pub(crate) fn agents(&self, stack: &str) -> Vec<Process> {
        Process::of(&self.operator.cluster, AGENT, &[self.name(), stack])
    }

    /// The agent of a Stack's workspace.
    pub(crate) fn agent(&self, stack: &str) -> Process {
        let mut found = self.agents(stack);
        found.retain(|process| !process.is_first());
        assert_eq!(found.len(), 1, "agents of {stack}");
        found.remove(0)
    }

    /// How often the container of the agent was started again.
    pub(crate) async fn restarts(&self, stack: &str) -> i32 {
        let pod = self.pod(stack).await;
        let status = pod.and_then(|pod| pod.status).unwrap_or_default();
        let mut containers = status.container_statuses.unwrap_or_default().into_iter();
        let container = containers.find(|container| container.name == "pulumi");
        container.map_or(0, |container| container.restart_count)
    }
}
