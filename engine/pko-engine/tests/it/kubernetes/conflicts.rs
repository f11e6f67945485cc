//! Objects and fields that others have.

use kube::api::{Patch, PatchParams};
use pko_testkit::{TestNamespace, with_namespace};
use serde_json::{Value, json};

use super::{CONFIG_MAP, Driver, config_map_kind, meddle, plane, stored};

fn shared(value: &str) -> Value {
    json!({"metadata": {"name": "shared"}, "data": {"a": value}})
}

/// Takes ownership of a field, as a controller that applies does.
async fn seize(namespace: &TestNamespace, manager: &str, value: &str) {
    let api = namespace.api_of(&config_map_kind()).await.unwrap();
    let mut object = config_map_kind();
    object["metadata"] = json!({"name": "shared"});
    object["data"] = json!({"a": value});
    api.patch(
        "shared",
        &PatchParams::apply(manager).force(),
        &Patch::Apply(object),
    )
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn field_of_other_manager_is_taken_only_by_force() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let made = driver.create(CONFIG_MAP, "shared", &shared("1")).unwrap();
        seize(namespace, "somebody-else", "2").await;
        let refusal = driver.update(&made, &shared("3")).unwrap_err().to_string();
        for part in [
            "\"somebody-else\"",
            ".data.a",
            "pulumi.com/patchForce",
            "ignoreChanges",
        ] {
            assert!(refusal.contains(part), "{refusal}");
        }
        assert_eq!(
            stored(namespace, &config_map_kind(), "shared")
                .await
                .unwrap()["data"]["a"],
            "2"
        );

        let ignored = ["data.a".to_owned()];
        let left = driver
            .update_ignoring(&made, &shared("3"), &ignored)
            .unwrap();
        assert_eq!(left.live()["data"]["a"], "2");

        let mut forced = shared("3");
        forced["metadata"]["annotations"] = json!({"pulumi.com/patchForce": "true"});
        let taken = driver.update(&made, &forced).unwrap();
        assert_eq!(taken.live()["data"]["a"], "3");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_kubectl_and_pulumi_provider_are_taken_over() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let mut made = driver.create(CONFIG_MAP, "shared", &shared("1")).unwrap();
        for manager in ["kubectl-edit", "pulumi-kubernetes"] {
            meddle(
                namespace,
                &config_map_kind(),
                "shared",
                manager,
                json!({"data": {"a": "2", "b": "2"}}),
            )
            .await;
            made = driver.update(&made, &shared("3")).unwrap();
            // also what they added, as it was said by the same user
            assert_eq!(made.live()["data"], json!({"a": "3"}), "{manager}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn existing_object_is_rejected_or_adopted() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let mut theirs = config_map_kind();
        theirs["metadata"] = json!({"name": "shared"});
        theirs["data"] = json!({"b": "theirs"});
        namespace.create_object(theirs).await.unwrap();
        let driver = Driver::new(&plane, namespace.name());
        let refusal = driver
            .create(CONFIG_MAP, "shared", &shared("1"))
            .unwrap_err()
            .to_string();
        for part in [
            "shared\"",
            "already exists",
            "`import`",
            "upsertExistingObjects",
        ] {
            assert!(refusal.contains(part), "{refusal}");
        }
        let driver = Driver::with(
            &plane,
            namespace.name(),
            &json!({"upsertExistingObjects": true}),
        );
        let made = driver.create(CONFIG_MAP, "shared", &shared("1")).unwrap();
        assert_eq!(made.live()["data"], json!({"a": "1", "b": "theirs"}));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn object_of_killed_run_is_recognized() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let first = Driver::new(&plane, namespace.name());
        let made = first.create(CONFIG_MAP, "shared", &shared("1")).unwrap();
        // the state never heard of it
        let second = Driver::new(&plane, namespace.name());
        let again = second.create(CONFIG_MAP, "shared", &shared("2")).unwrap();
        assert_eq!(
            again.live()["metadata"]["uid"],
            made.live()["metadata"]["uid"]
        );
        assert_eq!(again.live()["data"]["a"], "2");
        let other = second
            .create(CONFIG_MAP, "another-resource", &shared("2"))
            .unwrap_err();
        assert!(other.to_string().contains("already exists"), "{other}");
    })
    .await;
}
