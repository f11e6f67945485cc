//! The end of a Stack: what is owed is paid first, and nothing holds it up for ever.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use pko_api::{
    Program, Stack, Workspace,
    names::{annotations, labels},
};
use pko_testkit::{
    ProgramBuilder, Reply, Script, StackBuilder, StandIn, TestNamespace, WorkspaceBuilder,
    eventually,
};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::{System, Watched, with_namespace},
    scripted_stacks::{self, credentials, patch_stack, ready},
};

/// A Program and a Stack of it that destroys what it made.
async fn create(namespace: &TestNamespace, system: &System, fields: Value) {
    namespace.create_object(credentials()).await.unwrap();
    let program = ProgramBuilder::new("demo")
        .resource("one", "pulumi:index:Stash", &json!({ "input": "v1" }))
        .output("one", "${one.output}")
        .build();
    namespace.create_object(program).await.unwrap();
    let mut stack = StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .destroy_on_finalize(true)
        .build();
    let spec = stack["spec"].as_object_mut().unwrap();
    spec.extend(fields.as_object().unwrap().clone());
    namespace.create_object(stack).await.unwrap();
}

async fn delete(namespace: &TestNamespace, parameters: &DeleteParams) {
    let stacks = namespace.api::<Stack>();
    stacks.delete("demo", parameters).await.unwrap();
}

#[tokio::test]
async fn foreground_deletion_destroys_first() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        create(namespace, &system, json!({})).await;
        ready(namespace, "demo").await;
        let trail = Trail::of(namespace, "demo");
        let before = system.executed("demo", "dev");
        delete(namespace, &DeleteParams::foreground()).await;
        trail.until_gone().await;
        assert_eq!(
            system.executed("demo", "dev"),
            before + 1,
            "the destroy ran"
        );
        system.no_workspace_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn stack_delete_does_not_need_a_deleted_source() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        // A template that brings a source of its own must not get in the way, either.
        create(namespace, &system, json!({})).await;
        ready(namespace, "demo").await;
        let programs = namespace.api::<Program>();
        let trail = Trail::of(namespace, "demo");
        programs
            .delete("demo", &DeleteParams::default())
            .await
            .unwrap();
        trail.until("Stalled SourceUnavailable").await;
        let before = system.executed("demo", "dev");
        delete(namespace, &DeleteParams::default()).await;
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
async fn stack_delete_without_any_apply_succeeds() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        create(
            namespace,
            &system,
            json!({ "programRef": { "name": "nobody" } }),
        )
        .await;
        let trail = Trail::of(namespace, "demo");
        trail.until("Stalled SourceUnavailable").await;
        delete(namespace, &DeleteParams::default()).await;
        trail.until_gone().await;
        assert_eq!(system.executed("demo", "dev"), 0);
    })
    .await;
}

#[tokio::test]
async fn stack_delete_of_a_preview_destroys_earlier_applies() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        create(namespace, &system, json!({})).await;
        ready(namespace, "demo").await;
        patch_stack(namespace, "demo", json!({ "spec": { "preview": true } })).await;
        ready(namespace, "demo").await;
        let before = system.executed("demo", "dev");
        let trail = Trail::of(namespace, "demo");
        delete(namespace, &DeleteParams::default()).await;
        trail.until_gone().await;
        assert_eq!(
            system.executed("demo", "dev"),
            before + 1,
            "the destroy ran"
        );
    })
    .await;
}

/// A manager whose `pulumi` is the stand-in.
async fn scripted_system(watched: Watched) -> System {
    let program = StandIn::program().display().to_string();
    System::start_watching(watched, &[("PKO_PULUMI", program.as_str())]).await
}

/// A namespace with a Stack that is ready, and is to be destroyed when it is deleted.
async fn stack_to_destroy(system: &System, stand_in: &StandIn) -> TestNamespace {
    let namespace = scripted_stacks::namespace(system).await;
    scripted_stacks::create_stack(&namespace, system, stand_in, "demo").await;
    ready(&namespace, "demo").await;
    let destroys = json!({ "spec": { "destroyOnFinalize": true } });
    patch_stack(&namespace, "demo", destroys).await;
    ready(&namespace, "demo").await;
    namespace
}

#[tokio::test]
async fn stack_delete_retries_the_destroy() {
    let system = scripted_system(Watched::Namespaces(1)).await;
    let mut script = Script::new();
    for call in 1..=5 {
        script = script.on_call(
            "destroy",
            call,
            Reply::fails(255, "error: it is still in use"),
        );
    }
    let stand_in = system.stand_in(&script);
    let namespace = scripted_stacks::namespace(&system).await;
    scripted_stacks::create_stack(&namespace, &system, &stand_in, "demo").await;
    ready(&namespace, "demo").await;
    let trail = Trail::of(&namespace, "demo");
    let soon = json!({ "destroyOnFinalize": true, "retryMaxBackoffDurationSeconds": 1 });
    patch_stack(&namespace, "demo", json!({ "spec": soon })).await;
    ready(&namespace, "demo").await;
    delete(&namespace, &DeleteParams::default()).await;
    let seen = trail.until_gone().await;
    assert_eq!(stand_in.count("destroy"), 6);
    let said = |start: &str| seen.iter().any(|seen| seen.starts_with(start));
    assert!(
        said("Stalled UpdateFailed: destroy failed 3 times; next attempt at "),
        "{seen:#?}"
    );
    namespace.remove().await.unwrap();
}

