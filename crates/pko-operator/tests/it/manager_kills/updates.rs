//! An Update of a Workspace, both made by hand.

use std::{collections::BTreeMap, fs};

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use pko_api::{Program, Update, Workspace};
use pko_testkit::{
    Reply, Script, StandIn, TestNamespace, TimedOut, UpdateBuilder, WorkspaceBuilder, eventually,
};
use serde_json::{Value, json};

use super::{Play, list, shown, survives};
use crate::harness::System;

const PROGRAM: &str = "\
name: hello
runtime: yaml
outputs:
  size: 4
  hidden: {fn::secret: s3cr3t-value}
";

/// Of how many points one is tried, unless all are.
const SAMPLE: usize = 5;

/// What a user does: a Workspace, an Update of type `up`, and perhaps a cancel.
struct UpdateScenario {
    name: &'static str,
    script: Script,
    cancels: bool,
}

/// The observable end.
#[derive(Debug, PartialEq, Eq)]
struct UpdateEnd {
    workspace: Vec<String>,
    update: Vec<String>,
    message: Option<String>,
    outputs: Option<String>,
    secrets: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    pods: Vec<String>,
    agents: usize,
    runs: usize,
}

/// The namespace of one try, and its `pulumi`.
struct Try {
    namespace: TestNamespace,
    stand_in: StandIn,
    backend: String,
}

impl Play for Try {
    type UpdateScenario = UpdateScenario;
    type UpdateEnd = UpdateEnd;

    fn name(scenario: &UpdateScenario) -> &'static str {
        scenario.name
    }

    async fn prepare(system: &System, namespace: TestNamespace, scenario: &UpdateScenario) -> Self {
        let stand_in = system.stand_in_at(namespace.name(), &scenario.script);
        let source = stand_in.folder().join("source");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("Pulumi.yaml"), PROGRAM).unwrap();
        Self {
            namespace,
            stand_in,
            backend: system.backend(),
        }
    }

    /// Plays the scenario, and waits until the Update is complete and the manager handles new
    /// objects.
    async fn play(&self, scenario: &UpdateScenario) -> Result<(), TimedOut> {
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

    /// What there is now.
    async fn end(&self, system: &System) -> UpdateEnd {
        let workspace = self.namespace.api::<Workspace>().get("ws").await.unwrap();
        let update = self.namespace.api::<Update>().get("up").await.unwrap();
        let update = update.status.unwrap_or_default();
        let pods = list::<Pod>(&self.namespace).await;
        UpdateEnd {
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

    fn is_right(end: &UpdateEnd, right: &UpdateEnd) -> bool {
        end == right && end.runs == 1
    }

    /// Removes everything that a manager looks after, so that it writes nothing of it during the
    /// next try.
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
            let pods = list::<Pod>(&self.namespace).await.len();
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

impl Try {
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

    async fn secrets(&self) -> BTreeMap<String, BTreeMap<String, Vec<u8>>> {
        let secrets = list::<Secret>(&self.namespace).await.into_iter();
        let data = |secret: Secret| {
            let data = secret.data.unwrap_or_default().into_iter();
            data.map(|(key, value)| (key, value.0)).collect()
        };
        secrets
            .map(|secret| (secret.name_any(), data(secret)))
            .collect()
    }
}

#[tokio::test]
async fn update_ends_whenever_the_manager_is_killed() {
    let scenario = UpdateScenario {
        name: "an up",
        script: Script::new(),
        cancels: false,
    };
    survives::<Try>(&scenario, SAMPLE).await;
}

#[tokio::test]
async fn failing_update_ends_whenever_the_manager_is_killed() {
    let fails = Reply::new().prints_error("error: it broke\n").exits(255);
    let scenario = UpdateScenario {
        name: "a failing up",
        script: Script::new().on("up", fails),
        cancels: false,
    };
    survives::<Try>(&scenario, SAMPLE).await;
}

#[tokio::test]
async fn canceled_update_ends_whenever_the_manager_is_killed() {
    let gated = Reply::new().waits_for("gate").run_default();
    let scenario = UpdateScenario {
        name: "a canceled up",
        script: Script::new().on("up", gated),
        cancels: true,
    };
    survives::<Try>(&scenario, SAMPLE).await;
}
