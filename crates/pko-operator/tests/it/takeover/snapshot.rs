//! What is in the namespace at a moment, and the Updates that appear in it.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
};

use futures::StreamExt as _;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::StatefulSet,
        core::v1::{Pod, Service},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::ListParams,
    runtime::{WatchStreamExt as _, watcher},
};
use pko_api::{Stack, Update, Workspace};
use pko_testkit::eventually;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use super::lab::NAMESPACE;

/// Names, uids and generations of everything that makes a workspace.
pub(super) struct Snapshot {
    stacks: Vec<String>,
    /// By `Kind name`.
    parts: BTreeMap<String, String>,
}

impl Snapshot {
    pub(super) async fn take(client: &Client) -> Self {
        let mut parts = BTreeMap::new();
        parts.extend(identities::<Workspace>(client, |it| text(&it.metadata.generation)).await);
        parts.extend(identities::<StatefulSet>(client, |it| text(&it.metadata.generation)).await);
        parts.extend(identities::<Service>(client, |it| text(&it.spec)).await);
        // A pod that is not the same one has another uid
        parts.extend(identities::<Pod>(client, |_| String::new()).await);
        let stacks = list::<Stack>(client).await;
        Self {
            stacks: stacks.iter().map(Stack::name_any).collect(),
            parts,
        }
    }

    pub(super) fn stacks(&self) -> &[String] {
        &self.stacks
    }

    /// What there is of a Stack's workspace.
    pub(super) fn of(&self, stack: &str) -> Vec<(&String, &String)> {
        let names = [
            format!("Workspace {stack}"),
            format!("StatefulSet {stack}-workspace"),
            format!("Service {stack}-workspace"),
            format!("Pod {stack}-workspace-0"),
        ];
        names
            .iter()
            .filter_map(|name| self.parts.get_key_value(name))
            .collect()
    }
}

fn text(value: &impl Debug) -> String {
    format!("{value:?}")
}

async fn list<K>(client: &Client) -> Vec<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let api = Api::<K>::namespaced(client.clone(), NAMESPACE);
    api.list(&ListParams::default()).await.unwrap().items
}

async fn identities<K>(client: &Client, what: fn(&K) -> String) -> Vec<(String, String)>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let objects = list::<K>(client).await.into_iter();
    let identity = |object: K| {
        let name = format!("{} {}", K::kind(&()), object.name_any());
        (name, format!("{:?} {}", object.uid(), what(&object)))
    };
    objects.map(identity).collect()
}

/// The Updates of before, and those that come.
pub(super) struct Updates {
    /// The uids of those that had ended before.
    ended: Vec<Option<String>>,
    /// The Stack and the message of each, by its uid.
    seen: Arc<Mutex<BTreeMap<String, (String, String)>>>,
    watching: JoinHandle<()>,
}

impl Updates {
    pub(super) async fn watch(client: &Client) -> Self {
        let before = list::<Update>(client).await;
        let ended = before.iter().filter(|update| has_ended(update));
        let ended = ended.map(Update::uid).collect();
        let old: Vec<Option<String>> = before.iter().map(Update::uid).collect();
        let seen: Arc<Mutex<BTreeMap<_, _>>> = Arc::default();
        let notes = Arc::clone(&seen);
        let updates = Api::<Update>::namespaced(client.clone(), NAMESPACE);
        let stream = watcher(updates, watcher::Config::default()).applied_objects();
        let watching = tokio::spawn(async move {
            let mut stream = std::pin::pin!(stream);
            while let Some(update) = stream.next().await {
                let Ok(update) = update else { continue };
                if !old.contains(&update.uid()) {
                    let stack = update.labels()["pulumi.com/stack-name"].clone();
                    let message = update.spec.message.clone().unwrap_or_default();
                    let mut notes = notes.lock().unwrap();
                    notes.insert(update.uid().unwrap(), (stack, message));
                }
            }
        });
        Self {
            ended,
            seen,
            watching,
        }
    }

    /// Waits until those are gone that had ended a day before: their time to live is over.
    pub(super) async fn old_ones_are_gone(&self, client: &Client) {
        let gone = eventually("the Updates of before to be gone", async || {
            let updates = list::<Update>(client).await;
            let old = updates
                .iter()
                .filter(|update| self.ended.contains(&update.uid()));
            let old: Vec<String> = old.map(Update::name_any).collect();
            if old.is_empty() {
                Ok(())
            } else {
                Err(old.join(", "))
            }
        });
        gone.await.unwrap();
    }

    /// The messages of those of a Stack.
    pub(super) fn new_of(&self, stack: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let own = seen.values().filter(|(owner, _)| owner == stack);
        own.map(|(_, message)| message.clone()).collect()
    }
}

fn has_ended(update: &Update) -> bool {
    let conditions = update.status.iter().flat_map(|status| &status.conditions);
    let mut complete = conditions.filter(|found| found.type_ == "Complete");
    complete.any(|complete| complete.status == "True")
}

impl Drop for Updates {
    fn drop(&mut self) {
        self.watching.abort();
    }
}
