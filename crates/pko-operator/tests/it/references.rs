//! What Stacks refer to: ConfigMaps and Secrets that change, that are missing, and that appear.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use pko_api::{
    Stack, Update,
    names::annotations::RECONCILIATION_REQUEST,
    rbac::{GROUP, WATCH_SECRETS},
};
use pko_testkit::{
    ProgramBuilder, Reply, Script, StackBuilder, StandIn, TestNamespace, eventually,
};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::{System, folder_of, with_namespace},
    rbac::give,
    scripted_stacks::wait_for_runs,
};

async fn create_config_map(namespace: &TestNamespace, name: &str, data: Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data,
    });
    namespace.create_object(object).await.unwrap();
}

async fn create_secret(namespace: &TestNamespace, name: &str, data: Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data,
    });
    namespace.create_object(object).await.unwrap();
}

async fn change_config_map(namespace: &TestNamespace, name: &str, data: Value) {
    let patch = Patch::Merge(json!({ "data": data }));
    let objects = namespace.api::<ConfigMap>();
    objects
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn change_secret(namespace: &TestNamespace, name: &str, data: Value) {
    let patch = Patch::Merge(json!({ "stringData": data }));
    let objects = namespace.api::<Secret>();
    objects
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn request(namespace: &TestNamespace, value: &str) {
    let annotations = json!({ RECONCILIATION_REQUEST: value });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    let stacks = namespace.api::<Stack>();
    stacks
        .patch("demo", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn create_program(namespace: &TestNamespace, config: Value) {
    let names: Vec<String> = config.as_object().unwrap().keys().cloned().collect();
    let program = ProgramBuilder::new("demo").set("/program/config", config);
    let program = names.into_iter().fold(program, |program, name| {
        program.output(&name, format!("${{{name}}}"))
    });
    namespace.create_object(program.build()).await.unwrap();
}

fn stack(system: &System) -> StackBuilder {
    StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
}

/// A namespace with what every such Stack needs, but for its Program.
async fn create_credentials(namespace: &TestNamespace) {
    let data = json!({ "passphrase": "correct-horse" });
    create_secret(namespace, "credentials", data).await;
}

async fn outputs(trail: &Trail) -> Value {
    json!(trail.stack().await.status.unwrap().outputs.unwrap())
}

/// Waits until so many runs have begun, and gives these variables as the last one had them.
async fn environment(stand_in: &StandIn, runs: usize, variables: &[&str]) -> Vec<String> {
    wait_for_runs(stand_in, runs).await;
    let calls = stand_in.calls();
    let last = calls.iter().rfind(|call| call.is("up")).unwrap();
    let value = |name: &&str| last.variables.get(*name).cloned().unwrap_or_default();
    variables.iter().map(value).collect()
}

#[tokio::test]
async fn config_map_change_triggers_a_run() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        create_credentials(namespace).await;
        create_config_map(namespace, "sizes", json!({ "usual": "small" })).await;
        create_config_map(namespace, "colours", json!({ "warm": "red" })).await;
        let text = json!({ "type": "string" });
        create_program(namespace, json!({ "size": text, "colour": text })).await;
        let trail = Trail::of(namespace, "demo");
        let stack = stack(&system)
            .set(
                "/spec/configRef/size",
                json!({ "name": "sizes", "key": "usual" }),
            )
            .set(
                "/spec/configRefs/colour",
                json!({ "name": "colours", "key": "warm" }),
            );
        namespace.create_object(stack.build()).await.unwrap();
        trail.until("Ready").await;
        assert_eq!(
            outputs(&trail).await,
            json!({ "size": "small", "colour": "red" })
        );

        // Nobody refers to this one.
        create_config_map(namespace, "others", json!({ "a": "b" })).await;
        change_config_map(namespace, "sizes", json!({ "usual": "large" })).await;
        trail.until("Ready").await;
        assert_eq!(
            outputs(&trail).await,
            json!({ "size": "large", "colour": "red" })
        );
        change_config_map(namespace, "others", json!({ "a": "c" })).await;
        change_config_map(namespace, "colours", json!({ "warm": "orange" })).await;
        trail.until("Ready").await;
        assert_eq!(
            outputs(&trail).await,
            json!({ "size": "large", "colour": "orange" })
        );

        assert_eq!(system.executed("demo", "dev"), 3);
        for name in ["sizes", "colours"] {
            let expected =
                format!("Normal StackUpdateDetected: Referenced ConfigMap changed: \"{name}\"");
            trail.wait_for_event(&expected).await;
        }
    })
    .await;
}

/// A Stack whose environment comes from ConfigMaps and a Secret: each change is in the next run.
async fn an_environment_is_made_anew(system: &System) {
    let script = Script::new()
        .records("GREETING")
        .records("NAME")
        .records("TOKEN");
    let stand_in = system.stand_in(&script);
    let all = ["GREETING", "NAME", "TOKEN"];
    with_namespace(system, async |namespace| {
        create_credentials(namespace).await;
        create_config_map(namespace, "greetings", json!({ "GREETING": "hello" })).await;
        create_config_map(namespace, "names", json!({ "name": "world" })).await;
        create_secret(namespace, "tokens", json!({ "token": "one" })).await;
        create_program(namespace, json!({})).await;
        let trail = Trail::of(namespace, "demo");
        let name = json!({ "type": "ConfigMap", "configMap": { "name": "names", "key": "name" } });
        let stack = stack(system)
            .secret_env("TOKEN", "tokens", "token")
            .set("/spec/envRefs/NAME", name)
            .set("/spec/envRefs/PKO_STAND_IN", folder_of(&stand_in))
            .push("/spec/envs", "greetings");
        namespace.create_object(stack.build()).await.unwrap();
        trail.until("Ready").await;
        assert_eq!(
            environment(&stand_in, 1, &all).await,
            ["hello", "world", "one"]
        );

        change_config_map(namespace, "greetings", json!({ "GREETING": "goodbye" })).await;
        trail.until("Ready").await;
        assert_eq!(
            environment(&stand_in, 2, &all).await,
            ["goodbye", "world", "one"]
        );

        change_config_map(namespace, "names", json!({ "name": "moon" })).await;
        trail.until("Ready").await;
        assert_eq!(
            environment(&stand_in, 3, &all).await,
            ["goodbye", "moon", "one"]
        );

        // Secrets are not watched: the next run notices the change, whatever started it.
        change_secret(namespace, "tokens", json!({ "token": "two" })).await;
        request(namespace, "now").await;
        trail.until("Ready").await;
        assert_eq!(
            environment(&stand_in, 4, &all).await,
            ["goodbye", "moon", "two"]
        );

        request(namespace, "later").await;
        trail.until("Ready").await;
        assert_eq!(
            environment(&stand_in, 5, &all).await,
            ["goodbye", "moon", "two"]
        );
    })
    .await;
    let requests = system.requests().await;
    let secrets = requests.only(|request| {
        request.resource == "secrets" && ["list", "watch"].contains(&&*request.verb)
    });
    assert!(secrets.is_empty(), "{}", secrets.counts());
}

#[tokio::test]
async fn process_environment_change_restarts_the_agent() {
    let program = StandIn::program().display().to_string();
    let system = System::start(&[("PKO_PULUMI", &program)]).await;
    an_environment_is_made_anew(&system).await;
}

#[tokio::test]
async fn pod_environment_change_replaces_the_pod() {
    let program = StandIn::program().display().to_string();
    let system = System::in_pods(&[("PKO_PULUMI", &program)]).await;
    an_environment_is_made_anew(&system).await;
}

/// A run that fails and prints variables from Secrets, whose names say nothing.
async fn secret_values_are_hidden(system: &System) {
    let failing = Reply::new()
        .prints_variable("REGION")
        .prints_variable("PLACE")
        .prints_variable("GREETING")
        .prints_error("error: this is the end\n")
        .exits(1);
    let stand_in = system.stand_in(&Script::new().on("up", failing));
    with_namespace(system, async |namespace| {
        create_credentials(namespace).await;
        let visible = json!({ "GREETING": "visible-greeting" });
        create_config_map(namespace, "greetings", visible).await;
        create_secret(namespace, "one", json!({ "region": "canary-region" })).await;
        create_secret(namespace, "whole", json!({ "PLACE": "canary-place" })).await;
        create_program(namespace, json!({})).await;
        let stack = stack(system)
            .secret_env("REGION", "one", "region")
            .set("/spec/envRefs/PKO_STAND_IN", folder_of(&stand_in))
            .push("/spec/envs", "greetings")
            .push("/spec/envSecrets", "whole");
        namespace.create_object(stack.build()).await.unwrap();
        let failed = eventually("the message of the failure", async || {
            let stack = namespace.api::<Stack>().get("demo").await.unwrap();
            let text = json!(stack.status).to_string();
            if text.contains("this is the end") {
                Ok(text)
            } else {
                Err(text)
            }
        });
        let failed = failed.await.unwrap();
        assert!(failed.contains("visible-greeting"), "{failed}");
        assert!(!failed.contains("canary"), "{failed}");
        let updates = namespace.api::<Update>().list(&ListParams::default()).await;
        let updates = json!(updates.unwrap().items).to_string();
        assert!(updates.contains("[secret]"), "{updates}");
        assert!(!updates.contains("canary"), "{updates}");
        assert!(!system.manager_log().contains("canary"));
    })
    .await;
}

#[tokio::test]
async fn process_failure_hides_secret_values() {
    let program = StandIn::program().display().to_string();
    let system = System::start(&[("PKO_PULUMI", &program)]).await;
    secret_values_are_hidden(&system).await;
}

#[tokio::test]
async fn pod_failure_hides_secret_values() {
    let program = StandIn::program().display().to_string();
    let system = System::in_pods(&[("PKO_PULUMI", &program)]).await;
    secret_values_are_hidden(&system).await;
}

#[tokio::test]
async fn missing_reference_is_named_and_waited_for() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        let text = json!({ "type": "string" });
        create_program(namespace, json!({ "size": text })).await;
        let trail = Trail::of(namespace, "demo");
        let stack = stack(&system)
            .set("/spec/configRef/size", json!({ "name": "sizes", "key": "usual" }));
        namespace.create_object(stack.build()).await.unwrap();
        let own = namespace.name();
        let seen = trail.until("Stalled").await;
        assert_eq!(
            seen.last().unwrap(),
            &format!(
                "Stalled SpecInvalid: unable to get secret {own}/credentials: secrets \"credentials\" not found \
                 (spec.envRefs.PULUMI_CONFIG_PASSPHRASE), and 1 more"
            )
        );
        create_credentials(namespace).await;
        let seen = trail.until("Stalled").await;
        assert_eq!(
            seen.last().unwrap(),
            &format!(
                "Stalled SpecInvalid: unable to get configmap {own}/sizes: configmaps \"sizes\" not found \
                 (spec.configRef.size)"
            )
        );
        create_config_map(namespace, "sizes", json!({ "usual": "small" })).await;
        trail.until("Ready").await;
        assert_eq!(outputs(&trail).await, json!({ "size": "small" }));
        assert_eq!(system.executed("demo", "dev"), 1);
    })
    .await;
}

