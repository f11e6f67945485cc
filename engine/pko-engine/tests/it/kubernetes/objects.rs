//! The life of objects: made, changed, replaced, deleted; found changed by others.

use pko_testkit::with_namespace;
use pulumi_engine_providers::{ChangeKind, Provider, ReadRequest, kubernetes::object};
use serde_json::json;

use super::{CONFIG_MAP, Driver, config_map_kind, meddle, plane, stored};

#[tokio::test(flavor = "multi_thread")]
async fn object_is_created_updated_and_deleted() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let inputs = json!({"data": {"a": "1", "b": "2"}});
        let made = driver.create(CONFIG_MAP, "settings", &inputs).unwrap();
        let (within, name) = object::parse_id(&made.id);
        assert_eq!(within, Some(namespace.name()));
        assert!(name.starts_with("settings-"), "{name}");
        let live = stored(namespace, &config_map_kind(), name).await.unwrap();
        assert_eq!(live["data"], json!({"a": "1", "b": "2"}));
        assert_eq!(
            live["metadata"]["annotations"]["pulumi.com/autonamed"],
            "true"
        );
        let owner = live["metadata"]["managedFields"][0]["manager"]
            .as_str()
            .unwrap();
        assert!(owner.starts_with("pulumi-kubernetes-"), "{owner}");
        assert_eq!(driver.diff(&made, &inputs).keys(), Vec::<String>::new());

        let fewer = json!({"data": {"a": "3"}});
        assert_eq!(driver.diff(&made, &fewer).changes.len(), 2);
        let changed = driver.update(&made, &fewer).unwrap();
        let live = stored(namespace, &config_map_kind(), name).await.unwrap();
        assert_eq!(live["data"], json!({"a": "3"}));
        assert_eq!(changed.live()["data"], json!({"a": "3"}));

        driver.delete(&changed).unwrap();
        assert_eq!(stored(namespace, &config_map_kind(), name).await, None);
        // gone already is fine
        driver.delete(&changed).unwrap();
        assert!(driver.refresh(&changed).is_none());
        let refusal = driver.update(&changed, &inputs).unwrap_err().to_string();
        assert!(refusal.contains("no longer there; refresh"), "{refusal}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_secret_stays_secret() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let inputs = json!({"stringData": {"password": "hush"}});
        let made = driver
            .create("kubernetes:core/v1:Secret", "credentials", &inputs)
            .unwrap();
        assert_eq!(made.live()["data"], json!({"password": "aHVzaA=="}));
        for shown in [
            format!("{made:?}"),
            format!("{:?}", driver.refresh(&made).unwrap()),
        ] {
            assert!(
                !shown.contains("aHVzaA") && !shown.contains("hush"),
                "{shown}"
            );
        }
        assert_eq!(driver.diff(&made, &inputs).keys(), Vec::<String>::new());
        // the server quotes what it does not understand
        let wrong = json!({"data": {"password": {"text": "hush-hush"}}});
        let refusal = driver.create("kubernetes:core/v1:Secret", "wrong", &wrong);
        let refusal = refusal.unwrap_err().to_string();
        assert!(!refusal.contains("hush-hush"), "{refusal}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn immutable_field_change_replaces_object() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        // as Pulumi does unless ConfigMaps are set to be mutable
        let driver = Driver::with(&plane, namespace.name(), &json!({"enableConfigMapMutable": false}));
        let made = driver.create(CONFIG_MAP, "fixed", &json!({"data": {"a": "1"}})).unwrap();
        let found = driver.diff(&made, &json!({"data": {"a": "2"}}));
        assert_eq!(found.changes["data.a"], ChangeKind::Replace);
        assert!(!found.delete_before_replace);
        let named = json!({"metadata": {"name": "mine"}, "data": {"a": "1"}});
        let made = driver.create(CONFIG_MAP, "named", &named).unwrap();
        let found = driver.diff(&made, &json!({"metadata": {"name": "mine"}, "data": {"a": "2"}}));
        assert!(found.delete_before_replace);

        // only the server can check this one
        let class = |mode: &str| {
            let name = format!("class-{}", namespace.name());
            json!({"metadata": {"name": name}, "provisioner": "example.com/none", "volumeBindingMode": mode})
        };
        let token = "kubernetes:storage.k8s.io/v1:StorageClass";
        let made = driver.create(token, "class", &class("Immediate")).unwrap();
        let found = driver.diff(&made, &class("WaitForFirstConsumer"));
        assert_eq!(found.changes["volumeBindingMode"], ChangeKind::Replace);
        assert!(found.delete_before_replace);
        driver.delete(&made).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_words_for_the_same_are_no_change() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let token = "kubernetes:core/v1:LimitRange";
        let limits =
            |cpu: &str| json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": cpu}}]}});
        let made = driver.create(token, "limits", &limits("1000m")).unwrap();
        assert_eq!(
            driver.diff(&made, &limits("1000m")).keys(),
            Vec::<String>::new()
        );
        assert_eq!(
            driver.diff(&made, &limits("1")).keys(),
            Vec::<String>::new()
        );
        assert_eq!(driver.diff(&made, &limits("2")).keys(), ["spec"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn object_drift_is_found_and_repaired() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let inputs = json!({"metadata": {"name": "drifting"}, "data": {"a": "1"}});
        let made = driver.create(CONFIG_MAP, "drifting", &inputs).unwrap();
        let patch = json!({"data": {"a": "other", "theirs": "2"}});
        meddle(
            namespace,
            &config_map_kind(),
            "drifting",
            "kubectl-edit",
            patch,
        )
        .await;
        // the state does not know yet
        assert_eq!(driver.diff(&made, &inputs).keys(), Vec::<String>::new());
        let refreshed = driver.refresh(&made).unwrap();
        assert_eq!(refreshed.live()["data"]["a"], "other");
        // of what the program does not speak is no input
        assert_eq!(
            object::from_properties(&refreshed.inputs)["data"],
            json!({"a": "other"})
        );
        assert_eq!(
            driver.diff(&refreshed, &inputs).changes["data.a"],
            ChangeKind::Update
        );
        let set_right = driver.update(&refreshed, &inputs).unwrap();
        assert_eq!(set_right.live()["data"]["a"], "1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn object_can_be_read_by_id() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let mut theirs = config_map_kind();
        theirs["metadata"] = json!({"name": "theirs", "labels": {"a": "b"}});
        theirs["data"] = json!({"k": "v"});
        namespace.create_object(theirs).await.unwrap();
        let driver = Driver::new(&plane, namespace.name());
        let urn = pulumi_engine_model::urn::Urn::new(format!("urn:pulumi:dev::demo::{CONFIG_MAP}::theirs"));
        let nothing = super::properties(&json!({}));
        let id = format!("{}/theirs", namespace.name());
        // without a namespace it is the provider's
        for id in [id.as_str(), "theirs"] {
            let request = ReadRequest { id, inputs: None, outputs: &nothing };
            let observed = driver.run(&urn, false, |provider, call| provider.read(call, &request)).unwrap().unwrap();
            let inputs = object::from_properties(&observed.inputs);
            let metadata = json!({"name": "theirs", "namespace": namespace.name(), "labels": {"a": "b"}});
            assert_eq!(inputs, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}));
        }
        let request = ReadRequest { id: "nobody", inputs: None, outputs: &nothing };
        assert_eq!(driver.run(&urn, false, |provider, call| provider.read(call, &request)), Ok(None));
        let request = ReadRequest { id: "a/../b", inputs: None, outputs: &nothing };
        let refusal = driver.run(&urn, false, |provider, call| provider.read(call, &request)).unwrap_err();
        assert!(refusal.to_string().contains("can be no name"), "{refusal}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_deletion_names_finalizers() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let mut driver = Driver::new(&plane, namespace.name());
        let finalized = json!({"metadata": {"name": "held", "finalizers": ["example.com/wait"]}});
        let made = driver.create(CONFIG_MAP, "held", &finalized).unwrap();
        driver.timeout = Some(std::time::Duration::from_millis(300));
        let refusal = driver.delete(&made).unwrap_err().to_string();
        assert!(
            refusal.contains("example.com/wait") && refusal.contains("held\""),
            "{refusal}"
        );
        let release = json!({"metadata": {"finalizers": null}});
        meddle(namespace, &config_map_kind(), "held", "somebody", release).await;
        driver.timeout = None;
        driver.delete(&made).unwrap();
    })
    .await;
}
