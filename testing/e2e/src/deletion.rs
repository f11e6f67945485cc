//! Deletion of Stacks under the real garbage collector and namespace controller.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};
use pko_api::Stack;
use serde_json::json;

use crate::{
    cli::on_each_cli,
    stacks::{program, program_stack, text},
    test_env::{CREDENTIALS, TestEnv, run_concurrently},
};

async fn create(env: &TestEnv<'_>, destroys: bool) {
    env.create(program("demo", &["one"]).build()).await;
    let stack = program_stack("demo").destroy_on_finalize(destroys);
    env.create(stack.build()).await;
    env.wait_for_ready("demo").await;
}

async fn delete_namespace(env: &TestEnv<'_>) {
    let namespaces: Api<Namespace> = Api::all(env.client());
    let parameters = DeleteParams::default();
    namespaces.delete(env.name(), &parameters).await.unwrap();
}

async fn wait_for_namespace_deletion(env: &TestEnv<'_>) {
    let namespaces: Api<Namespace> = Api::all(env.client());
    env.wait_until("the namespace to be gone", async || {
        let left = namespaces.get_opt(env.name()).await;
        match left.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(left) => Err(text(&left.status)),
        }
    })
    .await;
}

on_each_cli! {
    foreground_deletion_destroys_then_removes_everything
}

async fn foreground_deletion_destroys_then_removes_everything() {
    run_concurrently(async |env| {
        create(env, true).await;
        env.delete("demo", &DeleteParams::foreground()).await;
        assert!(!env.has_resources("demo"), "it was destroyed");
        env.wait_for_no_pod("demo").await;
    })
    .await;
}

/// kubectl deletes in file order: the Stack's dependencies first.
#[tokio::test]
async fn kubectl_delete_of_whole_file_destroys_stack() {
    run_concurrently(async |env| {
        let (credentials, _) = CREDENTIALS;
        let tokens = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tokens" },
            "stringData": { "TOKEN": "one" },
        });
        let token = json!({ "type": "Secret", "secret": { "name": "tokens", "key": "TOKEN" } });
        let stack = program_stack("demo")
            .push("/spec/envSecrets", "tokens")
            .set("/spec/secretsRef/token", token)
            .destroy_on_finalize(true);
        let program = program("demo", &["one"])
            .set("/program/config", json!({ "token": { "type": "string" } }));
        let items = [tokens, program.build(), stack.build()];
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        let file = env.operator.cluster.folder().join(env.name());
        std::fs::write(&file, list.to_string()).unwrap();
        let file = file.to_str().unwrap();
        let kubectl = |arguments: &[&str]| {
            let namespace = ["-n", env.name()];
            env.operator.kubectl(&[&namespace, arguments].concat())
        };
        kubectl(&["apply", "-f", file]);
        env.wait_for_ready("demo").await;
        kubectl(&["delete", "secret", credentials]);
        kubectl(&["delete", "--wait=false", "-f", file]);
        env.wait_for_deletion("demo").await;
        assert!(!env.has_resources("demo"), "it was destroyed");
        env.wait_for_no_pod("demo").await;
    })
    .await;
}

#[tokio::test]
async fn stack_without_destroy_is_deleted_and_keeps_state() {
    run_concurrently(async |env| {
        create(env, false).await;
        env.delete("demo", &DeleteParams::default()).await;
        env.wait_for_no_pod("demo").await;
        assert!(env.has_resources("demo"), "its resources stay");
    })
    .await;
}

#[tokio::test]
async fn namespace_with_stack_without_destroy_is_deleted() {
    run_concurrently(async |env| {
        create(env, false).await;
        delete_namespace(env).await;
        wait_for_namespace_deletion(env).await;
        assert!(env.has_resources("demo"), "its resources stay");
    })
    .await;
}

#[tokio::test]
async fn namespace_with_stack_to_destroy_stalls_with_remedy() {
    run_concurrently(async |env| {
        create(env, true).await;
        delete_namespace(env).await;
        let command = format!("kubectl patch stack demo -n {}", env.name());
        env.wait_for_stack_condition("demo", "Stalled", "NamespaceTerminating", &command)
            .await;
        env.patch::<Stack>("demo", json!({ "metadata": { "finalizers": [] } }))
            .await;
        wait_for_namespace_deletion(env).await;
        assert!(env.has_resources("demo"), "nobody destroyed it");
    })
    .await;
}
