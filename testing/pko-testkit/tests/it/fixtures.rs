//! Objects of an upstream cluster are restored unchanged.

use std::collections::BTreeMap;

use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use pko_testkit::kstatus::{self, ConditionProtocol};
use pko_testkit::{ControlPlane, StackBuilder, fixtures, shared_folder};
use serde_json::Value;

#[tokio::test]
async fn upstream_cluster_is_restored_unchanged() {
    let Some(folder) = shared_folder("fixtures/upstream-cluster") else {
        return;
    };
    let Some(crds) = shared_folder("upstream-crds") else {
        return;
    };
    let plane = ControlPlane::builder().start().await.unwrap();
    plane
        .install_crds(&fixtures::load(&crds).unwrap())
        .await
        .unwrap();
    let objects = fixtures::load(&folder).unwrap();
    fixtures::restore(&plane, &objects).await.unwrap();

    let mut expected: BTreeMap<(String, String), BTreeMap<String, Value>> = BTreeMap::new();
    for object in objects {
        let field = |path: &str| object.pointer(path).unwrap().as_str().unwrap().to_owned();
        let (kind, name) = (
            (field("/apiVersion"), field("/kind")),
            field("/metadata/name"),
        );
        expected
            .entry(kind)
            .or_default()
            .insert(name, comparable(object));
    }
    assert_eq!(expected.len(), 12);
    for ((api_version, kind), expected) in expected {
        let found = list(&plane, &api_version, &kind).await;
        let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected), "{kind}");
        for (name, object) in found {
            assert_eq!(object, expected[&name], "{kind} {name}");
        }
    }
}

async fn list(plane: &ControlPlane, api_version: &str, kind: &str) -> BTreeMap<String, Value> {
    let client = plane.client().unwrap();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let (resource, _) = pinned_kind(&client, &GroupVersionKind::gvk(group, version, kind))
        .await
        .unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(client, "shop", &resource);
    let list = api.list(&ListParams::default()).await.unwrap();
    let named = list.items.into_iter().map(|mut object| {
        object.types = Some(kube::core::TypeMeta {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        });
        (
            object.metadata.name.clone().unwrap(),
            comparable(serde_json::to_value(object).unwrap()),
        )
    });
    named.collect()
}

fn comparable(mut object: Value) -> Value {
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    object
}

#[tokio::test]
async fn restore_rejects_other_than_storage_version() {
    let Some(crds) = shared_folder("upstream-crds") else {
        return;
    };
    let plane = ControlPlane::shared().await.unwrap();
    plane
        .install_crds(&fixtures::load(&crds).unwrap())
        .await
        .unwrap();
    let stack = StackBuilder::new("s")
        .namespace("default")
        .set("/apiVersion", "pulumi.com/v1alpha1");
    let error = fixtures::restore(&plane, &[stack.build()])
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "Stack is stored as v1, not as v1alpha1");
    let error = fixtures::restore(&plane, &[StackBuilder::new("s").build()])
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Stack `s` has no name, or does not fit the scope of its kind"
    );
}

/// The check on real objects: upstream breaks its own rule in one known case.
#[test]
fn upstream_statuses_have_one_known_violation() {
    let Some(folder) = shared_folder("fixtures/upstream-cluster") else {
        return;
    };
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    let mut found = Vec::new();
    for (file, protocol) in [
        ("stacks.yaml", ConditionProtocol::ExactlyOne),
        ("workspaces.yaml", ConditionProtocol::AtMostOne),
        ("updates.yaml", ConditionProtocol::AtMostOne),
    ] {
        for object in fixtures::load(&folder.join(file)).unwrap() {
            let name = object["metadata"]["name"].as_str().unwrap();
            let violations = kstatus::violations(&object, protocol, now);
            found.extend(violations.into_iter().map(|text| format!("{name}: {text}")));
        }
    }
    // Upstream's first reconcile does not record the observed generation
    let expected =
        ["spec-invalid: Stalled is True, but observedGeneration is 0 and generation is 1"];
    assert_eq!(found, expected);
}
