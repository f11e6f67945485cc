//! The manager is killed at each of its writes, before it and after it, and the next one ends what it began.
//!
//! A clean run counts the writes and says what is right. Then, once for each write and each side of it, the same
//! is done again in a namespace of its own with a manager that dies right there.

use std::{collections::BTreeMap, env, fmt::Debug, fs, pin::pin, sync::Arc};

use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use pko_api::{Program, Update, Workspace};
use pko_testkit::{
    Answer, FaultProxy, Script, StandIn, TestNamespace, TimedOut, UpdateBuilder, WorkspaceBuilder,
    eventually, fault_proxy::When,
};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::system::{MANAGER, System};

const PROGRAM: &str = "\
name: hello
runtime: yaml
outputs:
  size: 4
  hidden: {fn::secret: s3cr3t-value}
";

/// What is written for the Program that shows that a manager works.
const FENCE: [&str; 2] = ["/programs/", "/controllerrevisions"];
/// Of how many points one is tried, unless all are.
const SAMPLE: usize = 5;

/// What a user does: a Workspace, an Update of type `up`, and perhaps a cancel.
struct Scenario {
    name: &'static str,
    script: Script,
    cancels: bool,
}

/// What somebody sees at the end.
#[derive(Debug, PartialEq, Eq)]
struct End {
    workspace: Vec<String>,
    update: Vec<String>,
    message: Option<String>,
    outputs: Option<String>,
    secrets: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    pods: Vec<String>,
    agents: usize,
    runs: usize,
}

/// A write at which the manager dies, counted from 1.
#[derive(Clone, Copy, Debug)]
struct Point {
    write: usize,
    when: When,
}

/// The namespace of one try, and its `pulumi`.
struct Try {
    namespace: TestNamespace,
    stand_in: StandIn,
    backend: String,
}

impl Try {
    /// Does what the scenario says, and waits until the Update is over and the manager looks after what is new.
    async fn play(&self, scenario: &Scenario) -> Result<(), TimedOut> {
        let update = UpdateBuilder::new("up", "ws", "dev", "up").build();
        self.namespace
            .create_object(self.workspace())
            .await
            .unwrap();
        self.namespace.create_object(update).await.unwrap();
        if scenario.cancels {
            self.cancel().await?;
        }
        eventually("the Update to end", async || {
            let update = self.namespace.api::<Update>().get("up").await.unwrap();
            let shown = shown(&update.status.unwrap_or_default().conditions);
            let is_over = shown.iter().any(|shown| shown.starts_with("Complete=True"));
            is_over.then_some(()).ok_or(format!("{shown:?}"))
        })
        .await?;
        System::works(&self.namespace, "fence").await;
        Ok(())
    }

    fn workspace(&self) -> Value {
        let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
        let folder = self.stand_in.folder();
        WorkspaceBuilder::new("ws")
            .local(folder.join("source").to_str().unwrap())
            .push("/spec/stacks", json!({ "name": "dev", "create": true }))
            .push("/spec/env", variable("PULUMI_BACKEND_URL", &self.backend))
            .push(
                "/spec/env",
                variable("PULUMI_CONFIG_PASSPHRASE", "correct-horse"),
            )
            .push(
                "/spec/env",
                variable("PKO_STAND_IN", folder.to_str().unwrap()),
            )
            .build()
    }

    /// Cancels the run when it waits at its gate.
    async fn cancel(&self) -> Result<(), TimedOut> {
        eventually("the run to begin", async || {
            let runs = self.stand_in.count("up");
            if runs > 0 { Ok(()) } else { Err(runs) }
        })
        .await?;
        let cancel = json!({ "metadata": { "annotations": { "auto.pulumi.com/cancel": "true" } } });
        let updates = self.namespace.api::<Update>();
        updates
            .patch("up", &PatchParams::default(), &Patch::Merge(cancel))
            .await
            .unwrap();
        Ok(())
    }

    /// What there is now.
    async fn end(&self, system: &System) -> End {
        let workspace = self.namespace.api::<Workspace>().get("ws").await.unwrap();
        let update = self.namespace.api::<Update>().get("up").await.unwrap();
        let update = update.status.unwrap_or_default();
        let pods = self.list::<Pod>().await;
        End {
            workspace: shown(&workspace.status.unwrap_or_default().conditions),
            update: shown(&update.conditions),
            message: update
                .message
                .map(|message| message.replace(self.namespace.name(), "…")),
            outputs: update.outputs,
            secrets: self.secrets().await,
            pods: pods.iter().map(ResourceExt::name_any).collect(),
            agents: system.agents().len(),
            runs: self.stand_in.count("up"),
        }
    }

    async fn list<K>(&self) -> Vec<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        let listed = self.namespace.api::<K>().list(&ListParams::default()).await;
        listed.unwrap().items
    }

    async fn secrets(&self) -> BTreeMap<String, BTreeMap<String, Vec<u8>>> {
        let secrets = self.list::<Secret>().await.into_iter();
        let data = |secret: Secret| {
            let data = secret.data.unwrap_or_default().into_iter();
            data.map(|(key, value)| (key, value.0)).collect()
        };
        secrets
            .map(|secret| (secret.name_any(), data(secret)))
            .collect()
    }

    /// Removes everything that a manager looks after, so that it writes nothing of it during the next try.
    async fn remove(&self, system: &System) {
        let parameters = DeleteParams::default();
        let programs = self.namespace.api::<Program>();
        programs.delete("fence", &parameters).await.unwrap();
        let updates = self.namespace.api::<Update>();
        updates.delete("up", &parameters).await.unwrap();
        let workspaces = self.namespace.api::<Workspace>();
        workspaces.delete("ws", &parameters).await.unwrap();
        eventually("the objects to be gone", async || {
            let update = updates.get_opt("up").await.unwrap();
            let workspace = workspaces.get_opt("ws").await.unwrap();
            let pods = self.list::<Pod>().await.len();
            let left = (update.is_some(), workspace.is_some(), pods);
            if left == (false, false, 0) {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            }
        })
        .await
        .unwrap();
        system.no_workspace_is_left().await;
    }
}

