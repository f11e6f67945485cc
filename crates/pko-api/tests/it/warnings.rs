//! The admission policy on a real API server: its warnings about Stacks that are accepted.

use std::path::PathBuf;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::{Api, Client, client::Body};
use pko_api::admission;
use pko_testkit::{
    ControlPlane, StackBuilder, TestNamespace, eventually, fixtures, with_namespace,
};
use serde_json::{Value, json};

use crate::plane::kubectl;

/// Creates a Stack and returns the API server's warnings.
async fn warnings(client: &Client, namespace: &TestNamespace, stack: &Value) -> Vec<String> {
    let version = stack["apiVersion"].as_str().unwrap();
    let namespace = namespace.name();
    let request = http::Request::post(format!(
        "/apis/{version}/namespaces/{namespace}/stacks?dryRun=All"
    ));
    let request = request.header("Content-Type", "application/json");
    let body = Body::from(stack.to_string().into_bytes());
    let answer = client.send(request.body(body).unwrap()).await.unwrap();
    assert_eq!(answer.status(), http::StatusCode::CREATED, "{stack}");
    let warnings = answer.headers().get_all("Warning").iter();
    warnings
        .map(|warning| {
            // `299 - "Validation failed for … with binding …: the message"`
            let text = warning.to_str().unwrap().replace("\\\"", "\"");
            let (_, message) = text.split_once("': ").unwrap();
            message.strip_suffix('"').unwrap().to_owned()
        })
        .collect()
}

fn stack(fields: &Value) -> Value {
    let mut stack = StackBuilder::new("demo").stack("dev").build();
    let fields = fields.as_object().unwrap().clone();
    stack["spec"].as_object_mut().unwrap().extend(fields);
    stack
}

fn committed() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/policies/stacks.yaml")
}

/// A control plane with the policy.
async fn warning_plane() -> ControlPlane {
    let plane = ControlPlane::builder()
        .controller_manager(true)
        .start()
        .await
        .unwrap();
    plane.install_crds(&pko_api::crd::all()).await.unwrap();
    let file = committed();
    let (applied, output) = kubectl(&plane, &["apply", "-f", file.to_str().unwrap()]);
    assert!(applied, "{output}");
    plane
}

/// Fields of a Stack, and the only warning that they cause.
fn cases() -> Vec<(Value, &'static str)> {
    let secret = |namespace: &str| json!({ "type": "Secret", "secret": { "namespace": namespace, "name": "s", "key": "k" } });
    let flux = json!({ "sourceRef": { "apiVersion": "a/v1", "kind": "K", "name": "n" } });
    let program = json!({ "name": "hello" });
    let basic = json!({ "userName": secret(""), "password": secret("") });
    let within = |duration: &str| json!([{ "name": "a" }, { "name": "b", "requirement": { "succeededWithinDuration": duration } }]);
    let reference = json!({ "name": "c", "key": "k" });
    vec![
        (
            json!({ "projectRepo": "https://x/y/z", "branch": "main", "programRef": program }),
            "several sources: only git is used, not spec.programRef; keep one",
        ),
        (
            json!({ "fluxSource": flux, "programRef": program }),
            "several sources: only spec.fluxSource is used, not spec.programRef; keep one",
        ),
        (
            json!({ "gitAuthSecret": "s", "gitAuth": { "accessToken": secret(""), "basicAuth": basic } }),
            "several credentials: only spec.gitAuthSecret is used, not spec.gitAuth.accessToken, \
             spec.gitAuth.basicAuth; keep one",
        ),
        (
            json!({ "config": { "a": 1, "b": 2 }, "secrets": { "b": "hunter2" } }),
            "spec.config, configRef, configRefs, secrets and secretsRef set a key twice; the Stack will stall: b",
        ),
        (
            json!({ "configRef": { "a": reference }, "configRefs": { "a": reference } }),
            "spec.config, configRef, configRefs, secrets and secretsRef set a key twice; the Stack will stall: a",
        ),
        (
            json!({ "secrets": { "a": "x" }, "secretsRef": { "a": secret("") } }),
            "spec.config, configRef, configRefs, secrets and secretsRef set a key twice; the Stack will stall: a",
        ),
        (
            json!({ "prerequisites": [{ "name": "base" }, { "name": "demo" }] }),
            "spec.prerequisites contains the Stack itself; the Stack will stall: demo",
        ),
        (
            json!({ "prerequisites": within("soon") }),
            "spec.prerequisites[].requirement.succeededWithinDuration is not a duration such as 10m or 1h30m; the Stack will stall: soon",
        ),
        (
            json!({ "prerequisites": within("0s") }),
            "spec.prerequisites[].requirement.succeededWithinDuration is not a duration such as 10m or 1h30m; the Stack will stall: 0s",
        ),
        (
            json!({ "prerequisites": within("-1h") }),
            "spec.prerequisites[].requirement.succeededWithinDuration is not a duration such as 10m or 1h30m; the Stack will stall: -1h",
        ),
        (
            json!({ "envRefs": { "A": secret("other") } }),
            "cross-namespace refs are not allowed; the Stack will stall: spec.envRefs.A",
        ),
        (
            json!({ "secretsRef": { "a": secret("other"), "b": secret("") } }),
            "cross-namespace refs are not allowed; the Stack will stall: spec.secretsRef.a",
        ),
        (
            json!({ "resyncFrequencySeconds": 30 }),
            "spec.resyncFrequencySeconds is below the minimum; 60 is used: 30",
        ),
        (
            json!({ "retryMaxBackoffDurationSeconds": -1 }),
            "spec.retryMaxBackoffDurationSeconds is negative; one day is used: -1",
        ),
    ]
}

