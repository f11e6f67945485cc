//! The metrics as a scraper sees them: by HTTPS, with the token of a user who may read them.

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, PostParams},
    config::AuthInfo,
};
use pko_api::{Stack, rbac::METRICS_READER};
use pko_testkit::{ProgramBuilder, StackBuilder, eventually};
use serde_json::json;

use crate::{
    events::Trail,
    harness::{OWN_NAMESPACE, System, free_address},
    rbac::give,
};

/// The token of a new service account.
async fn token_of(system: &System, name: &str) -> String {
    let client = system.plane.client().unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client, OWN_NAMESPACE);
    let account = json!({ "metadata": { "name": name } });
    let account = serde_json::from_value(account).unwrap();
    let parameters = PostParams::default();
    accounts.create(&parameters, &account).await.unwrap();
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let answer = accounts.create_token_request(name, &parameters, &request);
    answer.await.unwrap().status.unwrap().token
}

/// What a scraper gets, or the code with which it is refused.
async fn scrape(url: &str, token: Option<&str>) -> Result<String, u16> {
    let mut config = Config::new(url.parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info = AuthInfo {
        token: token.map(|token| token.to_owned().into()),
        ..AuthInfo::default()
    };
    let client = Client::try_from(config).unwrap();
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    client
        .request_text(request)
        .await
        .map_err(|error| match error {
            kube::Error::Api(status) => status.code,
            other => panic!("{other}"),
        })
}

/// Waits until the metrics have these lines and no line that contains the other text.
async fn tell(url: &str, token: Option<&str>, lines: &[&str], nowhere: &str) {
    eventually("the metrics to say it", async || {
        let text = scrape(url, token).await.unwrap();
        let missing = lines
            .iter()
            .find(|line| !text.contains(&format!("{line}\n")));
        match missing {
            Some(missing) => Err(format!("no `{missing}` in:\n{text}")),
            None if text.contains(nowhere) => Err(format!("`{nowhere}` in:\n{text}")),
            None => Ok(()),
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn metrics_are_served_to_authorized_scrapers() {
    let system = System::without_manager(&[]).await;
    let namespace = system.namespace().await;
    let address = free_address();
    let flags = ["--metrics-bind-address", &address];
    let _manager = system.start_another("measured", &flags);
    let stack = StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .set("/spec/envRefs", json!({ "PULUMI_CONFIG_PASSPHRASE": { "type": "Literal", "literal": { "value": "x" } } }))
        .build();
    let program = ProgramBuilder::new("demo").output("a", "b").build();
    namespace.create_object(program).await.unwrap();
    let trail = Trail::of(&namespace, "demo");
    namespace.create_object(stack).await.unwrap();
    trail.until("Ready").await;

    let (reader, other) = (
        token_of(&system, "reader").await,
        token_of(&system, "other").await,
    );
    let subject = json!({ "kind": "ServiceAccount", "name": "reader", "namespace": OWN_NAMESPACE });
    give(&system.plane.client().unwrap(), METRICS_READER, &[subject]).await;
    let url = format!("https://{address}");
    assert_eq!(scrape(&url, None).await, Err(401));
    assert_eq!(scrape(&url, Some("nonsense")).await, Err(401));
    assert_eq!(scrape(&url, Some(&other)).await, Err(403));

    let failing = format!(
        "stacks_failing{{name=\"demo\",namespace=\"{}\"}}",
        namespace.name()
    );
    let reconciling = failing.replace("failing", "reconciling");
    let lines = [
        "stacks_active 1",
        "programs_active 1",
        &format!("{failing} 0"),
        &format!("{reconciling} 0"),
        "pko_run_seconds_count{result=\"succeeded\",type=\"up\"} 1",
        "pko_workspace_start_seconds_count 1",
        "pko_workspace_install_seconds_count{result=\"succeeded\"} 1",
        "pko_run_queue_wait_seconds_count 1",
        "pko_runs_under_way 0",
        "controller_runtime_reconcile_panics_total{controller=\"stack-controller\"} 0",
        "leader_election_master_status{name=\"operator.pulumi.com\"} 1",
    ];
    tell(&url, Some(&reader), &lines, "nowhere to be found").await;

    let stacks = namespace.api::<Stack>();
    stacks
        .delete("demo", &DeleteParams::default())
        .await
        .unwrap();
    tell(&url, Some(&reader), &["stacks_active 0"], &failing).await;
    let text = scrape(&url, Some(&reader)).await.unwrap();
    assert!(!text.contains(&reconciling), "{text}");
    assert!(
        text.contains("rest_client_requests_total{code=\"200\""),
        "{text}"
    );
}

#[tokio::test]
async fn metrics_over_http_are_served_to_all() {
    let system = System::without_manager(&[]).await;
    let address = free_address();
    let flags = ["--metrics-bind-address", &address, "--metrics-secure=false"];
    let _manager = system.start_another("open", &flags);
    let namespace = system.namespace().await;
    System::works(&namespace, "demo").await;
    let lines = [
        "programs_active 1",
        "controller_runtime_max_concurrent_reconciles{controller=\"program-controller\"} 25",
    ];
    tell(
        &format!("http://{address}"),
        None,
        &lines,
        "nowhere to be found",
    )
    .await;
}
