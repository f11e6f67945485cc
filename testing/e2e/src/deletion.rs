//! The end of Stacks where a real garbage collector and a real namespace controller are at work.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};
use pko_api::Stack;
use serde_json::json;

use crate::{
    cli::on_each_cli,
    place::{CREDENTIALS, Place, beside_others},
    stacks::{program, program_stack, text},
};

async fn create(place: &Place<'_>, destroys: bool) {
    place.create(program("demo", &["one"]).build()).await;
    let stack = program_stack("demo").destroy_on_finalize(destroys);
    place.create(stack.build()).await;
    place.ready("demo").await;
}

async fn delete_namespace(place: &Place<'_>) {
    let namespaces: Api<Namespace> = Api::all(place.client());
    let parameters = DeleteParams::default();
    namespaces.delete(place.name(), &parameters).await.unwrap();
}

async fn namespace_goes(place: &Place<'_>) {
    let namespaces: Api<Namespace> = Api::all(place.client());
    place
        .until("the namespace to be gone", async || {
            let left = namespaces.get_opt(place.name()).await;
            match left.map_err(|error| error.to_string())? {
                None => Ok(()),
                Some(left) => Err(text(&left.status)),
            }
        })
        .await;
}

on_each_cli! {
    a_foreground_deletion_destroys_first_and_takes_everything_along
}

async fn a_foreground_deletion_destroys_first_and_takes_everything_along() {
    beside_others(async |place| {
        create(place, true).await;
        place.delete("demo", &DeleteParams::foreground()).await;
        assert!(!place.has_resources("demo"), "it was destroyed");
        place.no_pod("demo").await;
    })
    .await;
}

/// kubectl deletes in the order of the file: what the Stack needs goes first.
#[tokio::test]
async fn kubectl_delete_of_a_whole_file_destroys_in_the_running_pod() {
    beside_others(async |place| {
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
        let file = place.system.cluster.folder().join(place.name());
        std::fs::write(&file, list.to_string()).unwrap();
        let file = file.to_str().unwrap();
        let kubectl = |arguments: &[&str]| {
            let namespace = ["-n", place.name()];
            place.system.kubectl(&[&namespace, arguments].concat())
        };
        kubectl(&["apply", "-f", file]);
        place.ready("demo").await;
        kubectl(&["delete", "secret", credentials]);
        kubectl(&["delete", "--wait=false", "-f", file]);
        place.gone("demo").await;
        assert!(!place.has_resources("demo"), "it was destroyed");
        place.no_pod("demo").await;
    })
    .await;
}

#[tokio::test]
async fn a_stack_that_destroys_nothing_leaves_its_state_and_goes_at_once() {
    beside_others(async |place| {
        create(place, false).await;
        place.delete("demo", &DeleteParams::default()).await;
        place.no_pod("demo").await;
        assert!(place.has_resources("demo"), "its resources stay");
    })
    .await;
}

#[tokio::test]
async fn a_namespace_goes_with_a_stack_that_destroys_nothing() {
    beside_others(async |place| {
        create(place, false).await;
        delete_namespace(place).await;
        namespace_goes(place).await;
        assert!(place.has_resources("demo"), "its resources stay");
    })
    .await;
}

#[tokio::test]
async fn a_namespace_with_a_stack_that_must_be_destroyed_says_what_to_do() {
    beside_others(async |place| {
        create(place, true).await;
        delete_namespace(place).await;
        let command = format!("kubectl patch stack demo -n {}", place.name());
        place
            .stack_is("demo", "Stalled", "NamespaceTerminating", &command)
            .await;
        place
            .patch::<Stack>("demo", json!({ "metadata": { "finalizers": [] } }))
            .await;
        namespace_goes(place).await;
        assert!(place.has_resources("demo"), "nobody destroyed it");
    })
    .await;
}
