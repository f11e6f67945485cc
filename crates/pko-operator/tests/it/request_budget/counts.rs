//! What twenty Stacks cost, counted: requests to the API server, and processes of `pulumi`.
//!
//! They live in pods, as they do in a cluster, so that the writes for pods are among those that
//! count.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::{Arc, Mutex},
};

use futures::{StreamExt as _, future::join_all};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use pko_api::{
    Stack, Workspace,
    names::{
        annotations, events,
        reasons::WorkspaceReason::{self, Initializing, Installing},
    },
};
use pko_testkit::{
    Script, StackBuilder, StandIn, TestNamespace,
    audit::{AuditPosition, AuditedRequests},
    eventually,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{
    harness::{System, Watched, folder_of},
    scripted_stacks::namespace,
};

const STACKS: usize = 20;
/// Upstream's operator writes 28 times for each, events included.
const FIRST_WRITES: usize = 20;
/// Upstream's writes 13 times.
const LATER_WRITES: usize = 10;
/// An update is detected, the workspace initialized, the run and the Stack have succeeded.
const FIRST_EVENTS: usize = 4;
/// The same without the workspace.
const LATER_EVENTS: usize = 3;
/// Version, install, select, init, config and up, and one more for outputs that are not in the
/// events; upstream's has 17.
const FIRST_PROCESSES: usize = 7;
/// Config and up, and one more for such outputs; upstream's has 8.
const LATER_PROCESSES: usize = 3;

/// Twenty Stacks of one Program, each with a stand-in of its own for `pulumi`.
struct Crowd {
    system: System,
    namespace: TestNamespace,
    stand_ins: Vec<(String, StandIn)>,
    shown: Shown,
}

impl Crowd {
    async fn start() -> Self {
        let program = StandIn::program().display().to_string();
        let environment = [("PKO_PULUMI", program.as_str())];
        let system = System::in_pods_watching(Watched::Cluster, &environment).await;
        let namespace = namespace(&system).await;
        System::works(&namespace, "demo").await;
        let stand_ins = (0..STACKS).map(|number| format!("stack-{number}"));
        let stand_ins = stand_ins
            .map(|name| (name.clone(), system.stand_in_at(&name, &Script::new())))
            .collect();
        Self {
            shown: Shown::watch(&namespace),
            system,
            namespace,
            stand_ins,
        }
    }

    /// Creates them, a few at a time, so that a busy machine is not too busy for them.
    async fn create(&self) {
        for few in self.stand_ins.chunks(5) {
            for (name, stand_in) in few {
                create_stack(&self.namespace, &self.system, stand_in, name).await;
            }
            for (name, _) in few {
                wait_until_ready(&self.namespace, name, "").await;
            }
        }
    }

    /// Asks for another run of each.
    async fn ask_again(&self) {
        let asked = self.stand_ins.iter().map(|(name, _)| async move {
            let annotation = json!({ annotations::RECONCILIATION_REQUEST: "again" });
            let patch = Patch::Merge(json!({ "metadata": { "annotations": annotation } }));
            let stacks = self.namespace.api::<Stack>();
            stacks.patch(name, &PatchParams::default(), &patch).await
        });
        for asked in join_all(asked).await {
            asked.unwrap();
        }
    }

    /// Waits until each is Ready again, and its last run was for this request.
    async fn wait_until_all_ready(&self, request: &str) {
        for (name, _) in &self.stand_ins {
            wait_until_ready(&self.namespace, name, request).await;
        }
    }

    /// Waits until each Stack has so many events, which are written last.
    async fn wait_for_events(&self, each: usize) {
        let told = eventually("the events", async || {
            let events = self.namespace.api::<Event>();
            let events = events.list(&ListParams::default()).await.unwrap();
            let ours = events.iter().filter(|event| is_ours(event));
            let told: i32 = ours.map(|event| event.count.unwrap_or(1)).sum();
            if usize::try_from(told) == Ok(each * STACKS) {
                Ok(())
            } else {
                Err(told)
            }
        });
        told.await.unwrap();
    }

    async fn mark(&self) -> AuditPosition {
        self.system.plane.audit_position().await.unwrap()
    }

    /// The requests of the manager for these Stacks.
    async fn requests_since(&self, mark: AuditPosition) -> AuditedRequests {
        let requests = self.system.requests_since(mark).await;
        requests.only(|request| request.namespace == self.namespace.name())
    }

    /// For each Stack, the commands that `pulumi` was given.
    fn calls(&self) -> Vec<Vec<String>> {
        let calls = self.stand_ins.iter().map(|(_, stand_in)| stand_in.calls());
        calls
            .map(|calls| {
                calls
                    .iter()
                    .map(pko_testkit::stand_in::Call::short)
                    .collect()
            })
            .collect()
    }
}

fn is_ours(event: &Event) -> bool {
    let reporter = event.reporting_component.as_deref().unwrap_or_default();
    [
        events::STACK_CONTROLLER,
        events::WORKSPACE_CONTROLLER,
        events::UPDATE_CONTROLLER,
    ]
    .contains(&reporter)
}

/// What is shown only where it takes longer than usual, as on a busy machine: each such state is
/// one more write.
struct Shown {
    seen: Arc<Mutex<BTreeSet<(String, String)>>>,
    watching: [JoinHandle<()>; 2],
}

impl Shown {
    fn watch(namespace: &TestNamespace) -> Self {
        let seen = Arc::default();
        let watching = [
            watch(namespace.api::<Workspace>(), Arc::clone(&seen), at_work),
            watch(namespace.api::<Stack>(), Arc::clone(&seen), held_up),
        ];
        Self { seen, watching }
    }

    fn writes(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        for watching in &self.watching {
            watching.abort();
        }
    }
}

/// Notes the states of all objects of a kind that are worth it.
fn watch<K>(
    objects: Api<K>,
    seen: Arc<Mutex<BTreeSet<(String, String)>>>,
    worth: fn(K) -> Vec<String>,
) -> JoinHandle<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let stream = watcher(objects, watcher::Config::default()).default_backoff();
    tokio::spawn(async move {
        let mut stream = std::pin::pin!(stream.applied_objects());
        while let Some(object) = stream.next().await {
            let Ok(object) = object else { continue };
            let name = object.name_any();
            let states = worth(object).into_iter();
            let states = states.map(|state| (name.clone(), state));
            seen.lock().unwrap().extend(states);
        }
    })
}