/// Fields of Stacks that cause no warning.
fn good() -> Vec<Value> {
    let within = |duration: &str| json!([{ "name": "b", "requirement": { "succeededWithinDuration": duration } }]);
    let literal = json!({ "type": "Literal", "literal": { "value": "x" } });
    vec![
        json!({}),
        json!({ "projectRepo": "", "branch": "", "shallow": false, "gitAuthSecret": "", "programRef": { "name": "p" } }),
        json!({ "projectRepo": "https://x/y/z", "commit": "abc", "gitAuthSecret": "s", "shallow": true }),
        json!({ "config": [1, 2] }),
        json!({ "config": null }),
        json!({ "config": { "a": 1 }, "secrets": { "b": "x" }, "secretsRef": { "c": literal }, "envRefs": { "a": literal } }),
        json!({ "prerequisites": within("1h30m") }),
        json!({ "prerequisites": within("+1.5h") }),
        json!({ "prerequisites": [{ "name": "b", "requirement": {} }] }),
        json!({ "resyncFrequencySeconds": 60, "retryMaxBackoffDurationSeconds": 0 }),
    ]
}

#[tokio::test]
async fn policy_warning_names_field_and_fix() {
    let plane = warning_plane().await;
    let client = plane.client().unwrap();
    with_namespace(&plane, async |namespace| {
        let (first, warning) = cases().remove(0);
        // A policy takes effect shortly after its creation.
        eventually("the policy to be at work", async || {
            let reported = warnings(&client, namespace, &stack(&first)).await;
            if reported == [warning] {
                Ok(())
            } else {
                Err(format!("{reported:?}"))
            }
        })
        .await
        .unwrap();
        for (fields, warning) in cases() {
            for version in ["v1", "v1alpha1"] {
                let mut stack = stack(&fields);
                stack["apiVersion"] = json!(format!("pulumi.com/{version}"));
                let reported = warnings(&client, namespace, &stack).await;
                assert_eq!(reported, [warning], "{version}: {fields}");
            }
        }
        for fields in good() {
            let reported = warnings(&client, namespace, &stack(&fields)).await;
            assert_eq!(reported, [""; 0], "{fields}");
        }
        let without_spec = json!({
            "apiVersion": "pulumi.com/v1", "kind": "Stack", "metadata": { "name": "demo" },
        });
        let reported = warnings(&client, namespace, &without_spec).await;
        assert_eq!(reported, [""; 0], "a Stack without a spec");
    })
    .await;
}

/// The API server type-checks the expressions and reports problems in the policy's status.
#[tokio::test]
async fn policy_expressions_fit_schema() {
    let plane = warning_plane().await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(plane.client().unwrap());
    let checked = eventually("the expressions to be checked", async || {
        let policy = policies.get(admission::NAME).await.unwrap();
        let status = policy.status.unwrap_or_default();
        status
            .type_checking
            .filter(|_| status.observed_generation == policy.metadata.generation)
            .ok_or("not yet")
    });
    let warnings = checked.await.unwrap().expression_warnings;
    assert_eq!(warnings.unwrap_or_default(), []);
}

#[test]
fn committed_policy_matches_table() {
    let committed: Vec<Value> = fixtures::load(&committed()).unwrap();
    assert!(
        committed == [admission::policy(), admission::binding()],
        "run `cargo xtask generate`"
    );
}