#[tokio::test]
async fn watched_secret_change_triggers_a_run() {
    let program = StandIn::program().display().to_string();
    let environment_of = [
        ("PKO_PULUMI", program.as_str()),
        ("PKO_WATCH_SECRETS", "true"),
    ];
    let mut system = System::without_manager(&environment_of).await;
    let subject = json!({ "kind": "User", "name": system.user(), "apiGroup": GROUP });
    give(&system.plane.client().unwrap(), WATCH_SECRETS, &[subject]).await;
    system.start_manager();
    let stand_in = system.stand_in(&Script::new().records("TOKEN"));
    with_namespace(&system, async |namespace| {
        create_credentials(namespace).await;
        create_program(namespace, json!({})).await;
        let trail = Trail::of(namespace, "demo");
        let stack = stack(&system)
            .secret_env("TOKEN", "tokens", "token")
            .set("/spec/envRefs/PKO_STAND_IN", folder_of(&stand_in));
        namespace.create_object(stack.build()).await.unwrap();
        trail.until("Stalled").await;
        create_secret(namespace, "tokens", json!({ "token": "one" })).await;
        trail.until("Ready").await;
        assert_eq!(environment(&stand_in, 1, &["TOKEN"]).await, ["one"]);

        change_secret(namespace, "tokens", json!({ "token": "two" })).await;
        trail.until("Ready").await;
        assert_eq!(environment(&stand_in, 2, &["TOKEN"]).await, ["two"]);
        let expected = "Normal StackUpdateDetected: Referenced Secret changed: \"tokens\"";
        trail.wait_for_event(expected).await;
    })
    .await;
    let requests = system.requests().await;
    let lists = requests.only(|request| {
        request.resource == "secrets" && request.verb == "list" && request.code == 200
    });
    assert!(!lists.is_empty(), "it is watched");
}

#[tokio::test]
async fn manager_start_finds_references_changed_meanwhile() {
    let mut system = System::start(&[]).await;
    let namespace = system.namespace().await;
    create_credentials(&namespace).await;
    create_config_map(&namespace, "sizes", json!({ "usual": "small" })).await;
    create_program(&namespace, json!({ "size": { "type": "string" } })).await;
    let trail = Trail::of(&namespace, "demo");
    let stack = stack(&system).set(
        "/spec/configRef/size",
        json!({ "name": "sizes", "key": "usual" }),
    );
    namespace.create_object(stack.build()).await.unwrap();
    trail.until("Ready").await;
    system.kill_manager();
    change_config_map(&namespace, "sizes", json!({ "usual": "large" })).await;
    system.start_manager();
    eventually("the new value to be there", async || {
        let found = outputs(&trail).await;
        if found == json!({ "size": "large" }) {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await
    .unwrap();
    assert_eq!(system.executed("demo", "dev"), 2);
}
