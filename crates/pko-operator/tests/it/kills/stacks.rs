//! A Stack, from what its user does to what becomes of it.

use std::collections::BTreeMap;

use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use pko_api::{Program, Stack, Update, Workspace, pulumi::v1::LastUpdate};
use pko_testkit::{
    Answer, ProgramBuilder, Script, StackBuilder, StandIn, TestNamespace, TimedOut, eventually,
};
use serde_json::{Value, json};

use super::{Play, list, shown, survives};
use crate::{
    scripted::{credentials, patch_stack},
    system::{System, folder_of},
};

/// Of how many points one is tried, unless all are.
const SAMPLE: usize = 11;
/// The Stacks of a scenario that has two.
const NAMES: [&str; 2] = ["demo", "base"];

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    Create,
    NewRevision,
    Request,
    FailingUp,
    Prerequisite,
    Destroy,
    ReclaimDelete,
}

/// What somebody sees at the end.
#[derive(Debug, PartialEq, Eq)]
struct End {
    /// Conditions and the last result of each Stack.
    stacks: BTreeMap<String, (Vec<String>, String, Vec<String>)>,
    outputs: Value,
    workspaces: Vec<String>,
    /// Updates that hold our finalizer, or have not ended.
    unfinished: Vec<String>,
    agents: usize,
    /// How often `up` and `destroy` ran.
    ups: usize,
    destroys: usize,
}

/// The namespace of one try, and its `pulumi`.
struct Try {
    namespace: TestNamespace,
    stand_in: StandIn,
    backend: String,
}

impl Try {
    async fn create(&self, name: &str, fields: &Value) {
        let mut stack = StackBuilder::new(name)
            .stack(name)
            .backend(&self.backend)
            .program("demo")
            .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
            .set("/spec/envRefs/PKO_STAND_IN", folder_of(&self.stand_in))
            .set("/spec/retryMaxBackoffDurationSeconds", 1)
            .build();
        let spec = stack["spec"].as_object_mut().unwrap();
        spec.extend(fields.as_object().unwrap().clone());
        self.namespace.create_object(stack).await.unwrap();
    }

    async fn edit_program(&self) {
        let programs = self.namespace.api::<Program>();
        let change = Patch::Merge(json!({ "program": { "outputs": { "size": 5 } } }));
        let parameters = PatchParams::default();
        programs.patch("demo", &parameters, &change).await.unwrap();
    }

    /// Waits until a Stack is ready for its spec, its request and this revision.
    async fn ready(&self, name: &str, revision: &str) -> Result<(), TimedOut> {
        eventually(format!("{name} to be ready"), async || {
            let stack = self.namespace.api::<Stack>().get(name).await.unwrap();
            let status = stack.status.clone().unwrap_or_default();
            let is_ready =
                shown(&status.conditions).contains(&"Ready=True/ProcessingCompleted".to_owned());
            let last = status.last_update.clone().unwrap_or_default();
            let annotation = "pulumi.com/reconciliation-request";
            let request = stack.annotations().get(annotation).cloned();
            let right = is_ready
                && last.generation == stack.metadata.generation
                && last.last_successful_commit.as_deref() == Some(revision)
                && last.reconcile_request.unwrap_or_default() == request.unwrap_or_default();
            right.then_some(()).ok_or(format!("{status:#?}"))
        })
        .await
    }

    async fn gone(&self) -> Result<(), TimedOut> {
        eventually("the Stack to be gone", async || {
            let stack = self.namespace.api::<Stack>().get_opt("demo").await.unwrap();
            stack.map_or(Ok(()), |stack| Err(format!("{:#?}", stack.status)))
        })
        .await
    }

    async fn workspace_gone(&self) -> Result<(), TimedOut> {
        eventually(
            "the Workspace and its Updates to be gone or done",
            async || {
                let found = list::<Workspace>(&self.namespace).await.len();
                let updates = list::<Update>(&self.namespace).await;
                let unfinished = updates
                    .iter()
                    .filter(|update| is_unfinished(update))
                    .count();
                if found + unfinished == 0 {
                    Ok(())
                } else {
                    Err(found)
                }
            },
        )
        .await
    }
}

fn script(scenario: Scenario) -> Script {
    let fails = Answer::new().complains("error: it broke\n").exits(255);
    match scenario {
        Scenario::FailingUp => Script::new().on_call("up", 1, fails),
        _ => Script::new(),
    }
}

impl Play for Try {
    type Scenario = Scenario;
    type End = End;

