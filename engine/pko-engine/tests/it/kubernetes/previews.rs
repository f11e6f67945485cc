//! What a preview reports and leaves unchanged.

use pko_testkit::with_namespace;
use pulumi_engine_providers::{Provider, kubernetes::object};
use serde_json::json;

use super::{CONFIG_MAP, Driver, config_map_kind, plane, properties, stored, unknown};

const DEPLOYMENT: &str = "kubernetes:apps/v1:Deployment";

#[tokio::test(flavor = "multi_thread")]
async fn preview_creates_nothing_and_shows_server_defaults() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
        let seen = driver
            .preview("kubernetes:core/v1:Service", "web", &service)
            .unwrap();
        assert_eq!(seen.id, "");
        let live = seen.live();
        assert_eq!(live["spec"]["ports"][0]["protocol"], "TCP");
        assert_eq!(seen.outputs["status"], unknown());
        let kind = json!({"apiVersion": "v1", "kind": "Service"});
        assert_eq!(stored(namespace, &kind, "web").await, None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_of_update_changes_nothing() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let made = driver
            .create(
                CONFIG_MAP,
                "a",
                &json!({"metadata": {"name": "a"}, "data": {"k": "1"}}),
            )
            .unwrap();
        let inputs = json!({"metadata": {"name": "a"}, "data": {"k": "2"}});
        let inputs = driver.check(&made.urn, Some(&made.inputs), &inputs);
        let request = super::change(&made, &inputs, &[]);
        let outputs = driver
            .run(&made.urn, true, |provider, call| {
                provider.update(call, &request)
            })
            .unwrap();
        assert_eq!(object::live(&outputs)["data"]["k"], "2");
        assert_eq!(
            stored(namespace, &config_map_kind(), "a").await.unwrap()["data"]["k"],
            "1"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_values_are_no_hindrance() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let inputs = json!({"data": {"k": pulumi_engine_model::property::UNKNOWN}});
        let seen = driver.preview(CONFIG_MAP, "later", &inputs).unwrap();
        assert_eq!(seen.outputs["data"], properties(&inputs)["data"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_manifest_is_reported_by_preview_and_update() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let cases = [
            (json!({"spec": {"replcas": 1, "selector": {}, "template": {}}}), "replcas"),
            (json!({"spec": {"replicas": "many"}}), "replicas"),
            (json!({"spec": {"replicas": -1, "selector": {"matchLabels": {"a": "b"}}, "template": {}}}), "spec.replicas"),
        ];
        for (inputs, field) in cases {
            for attempt in [driver.preview(DEPLOYMENT, "wrong", &inputs), driver.create(DEPLOYMENT, "wrong", &inputs)] {
                let refusal = attempt.unwrap_err().to_string();
                assert!(refusal.contains(field), "{refusal}");
                assert!(refusal.contains("failed to create Deployment \""), "{refusal}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_reported_and_preview_continues() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let kubeconfig = plane.kubeconfig_as("nobody-special", &[]).unwrap();
        let driver = Driver::with(&plane, namespace.name(), &json!({"kubeconfig": kubeconfig}));
        let inputs = json!({"data": {"a": "1"}});
        driver.preview(CONFIG_MAP, "forbidden", &inputs).unwrap();
        let refusal = driver
            .create(CONFIG_MAP, "forbidden", &inputs)
            .unwrap_err()
            .to_string();
        for part in [
            "forbidden",
            "nobody-special",
            "configmaps",
            "give the credentials of the provider this right",
        ] {
            assert!(refusal.contains(part), "{refusal}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_a_preview_tells_what_the_program_says() {
    let plane = plane().await;
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    });
    let driver = Driver::with(
        &plane,
        "somewhere",
        &json!({"kubeconfig": kubeconfig.to_string()}),
    );
    let seen = driver
        .preview(CONFIG_MAP, "a", &json!({"data": {"k": "v"}}))
        .unwrap();
    assert_eq!(seen.live()["data"]["k"], "v");
}
