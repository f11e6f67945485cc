//! Two tenants of one operator: neither sees what is the other's, nor waits for the other.

use k8s_openapi::api::{
    core::v1::{ConfigMap, Secret},
    rbac::v1::{ClusterRole, RoleBinding},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use pko_api::{
    Program, Stack, Update, Workspace,
    rbac::{EDIT, GROUP, Role, VIEW},
};
use pko_testkit::{Reply, Script, StandIn, TestNamespace, eventually};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    harness::{System, Watched},
    raw_objects,
    scripted_stacks::{create_stack, namespace, ready, wait_for_runs},
};

async fn create<K>(objects: Api<K>, object: Value)
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    let created = objects.create(&PostParams::default(), &object).await;
    created.unwrap();
}

/// Makes a user an editor of a namespace, as an administrator does: by the role `edit` of
/// Kubernetes, which ours become part of.
async fn editor(system: &System, user: &str, namespace: &TestNamespace) -> Client {
    let binding = json!({
        "metadata": { "name": user },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "kind": "User", "name": user, "apiGroup": GROUP }],
    });
    create(namespace.api::<RoleBinding>(), binding).await;
    system.plane.client_as(user, &[]).unwrap()
}

/// The code with which the API server refuses, for one object of this kind and for all; 0 if it
/// does not.
async fn refusals<K>(client: &Client, namespace: &TestNamespace, name: &str) -> [u16; 2]
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let objects = Api::<K>::namespaced(client.clone(), namespace.name());
    let one = code(objects.get(name).await);
    [one, code(objects.list(&ListParams::default()).await)]
}

fn code<T>(answer: kube::Result<T>) -> u16 {
    match answer {
        Ok(_) => 0,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

/// The rejections of a user who reads all objects of a Stack.
async fn all_refusals(client: &Client, namespace: &TestNamespace) -> Vec<[u16; 2]> {
    let updates = namespace.api::<Update>();
    let updates = updates.list(&ListParams::default()).await.unwrap();
    let update = updates.iter().next().unwrap();
    let outputs = update.status.clone().unwrap().outputs.unwrap();
    vec![
        refusals::<Program>(client, namespace, "demo").await,
        refusals::<Stack>(client, namespace, "demo").await,
        refusals::<Workspace>(client, namespace, "demo").await,
        refusals::<Update>(client, namespace, &update.name_any()).await,
        refusals::<Secret>(client, namespace, &outputs).await,
    ]
}

#[tokio::test]
async fn isolation_tenant_reads_nothing_of_another() {
    let program = StandIn::program().display().to_string();
    let environment = [("PKO_PULUMI", program.as_str())];
    let system = System::start_watching(Watched::Cluster, &environment).await;
    let stand_in = system.stand_in(&Script::new());
    let roles = Api::<ClusterRole>::all(system.plane.client().unwrap());
    for role in [EDIT, VIEW] {
        create(roles.clone(), Role::object(&role)).await;
    }
    let (annas, berts) = (namespace(&system).await, namespace(&system).await);
    let anna = editor(&system, "anna", &annas).await;
    let bert = editor(&system, "bert", &berts).await;
    for namespace in [&annas, &berts] {
        create_stack(namespace, &system, &stand_in, "demo").await;
        ready(namespace, "demo").await;
    }
    for (somebody, own, others) in [(&anna, &annas, &berts), (&bert, &berts, &annas)] {
        eventually("the roles to be part of `edit`", async || {
            let refusals = all_refusals(somebody, own).await;
            if refusals == [[0; 2]; 5] {
                Ok(())
            } else {
                Err(format!("{refusals:?}"))
            }
        })
        .await
        .unwrap();
        assert_eq!(all_refusals(somebody, others).await, [[403; 2]; 5]);
    }
}

#[tokio::test]
async fn isolation_many_runs_do_not_delay_another_tenant() {
    let program = StandIn::program().display().to_string();
    let environment = [
        ("PKO_PULUMI", program.as_str()),
        ("PKO_MAX_RUNS_PER_NAMESPACE", "1"),
    ];
    let system = System::start_watching(Watched::Cluster, &environment).await;
    let gated = Reply::new().waits_for("gate").run_default();
    let slow = system.stand_in(&Script::new().on("up", gated));
    let quick = StandIn::new(slow.folder().with_file_name("quick"), &Script::new());
    let (annas, berts) = (namespace(&system).await, namespace(&system).await);
    let flood: Vec<String> = (0..6).map(|number| format!("flood-{number}")).collect();
    for name in &flood {
        create_stack(&annas, &system, &slow, name).await;
    }
    wait_for_runs(&slow, 1).await;
    eventually("the others to wait", async || {
        let updates = annas.api::<Update>();
        let updates = updates.list(&ListParams::default()).await.unwrap();
        let conditions = updates
            .into_iter()
            .flat_map(|update| update.status.unwrap_or_default().conditions);
        let waiting = conditions.filter(|found| found.reason == "Queued").count();
        if waiting + 1 == flood.len() {
            Ok(())
        } else {
            Err(waiting)
        }
    })
    .await
    .unwrap();
    create_stack(&berts, &system, &quick, "demo").await;
    ready(&berts, "demo").await;
    assert_eq!(slow.count("up"), 1, "the flood waits still");
    slow.create("gate");
    for name in &flood {
        ready(&annas, name).await;
    }
    assert_eq!(slow.count("up"), flood.len());
}

/// What must stand in no log.
const CANARY: &str = "canary-5f2c";

/// Objects that the API server stores and no client can read: each is too deep, or has a value of
/// another form than its type has, and the canary beside it.
async fn create_unreadable(namespace: &TestNamespace) {
    let deep = |levels: usize| {
        format!(
            "{}\"{CANARY}\"{}",
            "{\"a\":".repeat(levels),
            "}".repeat(levels)
        )
    };
    for (name, levels) in [("deep-100", 100), ("deep-200", 200), ("deep-9000", 9000)] {
        let config = format!(r#"{{"{CANARY}":"{CANARY}","tree":{}}}"#, deep(levels));
        let stack = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"stack":"dev","config":{config}}}}}"#
        );
        raw_objects::create::<Stack>(namespace, &stack)
            .await
            .unwrap();
        let program = format!(
            r#"{{"metadata":{{"name":"{name}"}},"program":{{"outputs":{{"tree":{}}}}}}}"#,
            deep(levels)
        );
        raw_objects::create::<Program>(namespace, &program)
            .await
            .unwrap();
        let config = format!(r#"[{{"key":"tree","value":{}}}]"#, deep(levels));
        let workspace = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"stacks":[{{"name":"dev","config":{config}}}]}}}}"#
        );
        raw_objects::create::<Workspace>(namespace, &workspace)
            .await
            .unwrap();
    }
    let soon = format!(
        r#"{{"metadata":{{"name":"soon"}},"spec":{{"idleTimeout":"{CANARY}","env":[{{"name":"A","value":"{CANARY}"}}]}}}}"#
    );
    raw_objects::create::<Workspace>(namespace, &soon)
        .await
        .unwrap();
    let update = format!(
        r#"{{"metadata":{{"name":"soon"}},"spec":{{"workspaceName":"soon","stackName":"dev","type":"up","ttlAfterCompleted":"{CANARY}"}}}}"#
    );
    raw_objects::create::<Update>(namespace, &update)
        .await
        .unwrap();
    let update = r#"{"metadata":{"name":"in-soon"},"spec":{"workspaceName":"soon","stackName":"dev","type":"up"}}"#;
    raw_objects::create::<Update>(namespace, update)
        .await
        .unwrap();
    let list =
        format!(r#"{{"metadata":{{"name":"text"}},"spec":{{"stack":"dev","config":"{CANARY}"}}}}"#);
    raw_objects::create::<Stack>(namespace, &list)
        .await
        .unwrap();
    // The year of this time is negative in UTC, in which it is stored.
    let odd = r#"{"metadata":{"name":"odd"},"data":{"a":"b"}}"#;
    raw_objects::create::<ConfigMap>(namespace, odd)
        .await
        .unwrap();
    let times = json!([{
        "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "time": "0000-01-01T00:00:00+14:00", "fieldsV1": { "f:data": { "f:a": {} } },
    }]);
    let patch = Patch::Merge(json!({ "metadata": { "managedFields": times } }));
    let config_maps = namespace.api::<ConfigMap>();
    let patched = config_maps
        .patch("odd", &PatchParams::default(), &patch)
        .await;
    let read = config_maps.get("odd").await;
    assert!(
        patched.is_err() && read.is_err(),
        "no client reads it: {read:?}"
    );
}

