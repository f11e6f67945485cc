//! Creating, changing and waiting for Stacks.

use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};

use pko_api::{Stack, Update, Workspace};
use pko_testkit::{ProgramBuilder, StackBuilder, eventually_within};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    operator_cluster::{PATIENCE, workspace_image},
    test_env::{CREDENTIALS, STATE, TestEnv},
};

/// Where state is kept, on the test's volume.
pub(crate) const BACKEND: &str = "file:///state";
/// The Pulumi stack of a [`stack`].
pub(crate) const STACK: &str = "dev";
/// The annotation that requests a run.
const REQUEST: &str = "pulumi.com/reconciliation-request";

/// A Stack without a source, whose workspace has the usual image and the test's volume.
pub(crate) fn stack(name: &str) -> StackBuilder {
    let (secret, key) = CREDENTIALS;
    StackBuilder::new(name)
        .stack(STACK)
        .backend(BACKEND)
        .secret_env("PULUMI_CONFIG_PASSPHRASE", secret, key)
        .set("/spec/workspaceTemplate/spec", workspace(workspace_image()))
}

/// A Stack of a Program of the same name.
pub(crate) fn program_stack(name: &str) -> StackBuilder {
    stack(name).program(name)
}

/// The spec of a workspace with an image and the test's volume.
pub(crate) fn workspace(image: &str) -> Value {
    json!({
        "image": image,
        "podTemplate": { "spec": {
            "volumes": [{ "name": STATE, "persistentVolumeClaim": { "claimName": STATE } }],
            "containers": [{
                "name": "pulumi",
                "volumeMounts": [{ "name": STATE, "mountPath": "/state" }],
            }],
        } },
    })
}

/// A Program with these resources, each with an output of its name.
pub(crate) fn program(name: &str, resources: &[&str]) -> ProgramBuilder {
    let program = ProgramBuilder::new(name);
    resources.iter().fold(program, |program, resource| {
        let keeps = json!({ "input": format!("kept by {resource}") });
        program
            .resource(resource, "pulumi:index:Stash", &keeps)
            .output(resource, format!("${{{resource}.output}}"))
    })
}

/// Delays each step of the engine.
pub(crate) fn with_step_delay(stack: StackBuilder, delay: &str) -> StackBuilder {
    let variable = json!([{ "name": "PKO_ENGINE_STEP_DELAY", "value": delay }]);
    stack.set("/spec/workspaceTemplate/spec/env", variable)
}

