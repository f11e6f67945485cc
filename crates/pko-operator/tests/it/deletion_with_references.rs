//! A Stack that is deleted together with what it refers to, as `kubectl delete -f` does: the
//! destroy runs in the workspace as it is, or the Stack reports what is missing and how to do
//! without a destroy.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Resource,
    api::{DeleteParams, Patch, PatchParams},
};
use pko_api::{Program, Stack, Workspace};
use pko_testkit::{
    ProgramBuilder, Reply, Script, StackBuilder, StandIn, TestNamespace, eventually,
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{
    events::Trail,
    harness::{System, folder_of, with_namespace},
    scripted_stacks::{credentials, patch_stack, ready},
};

const POD: &str = "demo-workspace-0";

/// A Stack that refers to a Program, to Secrets and to a ConfigMap, and all of these.
async fn create(namespace: &TestNamespace, stack: StackBuilder) {
    namespace.create_object(credentials()).await.unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tokens" },
        "stringData": { "TOKEN": "one" },
    });
    namespace.create_object(secret).await.unwrap();
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "sizes" },
        "data": { "SIZE": "small" },
    });
    namespace.create_object(config_map).await.unwrap();
    let program = ProgramBuilder::new("demo")
        .resource("one", "pulumi:index:Stash", &json!({ "input": "v1" }))
        .build();
    namespace.create_object(program).await.unwrap();
    let stack = stack
        .push("/spec/envs", "sizes")
        .push("/spec/envSecrets", "tokens");
    namespace.create_object(stack.build()).await.unwrap();
    ready(namespace, "demo").await;
}

fn stack(system: &System) -> StackBuilder {
    StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .destroy_on_finalize(true)
}

async fn delete<K>(namespace: &TestNamespace, name: &str)
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    let parameters = DeleteParams::default();
    namespace
        .api::<K>()
        .delete(name, &parameters)
        .await
        .unwrap();
}

async fn delete_references(namespace: &TestNamespace) {
    delete::<Secret>(namespace, "credentials").await;
    delete::<Secret>(namespace, "tokens").await;
    delete::<ConfigMap>(namespace, "sizes").await;
    delete::<Program>(namespace, "demo").await;
}

/// Deletes the Stack and what it refers to, and expects one destroy in the workspace that there is.
async fn everything_goes(system: &System, namespace: &TestNamespace, is_stack_first: bool) {
    let trail = Trail::of(namespace, "demo");
    let mark = system.plane.audit_position().await.unwrap();
    let before = system.executed("demo", "dev");
    if is_stack_first {
        delete::<Stack>(namespace, "demo").await;
        delete_references(namespace).await;
    } else {
        delete_references(namespace).await;
        delete::<Stack>(namespace, "demo").await;
    }
    trail.until_gone().await;
    assert_eq!(
        system.executed("demo", "dev"),
        before + 1,
        "the destroy ran"
    );
    let writes = system.requests_since(mark).await.writes();
    let changes = writes.only(|request| {
        ["workspaces.auto.pulumi.com", "statefulsets.apps"].contains(&&*request.resource)
            && request.verb != "delete"
    });
    assert!(changes.is_empty(), "{}", changes.counts());
    system.no_workspace_is_left().await;
}

#[tokio::test]
async fn stack_delete_with_its_references_destroys_in_the_running_pod() {
    for is_stack_first in [false, true] {
        let system = System::in_pods(&[]).await;
        with_namespace(&system, async |namespace| {
            create(namespace, stack(&system)).await;
            everything_goes(&system, namespace, is_stack_first).await;
        })
        .await;
    }
}

#[tokio::test]
async fn stack_delete_with_its_references_destroys_in_the_running_process() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        // The pretend node has no files for the config of pods.
        let size = json!({ "name": "sizes", "key": "SIZE" });
        let token = json!({ "type": "Secret", "secret": { "name": "tokens", "key": "TOKEN" } });
        let stack = stack(&system)
            .set("/spec/configRef/size", size)
            .set("/spec/secretsRef/token", token);
        create(namespace, stack).await;
        everything_goes(&system, namespace, false).await;
    })
    .await;
}

#[tokio::test]
async fn stack_delete_with_its_program_destroys_with_the_pods_program() {
    let system = System::in_pods(&[]).await;
    with_namespace(&system, async |namespace| {
        create(namespace, stack(&system).set("/spec/runProgram", true)).await;
        everything_goes(&system, namespace, false).await;
    })
    .await;
}

#[tokio::test]
async fn stack_delete_after_upgrade_destroys_in_running_pod() {
    let mut system = System::in_pods(&[]).await;
    let namespace = system.namespace().await;
    create(&namespace, stack(&system)).await;
    system.kill_manager();
    system.set("AGENT_IMAGE", "operator:new");
    system.start_manager();
    workspace_is(&namespace, "Outdated", "").await;
    everything_goes(&system, &namespace, false).await;
}

