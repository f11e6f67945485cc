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
    let mut lives = PodTasks {
        node,
        client,
        told: BTreeMap::new(),
        listed: BTreeSet::new(),
    };
    let mut events = pin!(watcher(api, watcher::Config::default().labels(PODS)));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => lives.hear(event),
            // The watcher begins anew when it is asked again
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// By the uid of each pod.
struct PodTasks {
    node: Arc<NodeState>,
    client: Client,
    told: BTreeMap<String, watch::Sender<PodUpdate>>,
    listed: BTreeSet<String>,
}

impl PodTasks {
    fn hear(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => {
                self.listed.insert(pod.uid().unwrap_or_default());
                self.see(pod);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.told.retain(|uid, life| {
                    let is_there = listed.contains(uid);
                    if !is_there {
                        life.send_modify(|news| news.gone = true);
                    }
                    is_there
                });
            }
            Event::Apply(pod) => self.see(pod),
            Event::Delete(pod) => {
                if let Some(life) = self.told.remove(&pod.uid().unwrap_or_default()) {
                    life.send_modify(|news| news.gone = true);
                }
            }
        }
    }

    fn see(&mut self, pod: Pod) {
        let uid = pod.uid().unwrap_or_default();
        if let Some(life) = self.told.get(&uid) {
            life.send_modify(|news| news.pod = pod);
        } else if self.is_ours(&pod) {
            self.begin(uid, pod);
        }
    }

    /// Without a place, or with a place here.
    fn is_ours(&self, pod: &Pod) -> bool {
        let place = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_ref());
        let is_over = phase.is_some_and(|phase| phase == "Succeeded" || phase == "Failed");
        place.is_none_or(|place| *place == self.node.name) && !is_over
    }

    fn begin(&mut self, uid: String, pod: Pod) {
        let (sender, news) = watch::channel(PodUpdate { pod, gone: false });
        match PodTask::new(Arc::clone(&self.node), self.client.clone(), news) {
            Ok(life) => {
                self.told.insert(uid, sender);
                spawn_local(life.live());
            }
            Err(error) => complain(&error),
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the test harness shows it with the failed test"
)]
fn complain(error: &std::io::Error) {
    eprintln!("the pretend node failed to begin a pod: {error}");
}