/// A control plane, and a manager behind a proxy.
struct Stage {
    system: System,
    proxy: FaultProxy,
}

impl Stage {
    async fn start() -> Self {
        let program = StandIn::program().display().to_string();
        let environment = [("PKO_PULUMI", program.as_str())];
        let mut system = System::without_manager(&environment).await;
        let proxy = FaultProxy::start(&system.plane, MANAGER, &[]).unwrap();
        system.put_behind(&proxy);
        system.start_manager();
        Self { system, proxy }
    }

    async fn prepare(&self, scenario: &Scenario) -> Try {
        let namespace = TestNamespace::create(&self.system.plane).await.unwrap();
        let stand_in = self.system.stand_in_at(namespace.name(), &scenario.script);
        let source = stand_in.folder().join("source");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("Pulumi.yaml"), PROGRAM).unwrap();
        Try {
            namespace,
            stand_in,
            backend: self.system.backend(),
        }
    }

    /// Does it without any harm: what is right, and the writes that it takes.
    async fn clean(&self, scenario: &Scenario) -> (End, usize) {
        let tried = self.prepare(scenario).await;
        let before = self.proxy.writes().len();
        tried.play(scenario).await.unwrap();
        let end = tried.end(&self.system).await;
        let writes = self.proxy.writes().split_off(before).into_iter();
        let writes = writes.filter(|write| !FENCE.iter().any(|kind| write.path.contains(kind)));
        let writes = writes.count();
        tried.remove(&self.system).await;
        (end, writes)
    }

    /// Does it with a manager that dies, and says whether it died; an error is how the end differs.
    async fn killed(
        &mut self,
        scenario: &Scenario,
        point: Point,
        right: &End,
    ) -> Result<bool, TimedOut> {
        let tried = self.prepare(scenario).await;
        let died = self.kill_at(point);
        let mut played = pin!(tried.play(scenario));
        let is_killed = tokio::select! {
            biased;
            () = died.notified() => true,
            played = &mut played => { played?; false }
        };
        // One that did not die may still do so until all is well.
        self.proxy.heal();
        self.system.kill_manager();
        self.system.start_manager();
        if is_killed {
            played.await?;
        }
        eventually("the same end", async || {
            let end = tried.end(&self.system).await;
            if end == *right {
                Ok(())
            } else {
                Err(format!("{end:#?}"))
            }
        })
        .await?;
        tried.remove(&self.system).await;
        Ok(is_killed)
    }

    /// Has the manager of now die at a write, and tells when it did.
    fn kill_at(&self, point: Point) -> Arc<Notify> {
        let process = self.system.manager_process().cast_signed();
        let process = Pid::from_raw(process).unwrap();
        let died = Arc::new(Notify::new());
        let tells = Arc::clone(&died);
        self.proxy.kill_at(point.write, point.when, move || {
            // One that is gone already is as dead as it should be.
            let _ = kill_process(process, Signal::KILL);
            tells.notify_one();
        });
        died
    }
}

fn shown(conditions: &[Condition]) -> Vec<String> {
    let shown = conditions
        .iter()
        .map(|found| format!("{}={}/{}", found.type_, found.status, found.reason));
    shown.collect()
}

/// All points with `PKO_FULL=1`, else some of them, from the first on.
fn points(writes: usize) -> Vec<Point> {
    let all = (1..=writes).flat_map(|write| {
        let sides = [When::Before, When::After];
        sides.map(|when| Point { write, when })
    });
    let is_full = env::var_os("PKO_FULL").is_some();
    all.step_by(if is_full { 1 } else { SAMPLE }).collect()
}

#[expect(clippy::print_stderr, reason = "what a test has to say for itself")]
async fn survives(scenario: &Scenario) {
    let mut stage = Stage::start().await;
    let (right, writes) = stage.clean(scenario).await;
    assert_eq!(right.runs, 1);
    let points = points(writes);
    let (mut killed, mut failures) = (0, Vec::new());
    for point in &points {
        match stage.killed(scenario, *point, &right).await {
            Ok(is_killed) => killed += usize::from(is_killed),
            Err(error) => failures.push(format!("{point:?}: {error}")),
        }
    }
    eprintln!(
        "{}: {writes} writes, {} points tried, {} passed, {killed} killed a manager",
        scenario.name,
        points.len(),
        points.len() - failures.len(),
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn an_update_ends_whenever_the_manager_dies() {
    let scenario = Scenario {
        name: "an up",
        script: Script::new(),
        cancels: false,
    };
    survives(&scenario).await;
}

#[tokio::test]
async fn a_failing_update_ends_whenever_the_manager_dies() {
    let fails = Answer::new().complains("error: it broke\n").exits(255);
    let scenario = Scenario {
        name: "a failing up",
        script: Script::new().on("up", fails),
        cancels: false,
    };
    survives(&scenario).await;
}

#[tokio::test]
async fn a_canceled_update_ends_whenever_the_manager_dies() {
    let gated = Answer::new().waits_for("gate").as_usual();
    let scenario = Scenario {
        name: "a canceled up",
        script: Script::new().on("up", gated),
        cancels: true,
    };
    survives(&scenario).await;
}