/// The program is not fetched for a destroy, and a language's tools may fail without one, as Go's
/// do.
#[tokio::test]
async fn stack_delete_without_program_installs_nothing() {
    let system = scripted_system(Watched::Namespaces(1)).await;
    let script = Script::new().on_call("install", 2, Reply::no_go_module());
    let stand_in = system.stand_in(&script);
    let namespace = stack_to_destroy(&system, &stand_in).await;
    let trail = Trail::of(&namespace, "demo");
    delete(&namespace, &DeleteParams::default()).await;
    trail.until_gone().await;
    assert_eq!(stand_in.count("install"), 1);
    assert_eq!(stand_in.count("destroy"), 1);
    namespace.remove().await.unwrap();
}

/// The Workspaces of a namespace, by name, with whose destroy each was made for.
async fn workspaces(namespace: &TestNamespace) -> Vec<(String, bool)> {
    let workspaces = namespace.api::<Workspace>();
    let workspaces = workspaces.list(&ListParams::default()).await.unwrap();
    let found = workspaces.iter().map(|workspace| {
        let is_marked = workspace.annotations().contains_key(annotations::DESTROYS);
        (workspace.name_any(), is_marked)
    });
    found.collect()
}

/// The garbage collector leaves the Workspace of such a destroy alone, and the Stack that would
/// delete it is gone.
#[tokio::test]
async fn foreground_deletion_with_finalizer_removed_leaves_no_workspace() {
    let system = scripted_system(Watched::Cluster).await;
    let in_use = Reply::fails(255, "error: it is still in use");
    let stand_in = system.stand_in(&Script::new().on("destroy", in_use));
    let namespace = stack_to_destroy(&system, &stand_in).await;
    // An Update that a user wrote has no owner either, and stays, whatever its labels are.
    let by_hand = WorkspaceBuilder::new("by-hand")
        .local("/nonexistent")
        .label(labels::STACK_NAME, "demo")
        .build();
    namespace.create_object(by_hand).await.unwrap();

    // The garbage collector starts later: otherwise it deletes the Workspace before it has no
    // owner.
    system.plane.stop_controllers().unwrap();
    delete(&namespace, &DeleteParams::foreground()).await;
    let names = |marked: &[(&str, bool)]| -> Vec<(String, bool)> {
        let names = marked.iter();
        names.map(|(name, is)| ((*name).to_owned(), *is)).collect()
    };
    let until = async |expected: Vec<(String, bool)>| {
        let found = eventually(format!("{expected:?}"), async || {
            let found = workspaces(&namespace).await;
            if found == expected {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        });
        found.await.unwrap();
    };
    until(names(&[("by-hand", false), ("demo", true)])).await;
    let nobody = json!({ "metadata": { "finalizers": [] } });
    patch_stack(&namespace, "demo", nobody).await;
    system.plane.start_controllers().unwrap();
    until(names(&[("by-hand", false)])).await;
    namespace.remove().await.unwrap();
}

#[tokio::test]
async fn namespace_deletion_reports_what_to_do() {
    let system = System::start_watching(Watched::Cluster, &[]).await;
    let namespace = system.namespace().await;
    create(
        &namespace,
        &system,
        json!({ "workspaceReclaimPolicy": "Delete" }),
    )
    .await;
    ready(&namespace, "demo").await;
    let namespaces: Api<Namespace> = Api::all(namespace.client());
    let trail = Trail::of(&namespace, "demo");
    let parameters = DeleteParams::default();
    namespaces
        .delete(namespace.name(), &parameters)
        .await
        .unwrap();
    let seen = trail.until("Stalled NamespaceTerminating").await;
    let last = seen.last().unwrap();
    let command = format!(
        "kubectl patch stack demo -n {} --type=merge -p '{{\"metadata\":{{\"finalizers\":[]}}}}'",
        namespace.name()
    );
    assert!(last.contains(&command), "{last}");
    // The user does that.
    patch_stack(
        &namespace,
        "demo",
        json!({ "metadata": { "finalizers": [] } }),
    )
    .await;
    eventually("the namespace to be gone", async || {
        let left = namespaces.get_opt(namespace.name()).await.unwrap();
        left.map_or(Ok(()), |left| Err(format!("{:?}", left.status)))
    })
    .await
    .unwrap();
}