    fn name(scenario: &Scenario) -> &'static str {
        match scenario {
            Scenario::Create => "a Stack is created",
            Scenario::NewRevision => "a new revision",
            Scenario::Request => "a run with nothing changed",
            Scenario::FailingUp => "an up that fails once",
            Scenario::Prerequisite => "a Stack that another one waits for",
            Scenario::Destroy => "a Stack is destroyed",
            Scenario::ReclaimDelete => "a Workspace that goes after the run",
        }
    }

    async fn prepare(system: &System, scenario: &Scenario) -> Self {
        let namespace = TestNamespace::create(&system.plane).await.unwrap();
        namespace.create_object(credentials()).await.unwrap();
        let stand_in = system.stand_in_at(namespace.name(), &script(*scenario));
        let program = ProgramBuilder::new("demo")
            .resource("one", "pulumi:index:Stash", &json!({ "input": "v1" }))
            .output("size", 4)
            .build();
        namespace.create_object(program).await.unwrap();
        let tried = Self {
            namespace,
            stand_in,
            backend: system.backend(),
        };
        eventually("the Program to be served", async || {
            let program = tried.namespace.api::<Program>().get("demo").await.unwrap();
            program.status.map(drop).ok_or("not yet")
        })
        .await
        .unwrap();
        if let Scenario::NewRevision | Scenario::Request | Scenario::Destroy = scenario {
            let fields = json!({ "destroyOnFinalize": *scenario == Scenario::Destroy });
            tried.create("demo", &fields).await;
            tried.ready("demo", "1").await.unwrap();
        }
        tried
    }

    async fn play(&self, scenario: &Scenario) -> Result<(), TimedOut> {
        match scenario {
            Scenario::Create | Scenario::FailingUp => {
                self.create("demo", &json!({})).await;
                self.ready("demo", "1").await?;
            }
            Scenario::NewRevision => {
                self.edit_program().await;
                self.ready("demo", "2").await?;
            }
            Scenario::Request => {
                let now = json!({ "pulumi.com/reconciliation-request": "now" });
                let request = json!({ "metadata": { "annotations": now } });
                patch_stack(&self.namespace, "demo", request).await;
                self.ready("demo", "1").await?;
            }
            Scenario::Prerequisite => {
                let first = json!({ "prerequisites": [{ "name": "base" }] });
                self.create("demo", &first).await;
                self.create("base", &json!({})).await;
                self.ready("base", "1").await?;
                self.ready("demo", "1").await?;
            }
            Scenario::Destroy => {
                let stacks = self.namespace.api::<Stack>();
                let parameters = DeleteParams::default();
                stacks.delete("demo", &parameters).await.unwrap();
                self.gone().await?;
                self.workspace_gone().await?;
            }
            Scenario::ReclaimDelete => {
                let delete = json!({ "workspaceReclaimPolicy": "Delete" });
                self.create("demo", &delete).await;
                self.ready("demo", "1").await?;
                self.workspace_gone().await?;
            }
        }
        System::works(&self.namespace, super::FENCE).await;
        Ok(())
    }

    async fn end(&self, system: &System) -> End {
        let all = list::<Stack>(&self.namespace).await;
        let first = all.first().and_then(|stack| stack.status.as_ref());
        let outputs = first.and_then(|status| status.outputs.clone());
        let workspaces = list::<Workspace>(&self.namespace).await;
        let updates = list::<Update>(&self.namespace).await;
        End {
            outputs: json!(outputs),
            stacks: all.iter().map(seen).collect(),
            workspaces: workspaces.iter().map(Workspace::name_any).collect(),
            unfinished: updates
                .iter()
                .filter(|update| is_unfinished(update))
                .map(Update::name_any)
                .collect(),
            agents: system.agents().len(),
            ups: self.stand_in.count("up"),
            destroys: self.stand_in.count("destroy"),
        }
    }

    /// The same, and at most one run more than needed.
    fn is_right(end: &End, right: &End) -> bool {
        let same = End {
            ups: right.ups,
            destroys: right.destroys,
            stacks: end.stacks.clone(),
            outputs: end.outputs.clone(),
            workspaces: end.workspaces.clone(),
            unfinished: end.unfinished.clone(),
            agents: right.agents,
        };
        same == *right
            && end.agents == end.workspaces.len()
            && end.ups <= right.ups + 1
            && end.destroys <= right.destroys + 1
    }

    async fn remove(&self, system: &System) {
        let parameters = DeleteParams::default();
        let stacks = self.namespace.api::<Stack>();
        for name in NAMES {
            let _ = stacks.delete(name, &parameters).await;
        }
        eventually("the objects to be gone", async || {
            let left = (
                list::<Stack>(&self.namespace).await.len(),
                list::<Workspace>(&self.namespace).await.len(),
                list::<Update>(&self.namespace).await.len(),
            );
            if left == (0, 0, 0) {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            }
        })
        .await
        .unwrap();
        let programs = self.namespace.api::<Program>();
        for name in ["demo", super::FENCE] {
            programs.delete(name, &parameters).await.unwrap();
        }
        system.no_workspace_is_left().await;
    }
}

/// Conditions, the last result without what differs each time, and the finalizers.
fn seen(stack: &Stack) -> (String, (Vec<String>, String, Vec<String>)) {
    let status = stack.status.clone().unwrap_or_default();
    let last = LastUpdate {
        name: None,
        last_resync_time: None,
        ..status.last_update.unwrap_or_default()
    };
    let seen = (
        shown(&status.conditions),
        format!("{last:?} {:?}", status.current_update),
        stack.finalizers().to_vec(),
    );
    (stack.name_any(), seen)
}

fn is_unfinished(update: &Update) -> bool {
    let status = update.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.iter();
    let complete = conditions.any(|found| found.type_ == "Complete" && found.status == "True");
    !complete || !update.finalizers().is_empty()
}

#[tokio::test]
async fn a_stack_is_created_whenever_the_manager_dies() {
    survives::<Try>(&Scenario::Create, SAMPLE).await;
}

#[tokio::test]
async fn a_new_revision_is_deployed_whenever_the_manager_dies() {
    survives::<Try>(&Scenario::NewRevision, SAMPLE).await;
}

#[tokio::test]
async fn a_request_is_served_whenever_the_manager_dies() {
    survives::<Try>(&Scenario::Request, SAMPLE).await;
}

#[tokio::test]
async fn a_failure_is_tried_again_whenever_the_manager_dies() {
    survives::<Try>(&Scenario::FailingUp, SAMPLE).await;
}

#[tokio::test]
async fn a_chain_runs_whenever_the_manager_dies() {
    survives::<Try>(&Scenario::Prerequisite, 2 * SAMPLE).await;
}

#[tokio::test]
async fn a_stack_is_destroyed_whenever_the_manager_dies() {
    survives::<Try>(&Scenario::Destroy, SAMPLE).await;
}

#[tokio::test]
async fn a_workspace_is_reclaimed_whenever_the_manager_dies() {
    survives::<Try>(&Scenario::ReclaimDelete, SAMPLE).await;
}