impl TestEnv<'_> {
    pub(crate) async fn create(&self, object: Value) -> Value {
        self.namespace.create_object(object).await.unwrap()
    }

    /// A Program with one resource and a Stack of it, both by this name.
    pub(crate) async fn create_simple(&self, name: &str) {
        self.create(program(name, &["one"]).build()).await;
        self.create(program_stack(name).build()).await;
    }

    /// The same with a run of about this length. Returns when the run has begun.
    pub(crate) async fn create_slow(&self, name: &str, delay: &str) {
        self.create(program(name, &["one"]).build()).await;
        let stack = with_step_delay(program_stack(name), delay).destroy_on_finalize(false);
        self.create(stack.build()).await;
        self.wait_for_run(name).await;
    }

    /// Waits until a run of a Stack's Program is under way: it holds the lock of its
    /// state.
    pub(crate) async fn wait_for_run(&self, name: &str) {
        self.wait_until(format!("a run of {name} to begin"), async || {
            // Creating the stack holds its lock for a moment, too, before there is an
            // Update
            let updates = self.updates_of(name).await?;
            if !updates.is_empty() && self.is_locked(name) {
                return Ok(());
            }
            Err(statuses(&updates))
        })
        .await;
    }

    pub(crate) fn is_locked(&self, project: &str) -> bool {
        let locks = self.state_folder().join(".pulumi/locks/organization");
        let files = std::fs::read_dir(locks.join(project).join(STACK));
        files.is_ok_and(|mut files| files.next().is_some())
    }

    /// Waits with this suite's deadline. Panics with the last error.
    pub(crate) async fn wait_until<T>(
        &self,
        what: impl std::fmt::Display,
        question: impl AsyncFnMut() -> Result<T, String>,
    ) -> T {
        eventually_within(PATIENCE, what, question).await.unwrap()
    }

    /// Errors are strings, so that polling goes on while the API server is down.
    pub(crate) async fn get<K>(&self, name: &str) -> Result<K, String>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let found = self.namespace.api::<K>().get(name).await;
        found.map_err(|error| error.to_string())
    }

    /// Waits until a Stack is ready, with its current generation and run request.
    pub(crate) async fn wait_for_ready(&self, name: &str) -> Stack {
        self.wait_for_ready_within(name, PATIENCE).await
    }

    /// The same with another patience than this suite's.
    pub(crate) async fn wait_for_ready_within(&self, name: &str, patience: Duration) -> Stack {
        let what = format!("{name} to be ready");
        let ready = eventually_within(patience, what, async || {
            let stack: Stack = self.get(name).await?;
            let status = stack.status.clone().unwrap_or_default();
            let mut conditions = status.conditions.iter();
            let is_ready = conditions.any(|found| found.type_ == "Ready" && found.status == "True");
            let last = status.last_update.as_ref();
            let ran = last.and_then(|last| last.generation);
            let answered = last.and_then(|last| last.reconcile_request.clone());
            let asked = stack.annotations().get(REQUEST).cloned();
            let is_answered = answered.unwrap_or_default() == asked.unwrap_or_default();
            if is_ready && ran == stack.metadata.generation && is_answered {
                Ok(stack)
            } else {
                Err(text(&status))
            }
        });
        ready.await.unwrap()
    }

    /// Waits until a condition of a Stack is true for this reason, with a message that contains a
    /// text.
    pub(crate) async fn wait_for_stack_condition(
        &self,
        name: &str,
        condition: &str,
        reason: &str,
        message: &str,
    ) {
        let what = format!("Stack {name} to be {condition}/{reason} {message}");
        self.wait_until(what, async || {
            let stack: Stack = self.get(name).await?;
            let status = stack.status.unwrap_or_default();
            check_condition(Some(&status.conditions), condition, "True", reason, message)
        })
        .await;
    }

    /// Waits until the Workspace's Ready condition is like this.
    pub(crate) async fn wait_for_workspace_ready(
        &self,
        name: &str,
        ready: &str,
        reason: &str,
        message: &str,
    ) {
        let what = format!("Workspace {name} to be Ready={ready}/{reason} {message}");
        self.wait_until(what, async || {
            let workspace: Workspace = self.get(name).await?;
            let status = workspace.status.unwrap_or_default();
            check_condition(Some(&status.conditions), "Ready", ready, reason, message)
        })
        .await;
    }

    /// Changes an object as `kubectl patch` does.
    pub(crate) async fn patch<K>(&self, name: &str, change: Value)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let change = Patch::Merge(change);
        let parameters = PatchParams::default();
        let objects = self.namespace.api::<K>();
        objects.patch(name, &parameters, &change).await.unwrap();
    }

    /// Requests a run by the documented annotation.
    pub(crate) async fn request_run(&self, name: &str, value: &str) {
        let annotations = json!({ REQUEST: value });
        self.patch::<Stack>(name, json!({ "metadata": { "annotations": annotations } }))
            .await;
    }

    /// Deletes a Stack and waits until it is gone.
    pub(crate) async fn delete(&self, name: &str, parameters: &DeleteParams) {
        let stacks = self.namespace.api::<Stack>();
        stacks.delete(name, parameters).await.unwrap();
        self.wait_for_deletion(name).await;
    }

    /// Waits until a Stack is gone.
    pub(crate) async fn wait_for_deletion(&self, name: &str) {
        let stacks = self.namespace.api::<Stack>();
        self.wait_until(format!("{name} to be gone"), async || {
            match stacks.get_opt(name).await {
                Ok(None) => Ok(()),
                Ok(Some(stack)) => Err(text(&stack.status)),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
    }

    /// All Updates of a Stack.
    pub(crate) async fn updates_of(&self, name: &str) -> Result<Vec<Update>, String> {
        let updates = self.namespace.api::<Update>();
        let found = updates.list(&ListParams::default()).await;
        let mut found = found.map_err(|error| error.to_string())?.items;
        found.retain(|update| {
            let owners = update.owner_references();
            owners.iter().any(|owner| owner.name == name)
        });
        Ok(found)
    }

    /// A Stack's run was the only one, and went well to its end.
    pub(crate) async fn assert_ran_once(&self, name: &str) {
        let updates = self.updates_of(name).await.unwrap();
        let [update] = updates.as_slice() else {
            panic!("not one Update but these: {}", statuses(&updates));
        };
        let status = update.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice());
        check_condition(conditions, "Complete", "True", "", "").unwrap();
        check_condition(conditions, "Failed", "False", "", "").unwrap();
        let history = self.history(name);
        assert_eq!(history, 1, "the backend knows one run");
    }

    /// How many runs the backend has recorded of the Pulumi stack of a Stack's Program.
    pub(crate) fn history(&self, project: &str) -> usize {
        let folder = self
            .state_folder()
            .join(".pulumi/history")
            .join(project)
            .join(STACK);
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .filter(|file| {
                file.file_name()
                    .to_string_lossy()
                    .ends_with(".history.json")
            })
            .count()
    }

    /// True if the checkpoint of a Stack's Program has a resource.
    pub(crate) fn has_resources(&self, project: &str) -> bool {
        let stacks = self.state_folder().join(".pulumi/stacks").join(project);
        let checkpoint = std::fs::read_to_string(stacks.join(format!("{STACK}.json")));
        checkpoint.is_ok_and(|checkpoint| checkpoint.contains("pulumi:index:Stash"))
    }
}

/// Checks for a condition with this status, reason (any if empty), and message part.
pub(crate) fn check_condition<C: Serialize>(
    conditions: Option<&[C]>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) -> Result<(), String> {
    let all = json!(conditions);
    let is = |condition: &Value| {
        condition["type"] == kind
            && condition["status"] == status
            && (reason.is_empty() || condition["reason"] == reason)
            && condition["message"]
                .as_str()
                .unwrap_or_default()
                .contains(message)
    };
    if all.as_array().is_some_and(|all| all.iter().any(is)) {
        Ok(())
    } else {
        Err(text(&all))
    }
}

fn statuses(updates: &[Update]) -> String {
    let all = updates
        .iter()
        .map(|update| (update.name_any(), &update.status));
    text(&all.collect::<Vec<_>>())
}

/// Something as a failed test shows it.
pub(crate) fn text(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string())
}