/// A Workspace shows what takes longer than a moment.
fn at_work(workspace: Workspace) -> Vec<String> {
    let conditions = workspace.status.unwrap_or_default().conditions.into_iter();
    let states = [Installing, Initializing].map(WorkspaceReason::as_str);
    let reasons = conditions.map(|condition| condition.reason);
    reasons
        .filter(|reason| states.contains(&reason.as_str()))
        .collect()
}

/// A Stack shows what holds up its Workspace once that lasts.
fn held_up(stack: Stack) -> Vec<String> {
    let conditions = stack.status.unwrap_or_default().conditions.into_iter();
    let messages = conditions.map(|condition| condition.message);
    messages
        .filter(|message| message.starts_with("waiting for workspace readiness ("))
        .collect()
}

/// A Stack of the Program `demo`, with config.
async fn create_stack(namespace: &TestNamespace, system: &System, stand_in: &StandIn, name: &str) {
    let stack = StackBuilder::new(name)
        .stack(name)
        .backend(&system.backend())
        .program("demo")
        .config("size", "4")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .set("/spec/envRefs/PKO_STAND_IN", folder_of(stand_in))
        .build();
    namespace.create_object(stack).await.unwrap();
}

async fn wait_until_ready(namespace: &TestNamespace, name: &str, request: &str) {
    eventually(format!("{name} to be Ready"), async || {
        let stack = namespace.api::<Stack>().get(name).await.unwrap();
        let status = stack.status.unwrap_or_default();
        let mut conditions = status.conditions.iter();
        let is_ready = conditions.any(|found| found.type_ == "Ready" && found.status == "True");
        let last = status.last_update.as_ref();
        let answered = last.map(|last| last.reconcile_request.as_deref().unwrap_or_default());
        if is_ready && answered == Some(request) {
            Ok(())
        } else {
            Err(format!("{status:#?}"))
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn twenty_stacks_take_few_requests_and_processes() {
    let mut crowd = Crowd::start().await;

    let mark = crowd.mark().await;
    crowd.create().await;
    crowd.wait_for_events(FIRST_EVENTS).await;
    let requests = crowd.requests_since(mark).await;
    let (counts, writes) = (requests.counts(), requests.writes().len());
    let most = FIRST_WRITES * STACKS + crowd.shown.writes();
    assert!(writes <= most, "{writes} writes, not {most}:\n{counts}");
    let first = crowd.calls();
    for calls in &first {
        assert!(calls.len() <= FIRST_PROCESSES, "{calls:?}");
    }

    let mark = crowd.mark().await;
    crowd.ask_again().await;
    crowd.wait_until_all_ready("again").await;
    crowd.wait_for_events(FIRST_EVENTS + LATER_EVENTS).await;
    let requests = crowd.requests_since(mark).await;
    let (counts, writes) = (requests.counts(), requests.clone().writes().len());
    let most = LATER_WRITES * STACKS;
    assert!(writes <= most, "{writes} writes, not {most}:\n{counts}");
    let reads = requests.only(|request| ["get", "list"].contains(&&*request.verb));
    let secrets = reads.count(crowd.system.user(), "get", "secrets");
    assert_eq!(reads.len(), secrets, "besides Secrets:\n{}", reads.counts());
    // Secrets are not watched, so each run reads the version of the Secret that its environment is
    // from.
    let credentials = reads.only(|request| request.name == "credentials").len();
    assert!(credentials <= STACKS, "{credentials} reads of credentials");
    let outputs = secrets - credentials;
    assert!(outputs <= STACKS, "{outputs} reads of outputs");
    for (calls, first) in crowd.calls().iter().zip(&first) {
        let calls = &calls[first.len()..];
        assert!(calls.len() <= LATER_PROCESSES, "{calls:?}");
    }

    crowd.system.kill_manager();
    let mark = crowd.mark().await;
    crowd.system.start_manager();
    // By the time that one in another namespace is Ready, these were looked at.
    let elsewhere = namespace(&crowd.system).await;
    System::works(&elsewhere, "demo").await;
    let stand_in = crowd.system.stand_in_at("other", &Script::new());
    create_stack(&elsewhere, &crowd.system, &stand_in, "other").await;
    wait_until_ready(&elsewhere, "other", "").await;
    let writes = crowd.requests_since(mark).await.writes();
    assert!(writes.is_empty(), "{}", writes.counts());
}
