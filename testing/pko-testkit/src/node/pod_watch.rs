//! Watches the pods: starts a task for each new one, and passes updates on.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::node_state::NodeState;
use super::pod_api::PAUSE;
use super::pod_task::{PodTask, PodUpdate};

const PODS: &str = "auto.pulumi.com/component=workspace";

/// Follows the pods for ever.
pub(super) async fn run(node: Arc<NodeState>, client: Client) {
    let api: Api<Pod> = match &node.settings.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut tasks = PodTasks {
        node,
        client,
        tasks: BTreeMap::new(),
        listed: BTreeSet::new(),
    };
    let mut events = pin!(watcher(api, watcher::Config::default().labels(PODS)));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => tasks.handle(event),
            // The watcher restarts when it is polled again
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// By the uid of each pod.
struct PodTasks {
    node: Arc<NodeState>,
    client: Client,
    tasks: BTreeMap<String, watch::Sender<PodUpdate>>,
    listed: BTreeSet<String>,
}

impl PodTasks {
    fn handle(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => {
                self.listed.insert(pod.uid().unwrap_or_default());
                self.apply(pod);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.tasks.retain(|uid, task| {
                    let is_there = listed.contains(uid);
                    if !is_there {
                        task.send_modify(|update| update.gone = true);
                    }
                    is_there
                });
            }
            Event::Apply(pod) => self.apply(pod),
            Event::Delete(pod) => {
                if let Some(task) = self.tasks.remove(&pod.uid().unwrap_or_default()) {
                    task.send_modify(|update| update.gone = true);
                }
            }
        }
    }

    fn apply(&mut self, pod: Pod) {
        let uid = pod.uid().unwrap_or_default();
        if let Some(task) = self.tasks.get(&uid) {
            task.send_modify(|update| update.pod = pod);
        } else if self.is_ours(&pod) {
            self.begin(uid, pod);
        }
    }

    /// Unscheduled, or scheduled to this node.
    fn is_ours(&self, pod: &Pod) -> bool {
        let place = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_ref());
        let is_over = phase.is_some_and(|phase| phase == "Succeeded" || phase == "Failed");
        place.is_none_or(|place| *place == self.node.name) && !is_over
    }

    fn begin(&mut self, uid: String, pod: Pod) {
        let (sender, update) = watch::channel(PodUpdate { pod, gone: false });
        match PodTask::new(Arc::clone(&self.node), self.client.clone(), update) {
            Ok(task) => {
                self.tasks.insert(uid, sender);
                spawn_local(task.run_to_end());
            }
            Err(error) => print_error(&error),
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the test harness shows it with the failed test"
)]
fn print_error(error: &std::io::Error) {
    eprintln!("the fake node failed to begin a pod: {error}");
}
