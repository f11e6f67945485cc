//! What a user does with Stacks: the table that all goals share.

use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use pko_api::{Program, Stack};
use pko_testkit::{ProgramBuilder, Reply, Script, TimedOut, eventually};
use serde_json::{Value, json};

use super::user::User;
use crate::scripted_stacks::{credentials, patch_stack};

/// Each of what R1 names, and one more for R15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scenario {
    Create,
    NewRevision,
    Request,
    SpecChange,
    FailingUp,
    Preview,
    Prerequisite,
    Destroy,
    DestroyWithoutSource,
    ReclaimDelete,
}

impl Scenario {
    pub(super) const ALL: [Self; 10] = [
        Self::Create,
        Self::NewRevision,
        Self::Request,
        Self::SpecChange,
        Self::FailingUp,
        Self::Preview,
        Self::Prerequisite,
        Self::Destroy,
        Self::DestroyWithoutSource,
        Self::ReclaimDelete,
    ];

    /// What it is called in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::NewRevision => "new commit",
            Self::Request => "request",
            Self::SpecChange => "spec change",
            Self::FailingUp => "failing up",
            Self::Preview => "preview",
            Self::Prerequisite => "prerequisite chain",
            Self::Destroy => "destroy",
            Self::DestroyWithoutSource => "destroy, source gone",
            Self::ReclaimDelete => "reclaim-delete",
        }
    }

    /// Whether it is one of what R15 is about.
    pub(super) fn destroys(self) -> bool {
        matches!(self, Self::Destroy | Self::DestroyWithoutSource)
    }

    /// Whether a Program changes in it.
    pub(super) fn edits_programs(self) -> bool {
        self == Self::NewRevision
    }

    /// Whether there is a Stack before it.
    fn has_a_past(self) -> bool {
        let begins_anew = [
            Self::Create,
            Self::FailingUp,
            Self::Preview,
            Self::Prerequisite,
            Self::ReclaimDelete,
        ];
        !begins_anew.contains(&self)
    }

    /// What `pulumi` does.
    pub(super) fn script(self) -> Script {
        let fails = Reply::new().prints_error("error: it broke\n").exits(255);
        match self {
            Self::FailingUp => Script::new().on_call("up", 1, fails),
            _ => Script::new(),
        }
    }

    /// Makes what there is before it, and waits until all of it is at rest.
    pub(super) async fn prepare(self, user: &User) -> Result<(), TimedOut> {
        user.namespace.create_object(credentials()).await.unwrap();
        let program = ProgramBuilder::new("demo")
            .resource("one", "pulumi:index:Stash", &json!({ "input": "v1" }))
            .output("size", 4)
            .build();
        user.namespace.create_object(program).await.unwrap();
        eventually("the Program to be served", async || {
            let program = user.namespace.api::<Program>().get("demo").await.unwrap();
            program.status.map(drop).ok_or("not yet")
        })
        .await?;
        if self.has_a_past() {
            let fields = json!({ "destroyOnFinalize": self.destroys() });
            user.create("demo", &fields).await;
            user.ready("demo", "1").await?;
        }
        if self == Self::DestroyWithoutSource {
            delete_program(user).await;
            user.stalled("demo").await?;
        }
        Ok(())
    }

    /// Does it, and waits until it is done.
    pub(super) async fn play(self, user: &User) -> Result<(), TimedOut> {
        match self {
            Self::Create | Self::FailingUp => user.create("demo", &json!({})).await,
            Self::Preview => user.create("demo", &json!({ "preview": true })).await,
            Self::NewRevision => edit_program(user).await,
            Self::Request => request(user).await,
            Self::SpecChange => {
                let change = json!({ "spec": { "config": { "size": 7 } } });
                patch_stack(&user.namespace, "demo", change).await;
            }
            Self::Prerequisite => {
                let first = json!({ "prerequisites": [{ "name": "base" }] });
                user.create("demo", &first).await;
                user.create("base", &json!({})).await;
                user.ready("base", "1").await?;
            }
            Self::Destroy | Self::DestroyWithoutSource => {
                let stacks = user.namespace.api::<Stack>();
                let parameters = DeleteParams::default();
                stacks.delete("demo", &parameters).await.unwrap();
                user.wait_until_gone("demo").await?;
                return user.workspaces_gone().await;
            }
            Self::ReclaimDelete => {
                let delete = json!({ "workspaceReclaimPolicy": "Delete" });
                user.create("demo", &delete).await;
            }
        }
        user.ready("demo", self.revision()).await?;
        if self == Self::ReclaimDelete {
            user.workspaces_gone().await?;
        }
        Ok(())
    }

    /// The generation of the Program that is deployed in the end.
    fn revision(self) -> &'static str {
        if self == Self::NewRevision { "2" } else { "1" }
    }
}

async fn edit_program(user: &User) {
    let programs = user.namespace.api::<Program>();
    let change = Patch::Merge(json!({ "program": { "outputs": { "size": 5 } } }));
    let parameters = PatchParams::default();
    programs.patch("demo", &parameters, &change).await.unwrap();
}

async fn delete_program(user: &User) {
    let programs = user.namespace.api::<Program>();
    let parameters = DeleteParams::default();
    programs.delete("demo", &parameters).await.unwrap();
}

async fn request(user: &User) {
    let now = json!({ "pulumi.com/reconciliation-request": "now" });
    let request = json!({ "metadata": { "annotations": now } });
    patch_stack(&user.namespace, "demo", request).await;
}

/// Whether a Stack is ready for its spec, its request and this revision.
pub(super) fn is_ready(stack: &Stack, revision: &str) -> bool {
    let status = stack.status.clone().unwrap_or_default();
    let last = status.last_update.clone().unwrap_or_default();
    let request = stack.annotations().get("pulumi.com/reconciliation-request");
    let request = request.cloned().unwrap_or_default();
    let is_ready = status
        .conditions
        .iter()
        .any(|found| found.reason == "ProcessingCompleted" && found.status == "True");
    is_ready
        && last.generation == stack.metadata.generation
        && last.last_successful_commit.as_deref() == Some(revision)
        && last.reconcile_request.unwrap_or_default() == request
}

/// A Stack of the Program, whose `pulumi` is the user's stand-in.
pub(super) fn stack(name: &str, backend: &str, stand_in: Value, fields: &Value) -> Value {
    let mut stack = pko_testkit::StackBuilder::new(name)
        .stack(name)
        .backend(backend)
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .set("/spec/envRefs/PKO_STAND_IN", stand_in)
        .set("/spec/retryMaxBackoffDurationSeconds", 1)
        .build();
    let spec = stack["spec"].as_object_mut().unwrap();
    spec.extend(fields.as_object().unwrap().clone());
    stack
}