/// The message of the condition `Stalled` of each object, or of `Ready` where that is false.
async fn complaints<K>(namespace: &TestNamespace) -> Vec<(String, String)>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    let objects = raw_objects::list::<K>(namespace).await.unwrap();
    let complaint = |object: &kube::api::DynamicObject| {
        let conditions = object.data["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.into_iter().flatten();
        let stalled =
            conditions.find(|found| found["type"] == "Stalled" && found["status"] == "True");
        let message = stalled.map_or(Value::Null, |stalled| stalled["message"].clone());
        (
            object.name_any(),
            message.as_str().unwrap_or_default().to_owned(),
        )
    };
    objects.iter().map(complaint).collect()
}

async fn is_reported<K>(namespace: &TestNamespace, count: usize, texts: &[&str])
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    let kind = K::kind(&());
    eventually(
        format!("each {kind} to say what is wrong with it"),
        async || {
            let found = complaints::<K>(namespace).await;
            let is_one = |message: &String| texts.iter().any(|text| message.contains(text));
            if found.len() == count && found.iter().all(|(_, message)| is_one(message)) {
                Ok(())
            } else {
                Err(format!("{found:#?}"))
            }
        },
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn isolation_unreadable_objects_do_not_stop_another_tenant() {
    let program = StandIn::program().display().to_string();
    let environment = [("PKO_PULUMI", program.as_str())];
    let mut system = System::start_watching(Watched::Cluster, &environment).await;
    let stand_in = system.stand_in(&Script::new());
    let (annas, berts) = (namespace(&system).await, namespace(&system).await);
    create_unreadable(&annas).await;
    create_stack(&berts, &system, &stand_in, "before").await;
    ready(&berts, "before").await;
    // A list, not only a watch
    system.restart_manager();
    create_stack(&berts, &system, &stand_in, "after").await;
    ready(&berts, "after").await;

    let deep = "the limit is 100: write it flatter";
    is_reported::<Stack>(&annas, 4, &[deep, "spec.config"]).await;
    is_reported::<Program>(&annas, 3, &[deep]).await;
    is_reported::<Workspace>(&annas, 4, &[deep, "spec.idleTimeout"]).await;
    for name in ["deep-100", "deep-200", "deep-9000", "text"] {
        raw_objects::delete::<Stack>(&annas, name).await.unwrap();
        raw_objects::delete::<Program>(&annas, name).await.ok();
    }
    eventually("the Stacks to be gone", async || {
        let left = raw_objects::list::<Stack>(&annas).await.unwrap();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.len())
        }
    })
    .await
    .unwrap();
    let log = system.manager_log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(CANARY)).collect();
    assert!(lines.is_empty(), "{lines:#?}");
    assert!(!log.contains("panicked"), "the manager's log tells where");
}