/// Waits until the Workspace's Ready condition has this reason and a message with this text.
async fn workspace_is(namespace: &TestNamespace, reason: &str, message: &str) {
    let reached = eventually(
        format!("the Workspace to be {reason} {message}"),
        async || {
            let workspace = namespace.api::<Workspace>().get("demo").await.unwrap();
            let conditions = workspace.status.unwrap_or_default().conditions;
            let mut ready = conditions.iter().filter(|found| found.type_ == "Ready");
            let is_it =
                ready.any(|found| found.reason == reason && found.message.contains(message));
            is_it.then_some(()).ok_or_else(|| format!("{conditions:?}"))
        },
    );
    reached.await.unwrap();
}

/// Takes away the Secret and the Program, then the pod, then the Stack, and waits for what the
/// Stack reports.
async fn delete_without_a_pod(namespace: &TestNamespace, trail: &Trail) {
    delete::<Secret>(namespace, "credentials").await;
    delete::<Program>(namespace, "demo").await;
    delete::<Pod>(namespace, POD).await;
    // Its program is gone, too: nothing of the pod can start.
    workspace_is(namespace, "WaitingForReplicas", "unable to fetch").await;
    delete::<Stack>(namespace, "demo").await;
    let own = namespace.name();
    let expected = format!(
        "Stalled SpecInvalid: unable to get secret {own}/credentials: secrets \"credentials\" not found \
         (spec.envRefs.PULUMI_CONFIG_PASSPHRASE); no workspace is running to destroy the stack, and a new one can't \
         start: re-create Secret \"credentials\"; to delete the Stack without a destroy, which leaves its resources in \
         place, run: kubectl patch stack demo -n {own} --type=merge -p '{{\"spec\":{{\"destroyOnFinalize\":false}}}}'"
    );
    trail.until(&expected).await;
}

#[tokio::test]
async fn stack_delete_without_pod_continues_once_the_secret_exists() {
    let system = System::in_pods(&[]).await;
    with_namespace(&system, async |namespace| {
        create(namespace, stack(&system)).await;
        let trail = Trail::of(namespace, "demo");
        let before = system.executed("demo", "dev");
        delete_without_a_pod(namespace, &trail).await;
        // The Program stays away: its archive is not needed.
        namespace.create_object(credentials()).await.unwrap();
        trail.until_gone().await;
        assert_eq!(
            system.executed("demo", "dev"),
            before + 1,
            "the destroy ran"
        );
    })
    .await;
}

#[tokio::test]
async fn stack_delete_without_pod_can_skip_the_destroy() {
    let system = System::in_pods(&[]).await;
    with_namespace(&system, async |namespace| {
        create(namespace, stack(&system)).await;
        let trail = Trail::of(namespace, "demo");
        let before = system.executed("demo", "dev");
        delete_without_a_pod(namespace, &trail).await;
        let unwanted = json!({ "spec": { "destroyOnFinalize": false } });
        patch_stack(namespace, "demo", unwanted).await;
        trail.until_gone().await;
        assert_eq!(system.executed("demo", "dev"), before, "nothing ran");
        system.no_workspace_is_left().await;
    })
    .await;
}

async fn change_token(namespace: &TestNamespace, value: &str) {
    let patch = Patch::Merge(json!({ "stringData": { "TOKEN": value } }));
    let secrets = namespace.api::<Secret>();
    let parameters = PatchParams::default();
    secrets.patch("tokens", &parameters, &patch).await.unwrap();
}

/// A destroy often fails until it gets new credentials.
#[tokio::test]
async fn stack_delete_after_failed_destroy_uses_the_current_secret() {
    let program = StandIn::program().display().to_string();
    let system = System::in_pods(&[("PKO_PULUMI", &program)]).await;
    let expired = Reply::fails(255, "error: the token has expired");
    let script = Script::new()
        .records("TOKEN")
        .on_call("destroy", 1, expired);
    let stand_in = system.stand_in(&script);
    with_namespace(&system, async |namespace| {
        let stack = stack(&system)
            .set("/spec/envRefs/PKO_STAND_IN", folder_of(&stand_in))
            .set("/spec/retryMaxBackoffDurationSeconds", 1);
        create(namespace, stack).await;
        let trail = Trail::of(namespace, "demo");
        change_token(namespace, "two").await;
        delete::<Stack>(namespace, "demo").await;
        trail.until_gone().await;
        let calls = stand_in.calls();
        let destroys = calls.iter().filter(|call| call.is("destroy"));
        let tokens = destroys.map(|call| call.variables.get("TOKEN").cloned());
        let tokens: Vec<String> = tokens.map(Option::unwrap_or_default).collect();
        assert_eq!(tokens, ["one", "two"]);
    })
    .await;
}
