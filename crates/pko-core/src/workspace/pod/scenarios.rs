//! Upstream's scenarios for workspaces, by their names, with our outcome. The scenarios of a pod's
//! state are in `plan::tests`, those of an agent's state in the tests of the Workspace's machine.

use pko_api::Workspace;
use serde_json::{Value, json};

use super::*;

fn set(spec: impl Into<Value>) -> Result<Value, Invalid> {
    let spec: Value = spec.into();
    let metadata = json!({ "name": "demo", "namespace": "team", "uid": "u-1", "generation": 1 });
    let object = json!({ "metadata": metadata, "spec": spec });
    let workspace: Workspace = serde_json::from_value(object).unwrap();
    let settings = AgentSettings {
        agent_image: "agent:1".to_owned(),
        agent_image_pull_policy: "IfNotPresent".to_owned(),
        max_untar_size: None,
        manager_public_key: "PUBLIC".to_owned(),
        restrictions: PodRestrictions::default(),
    };
    stateful_set(&workspace, &settings)
}

/// The value at a path of the pod's spec; in a list, a step selects an item by its name.
fn at(pod: &Value, path: &str) -> Value {
    path.split('/')
        .fold(pod.clone(), |value, step| match value {
            Value::Array(items) => items
                .into_iter()
                .find(|item| item["name"] == step)
                .unwrap_or_default(),
            other => other[step].clone(),
        })
}

/// The scenario, the Workspace's spec, a path in the pod's spec, and the value there.
fn check(table: &[(&str, Value, &str, Value)]) {
    for (scenario, spec, path, expected) in table {
        let set = set(spec.clone()).unwrap();
        let found = at(&set["spec"]["template"]["spec"], path);
        assert_eq!(found, *expected, "{scenario}");
    }
}

#[test]
fn pod_images_accounts_and_resources() {
    let image = "containers/pulumi/image";
    let requests = "containers/pulumi/resources/requests";
    let baseline = json!({ "securityProfile": "baseline" });
    check(&[
        (
            "default image latest-nonroot",
            json!({}),
            image,
            json!("pulumi/pulumi:latest-nonroot"),
        ),
        (
            "custom image",
            json!({ "image": "mine" }),
            image,
            json!("mine"),
        ),
        (
            "baseline: image latest",
            baseline.clone(),
            image,
            json!("pulumi/pulumi:latest"),
        ),
        (
            "baseline: custom image",
            json!({ "securityProfile": "baseline", "image": "mine" }),
            image,
            json!("mine"),
        ),
        (
            "restricted: custom image",
            json!({ "securityProfile": "restricted", "image": "mine" }),
            image,
            json!("mine"),
        ),
        (
            "serviceAccountName",
            json!({ "serviceAccountName": "deployer" }),
            "serviceAccountName",
            json!("deployer"),
        ),
        (
            "default requests 64Mi/100m",
            json!({}),
            requests,
            json!({ "memory": "64Mi", "cpu": "100m" }),
        ),
        (
            "explicit requests kept",
            json!({ "resources": { "requests": { "memory": "1Gi" } } }),
            requests,
            json!({ "memory": "1Gi" }),
        ),
        (
            "baseline: no runAsNonRoot",
            baseline,
            "securityContext/runAsNonRoot",
            Value::Null,
        ),
        (
            "restricted: runAsNonRoot",
            json!({}),
            "securityContext/runAsNonRoot",
            json!(true),
        ),
    ]);
}

#[test]
fn environment_and_sources() {
    let git = json!({ "git": { "url": "https://git.test/a", "ref": "main", "dir": "infra", "shallow": true } });
    let flux = json!({ "flux": { "url": "http://flux/a", "digest": "sha256:1", "dir": "d" } });
    let escalation = "securityContext/allowPrivilegeEscalation";
    let value = |value: &str| json!(value);
    check(&[
        (
            "env",
            json!({ "env": [{ "name": "A", "value": "1" }] }),
            "containers/pulumi/env/A/value",
            value("1"),
        ),
        (
            "envFrom",
            json!({ "envFrom": [{ "secretRef": { "name": "a" } }] }),
            "containers/pulumi/envFrom",
            json!([{ "secretRef": { "name": "a" } }]),
        ),
        (
            "git env vars on fetch: url",
            git.clone(),
            "initContainers/fetch/env/GIT_URL/value",
            value("https://git.test/a"),
        ),
        (
            "git env vars on fetch: revision",
            git.clone(),
            "initContainers/fetch/env/GIT_REVISION/value",
            value("main"),
        ),
        (
            "git env vars on fetch: folder",
            git.clone(),
            "initContainers/fetch/env/GIT_DIR/value",
            value("infra"),
        ),
        (
            "git env vars on fetch: shallow",
            git.clone(),
            "initContainers/fetch/env/GIT_SHALLOW/value",
            value("true"),
        ),
        (
            "flux env vars: url",
            flux.clone(),
            "initContainers/fetch/env/FLUX_URL/value",
            value("http://flux/a"),
        ),
        (
            "flux env vars: digest",
            flux.clone(),
            "initContainers/fetch/env/FLUX_DIGEST/value",
            value("sha256:1"),
        ),
        (
            "flux env vars: folder",
            flux,
            "initContainers/fetch/env/FLUX_DIR/value",
            value("d"),
        ),
        (
            "local env",
            json!({ "local": { "dir": "/program" } }),
            "initContainers/fetch/env/LOCAL_DIR/value",
            value("/program"),
        ),
        (
            "projectInfo env",
            json!({ "projectInfo": { "name": "a", "runtime": "yaml" } }),
            "initContainers/fetch/env/PROJECT_NAME/value",
            value("a"),
        ),
        (
            "projectInfo: bootstrap only copies",
            json!({
                "projectInfo": { "name": "a", "runtime": "yaml" },
                "podTemplate": { "spec": { "initContainers": [{ "name": "bootstrap" }] } },
            }),
            "initContainers/bootstrap/command",
            json!(["/agent", "bootstrap", "-t", "/share"]),
        ),
        (
            "restricted: no escalation on pulumi",
            git.clone(),
            &format!("containers/pulumi/{escalation}"),
            json!(false),
        ),
        (
            "restricted: no escalation on fetch",
            git,
            &format!("initContainers/fetch/{escalation}"),
            json!(false),
        ),
    ]);
}

#[test]
fn pod_template_merge() {
    let mount = json!([{ "name": "test", "mountPath": "/test" }]);
    let template = json!({ "podTemplate": { "spec": {
        "initContainers": [{ "name": "test", "image": "i", "volumeMounts": mount }],
        "containers": [{ "name": "pulumi", "volumeMounts": mount }],
        "volumes": [{ "name": "test", "emptyDir": {} }],
    } } });
    let set = set(template).unwrap();
    let pod = &set["spec"]["template"]["spec"];
    let names = |path: &str| -> Vec<String> {
        let items = at(pod, path);
        let items = items.as_array().unwrap().iter();
        items
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names("initContainers"),
        ["bootstrap", "test"],
        "init bootstrap+test, base first"
    );
    let mut volumes = names("volumes");
    volumes.sort();
    assert_eq!(volumes, ["share", "test"]);
    assert_eq!(names("containers"), ["pulumi"], "one pulumi container");
    let mut mounts = names("containers/pulumi/volumeMounts");
    mounts.sort();
    assert_eq!(mounts, ["share", "test"], "both mounts");
}

#[test]
fn merge_order() {
    let template = json!({ "podTemplate": { "spec": { "containers": [
        { "name": "side", "image": "i" },
        { "name": "pulumi", "env": [{ "name": "MINE", "value": "1" }] },
    ] } } });
    let set = set(template).unwrap();
    let containers = &set["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["name"], "side", "extra container first");
    let pulumi = at(containers, "pulumi");
    assert_eq!(
        pulumi["env"][0]["name"], "MINE",
        "env merged with patch first"
    );
}

#[test]
fn log_level_flag_present_and_absent() {
    let words = |spec: Value| {
        at(
            &set(spec).unwrap()["spec"]["template"]["spec"],
            "containers/pulumi/command",
        )
    };
    let flag = json!("--pulumi-log-level");
    let has = |spec| words(spec).as_array().unwrap().contains(&flag);
    assert!(has(json!({ "pulumiLogLevel": 3 })));
    assert!(!has(json!({ "pulumiLogLevel": 0 })) && !has(json!({})));
}

/// Config marshalling: we reject by field what upstream rejects while it initializes a stack.
#[test]
fn invalid_config_is_rejected() {
    let with = |item: Value| set(json!({ "stacks": [{ "name": "dev", "config": [item] }] }));
    for (scenario, item) in [
        ("string", json!({ "key": "k", "value": "a" })),
        ("number", json!({ "key": "k", "value": 1 })),
        ("bool", json!({ "key": "k", "value": true })),
        ("object", json!({ "key": "k", "value": { "a": 1 } })),
        ("array", json!({ "key": "k", "value": [1] })),
        (
            "secret",
            json!({ "key": "k", "value": "a", "secret": true }),
        ),
        (
            "path+string ok",
            json!({ "key": "k.a", "value": "a", "path": true }),
        ),
        (
            "valueFrom env",
            json!({ "key": "k", "valueFrom": { "env": "A" } }),
        ),
        (
            "valueFrom path",
            json!({ "key": "k", "valueFrom": { "path": "/a" } }),
        ),
        (
            "valueFrom json",
            json!({ "key": "k", "valueFrom": { "env": "A", "json": true } }),
        ),
    ] {
        assert!(with(item).is_ok(), "{scenario}");
    }
    for (scenario, value) in [
        ("path+object", json!({})),
        ("path+array", json!([])),
        ("path+number", json!(1)),
        ("path+bool", json!(true)),
    ] {
        let invalid = with(json!({ "key": "k", "value": value, "path": true })).unwrap_err();
        assert_eq!(invalid.field, "spec.stacks[0].config[0]", "{scenario}");
        let text = "path=true is incompatible with structured values (objects, arrays, etc.) for key \"k\"";
        assert_eq!(invalid.problem, text, "{scenario}");
    }
    for item in [
        json!({ "key": "k" }),
        json!({ "key": "k", "valueFrom": {} }),
    ] {
        assert!(
            with(item)
                .unwrap_err()
                .problem
                .contains("invalid config value")
        );
    }
}
