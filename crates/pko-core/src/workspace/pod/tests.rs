use pko_api::Workspace;
use serde_json::{Value, json};

use super::*;

fn settings() -> AgentSettings {
    AgentSettings {
        agent_image: "agent:1".to_owned(),
        agent_image_pull_policy: "IfNotPresent".to_owned(),
        max_untar_size: None,
        manager_public_key: "PUBLIC".to_owned(),
        restrictions: PodRestrictions::default(),
    }
}

fn workspace(spec: impl Into<Value>) -> Workspace {
    let spec: Value = spec.into();
    serde_json::from_value(json!({
        "metadata": {"name": "demo", "namespace": "team", "uid": "u-1", "generation": 3},
        "spec": spec,
    }))
    .unwrap()
}

fn pod(spec: Value) -> Value {
    let set = stateful_set(&workspace(spec), &settings()).unwrap();
    set["spec"]["template"].clone()
}

fn invalid(spec: Value) -> String {
    stateful_set(&workspace(spec), &settings())
        .unwrap_err()
        .to_string()
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let items = list.as_array().unwrap();
    items
        .iter()
        .find(|item| item["name"] == name)
        .unwrap_or(&Value::Null)
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(container_name)
        .collect()
}

fn pulumi(pod: &Value) -> &Value {
    named(&pod["spec"]["containers"], "pulumi")
}

fn fetch(pod: &Value) -> &Value {
    named(&pod["spec"]["initContainers"], "fetch")
}

/// The arguments of `agent init` for the source, without the one for copying the agent.
fn source_arguments(pod: &Value) -> Value {
    let mut arguments = fetch(pod)["args"].as_array().unwrap().clone();
    let copy = arguments.split_off(arguments.len() - 2);
    assert_eq!(copy, ["--bootstrap-dir", "/share"]);
    arguments.into()
}

#[test]
fn child_names_are_those_of_upstream() {
    let workspace = workspace(json!({}));
    assert_eq!(child_name(&workspace), "demo-workspace");
    assert_eq!(pod_name(&workspace), "demo-workspace-0");
    assert_eq!(address(&workspace), "demo-workspace.team:50051");
    assert_eq!(audience(&workspace), "demo.team");
}

#[test]
fn service_is_headless_and_selects_the_pod() {
    let service = service(&workspace(json!({})));
    assert_eq!(service["spec"]["clusterIP"], "None");
    let labels = json!({
        "auto.pulumi.com/component": "workspace",
        "auto.pulumi.com/workspace-name": "demo",
    });
    assert_eq!(service["spec"]["selector"], labels);
    assert_eq!(service["metadata"]["labels"], labels);
    assert_eq!(service["metadata"]["annotations"], Value::Null);
    let port = json!([{"name": "grpc", "port": 50051, "targetPort": 50051, "protocol": "TCP"}]);
    assert_eq!(service["spec"]["ports"], port);
    let owner = &service["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["uid"], &owner["controller"]),
        (&json!("u-1"), &json!(true))
    );
}

#[test]
fn service_labels_of_the_operator_win() {
    let template = json!({"metadata": {
        "labels": {"team": "a", "auto.pulumi.com/component": "other"},
        "annotations": {"mesh": "off"},
    }});
    let service = service(&workspace(json!({"serviceTemplate": template})));
    let labels = &service["metadata"]["labels"];
    assert_eq!(labels["team"], "a");
    assert_eq!(labels["auto.pulumi.com/component"], "workspace");
    assert_eq!(service["metadata"]["annotations"], json!({"mesh": "off"}));
    assert_eq!(service["spec"]["selector"]["team"], Value::Null);
}

#[test]
fn statefulset_has_one_pod() {
    let set = stateful_set(&workspace(json!({})), &settings()).unwrap();
    let spec = &set["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["serviceName"], "demo-workspace");
    assert_eq!(spec["podManagementPolicy"], "Parallel");
    assert_eq!(
        spec["selector"]["matchLabels"],
        spec["template"]["metadata"]["labels"]
    );
    assert_eq!(
        spec["template"]["spec"]["terminationGracePeriodSeconds"],
        600
    );
    assert_eq!(spec["template"]["spec"]["serviceAccountName"], "default");
    assert_eq!(
        spec["template"]["spec"]["volumes"],
        json!([{"name": "share", "emptyDir": {}}])
    );
}

#[test]
fn agent_command_line_has_its_flags() {
    let pod = pod(json!({"pulumiLogLevel": 9}));
    let command: Vec<&str> = pulumi(&pod)["command"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    assert_eq!(
        command.join(" "),
        "/share/agent -- serve --workspace /share/workspace --skip-install --env-file /share/.env \
         --auth-mode manager --kube-audience demo.team --kube-workspace-namespace team \
         --kube-workspace-name demo --pulumi-log-level 9"
    );
    assert_eq!(pulumi(&pod)["workingDir"], "/share/workspace");
    let bootstrap = named(&pod["spec"]["initContainers"], "bootstrap");
    assert_eq!(
        bootstrap["command"],
        json!(["/agent", "bootstrap", "-t", "/share"])
    );
    assert_eq!(bootstrap["image"], "agent:1");
}

#[test]
fn init_container_copies_the_agent_and_fetches_the_program() {
    let local = json!({"local": {"dir": "/program"}});
    let pod_of = |change: &dyn Fn(&mut Value)| {
        let mut spec = local.clone();
        change(&mut spec);
        pod(spec)
    };
    let one = pod_of(&|_| {});
    assert_eq!(names(&one["spec"]["initContainers"]), ["fetch"]);
    assert_eq!(fetch(&one)["command"], json!(["/agent"]));
    let arguments = fetch(&one)["args"].as_array().unwrap().clone();
    assert_eq!(arguments[0], "init");
    assert!(arguments.ends_with(&[json!("--bootstrap-dir"), json!("/share")]));

    // A user's template may refer to one of upstream's containers.
    for name in ["bootstrap", "fetch"] {
        let template = json!({"spec": {"initContainers": [{"name": name, "image": "mine"}]}});
        let two = pod_of(&|spec| spec["podTemplate"] = template.clone());
        let init = &two["spec"]["initContainers"];
        assert_eq!(names(init), ["bootstrap", "fetch"], "{name}");
        assert_eq!(fetch(&two)["command"], json!(["/share/agent"]));
        assert_eq!(
            fetch(&two)["args"].to_string().find("--bootstrap-dir"),
            None
        );
        assert_eq!(named(init, name)["image"], "mine");
    }
}

#[test]
fn security_profile_decides_the_contexts() {
    let restricted = pod(json!({}));
    assert_eq!(pulumi(&restricted)["image"], "pulumi/pulumi:latest-nonroot");
    let context = &restricted["spec"]["securityContext"];
    assert_eq!(context["runAsNonRoot"], true);
    assert_eq!(context["runAsUser"], 1000);
    for container in ["containers", "initContainers"] {
        for container in restricted["spec"][container].as_array().unwrap() {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false);
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
        }
    }
    let baseline = pod(json!({"securityProfile": "baseline"}));
    assert_eq!(pulumi(&baseline)["image"], "pulumi/pulumi:latest");
    assert_eq!(pulumi(&baseline)["securityContext"], Value::Null);
    let context = json!({"seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(baseline["spec"]["securityContext"], context);
    for profile in ["baseline", "restricted"] {
        let pod =
            pod(json!({"securityProfile": profile, "image": "own:1", "imagePullPolicy": "Never"}));
        assert_eq!(pulumi(&pod)["image"], "own:1");
        assert_eq!(pulumi(&pod)["imagePullPolicy"], "Never");
    }
}

#[test]
fn resource_requests_have_a_default() {
    let default = pod(json!({}));
    assert_eq!(
        pulumi(&default)["resources"]["requests"],
        json!({"memory": "64Mi", "cpu": "100m"})
    );
    let limited = pod(json!({"resources": {"limits": {"memory": "1Gi"}}}));
    let resources =
        json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "64Mi", "cpu": "100m"}});
    assert_eq!(pulumi(&limited)["resources"], resources);
    let own = pod(json!({"resources": {"requests": {"cpu": "1"}}}));
    assert_eq!(pulumi(&own)["resources"], json!({"requests": {"cpu": "1"}}));
}

#[test]
fn environment_is_the_users_then_the_operators() {
    let pod = pod(json!({
        "env": [{"name": "A", "value": "1"}],
        "envFrom": [{"secretRef": {"name": "s"}}],
        "serviceAccountName": "runner",
    }));
    assert_eq!(
        names(&pulumi(&pod)["env"]),
        [
            "A",
            "POD_NAMESPACE",
            "POD_SA_NAME",
            "PKO_MANAGER_PUBLIC_KEY",
            "PULUMI_ENV",
            "PKO_SECRET_VARIABLES"
        ]
    );
    assert_eq!(
        pulumi(&pod)["envFrom"],
        json!([{"secretRef": {"name": "s"}}])
    );
    assert_eq!(pod["spec"]["serviceAccountName"], "runner");
    let field = &named(&pulumi(&pod)["env"], "POD_SA_NAME")["valueFrom"]["fieldRef"]["fieldPath"];
    assert_eq!(field, "spec.serviceAccountName");
}

#[test]
fn git_url_with_credentials_is_not_in_the_arguments() {
    let arguments = |url: &str| {
        let pod = pod(json!({"git": {"url": url, "ref": "abc"}}));
        assert_eq!(named(&fetch(&pod)["env"], "GIT_URL")["value"], url);
        source_arguments(&pod).to_string()
    };
    let hidden = arguments("https://me:canary@git.test/a");
    assert!(
        hidden.contains("env:GIT_URL") && !hidden.contains("$(GIT_URL)"),
        "{hidden}"
    );
    assert!(arguments("https://git.test/a").contains("$(GIT_URL)"));
}

#[test]
fn git_source_with_every_credential() {
    let key = |key: &str| json!({"name": "auth", "key": key});
    let pod = pod(json!({"git": {
        "url": "https://example.com/a.git", "ref": "abc", "dir": "infra", "shallow": true,
        "auth": {
            "knownHosts": key("h"), "sshPrivateKey": key("k"), "username": key("u"), "password": key("p"), "token": key("t"),
            "githubApp": {"appID": key("a"), "installationID": key("i"), "privateKey": key("g")},
        },
    }}));
    let fetch = fetch(&pod);
    assert_eq!(
        names(&fetch["env"]),
        [
            "GIT_URL",
            "GIT_REVISION",
            "GIT_DIR",
            "GIT_SHALLOW",
            "GIT_SSH_PRIVATE_KEY",
            "GIT_USERNAME",
            "GIT_PASSWORD",
            "GIT_TOKEN",
            "GIT_GITHUB_APP_ID",
            "GIT_GITHUB_APP_INSTALLATION_ID",
            "GIT_GITHUB_APP_PRIVATE_KEY",
            "GIT_KNOWN_HOSTS",
            "PULUMI_ENV",
            "PKO_SECRET_VARIABLES",
        ]
    );
    assert_eq!(named(&fetch["env"], "GIT_REVISION")["value"], "abc");
    assert_eq!(
        named(&fetch["env"], "GIT_TOKEN")["valueFrom"]["secretKeyRef"],
        key("t")
    );
    assert_eq!(
        source_arguments(&pod),
        json!([
            "init",
            "-t",
            "/share/source",
            "--git-url",
            "$(GIT_URL)",
            "--git-revision",
            "$(GIT_REVISION)",
            "--workspace-link",
            "/share/workspace",
            "--source-dir",
            "$(GIT_DIR)",
        ])
    );
}

#[test]
fn other_sources_have_their_arguments() {
    let flux = json!({"flux": {"url": "http://x/a.tar.gz", "digest": "sha256:00"}});
    let pod_of = |settings: &AgentSettings| {
        stateful_set(&workspace(flux.clone()), settings).unwrap()["spec"]["template"].clone()
    };
    let limit = AgentSettings {
        max_untar_size: Some("7".to_owned()),
        ..settings()
    };
    assert_eq!(
        names(&fetch(&pod_of(&settings()))["env"]),
        ["FLUX_URL", "FLUX_DIGEST", "FLUX_DIR", "PULUMI_ENV"]
    );
    assert_eq!(
        named(&fetch(&pod_of(&limit))["env"], "FLUX_MAX_UNTAR_SIZE_BYTES")["value"],
        "7"
    );
    let local = pod(json!({"local": {"dir": "/program"}}));
    assert_eq!(
        source_arguments(&local),
        json!([
            "init",
            "--local-dir",
            "$(LOCAL_DIR)",
            "--workspace-link",
            "/share/workspace"
        ])
    );
    let project = pod(json!({"projectInfo": {"name": "p", "runtime": "yaml"}}));
    assert_eq!(
        source_arguments(&project),
        json!([
            "init",
            "-t",
            "/share/workspace",
            "--project-name",
            "$(PROJECT_NAME)",
            "--project-runtime",
            "$(PROJECT_RUNTIME)",
        ])
    );
    let none = pod(json!({}));
    assert_eq!(names(&none["spec"]["initContainers"]), ["bootstrap"]);
}

#[test]
fn pod_template_is_merged() {
    let pod = pod(json!({
        "local": {"dir": "/program"},
        "podTemplate": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"b": "c"}},
            "spec": {
                "initContainers": [
                    {"name": "extra", "image": "x"},
                    {"name": "fetch", "env": [{"name": "SSH_KNOWN_HOSTS", "value": "/k"}]},
                ],
                "containers": [
                    {"name": "side", "image": "y"},
                    {"name": "pulumi", "volumeMounts": [{"mountPath": "/test", "name": "test"}]},
                ],
                "volumes": [{"name": "test", "emptyDir": {}}],
            },
        },
    }));
    let spec = &pod["spec"];
    assert_eq!(
        names(&spec["initContainers"]),
        ["bootstrap", "fetch", "extra"]
    );
    assert_eq!(names(&spec["containers"]), ["side", "pulumi"]);
    assert_eq!(names(&spec["volumes"]), ["test", "share"]);
    assert_eq!(names(&pulumi(&pod)["volumeMounts"]), ["test", "share"]);
    assert_eq!(
        names(&fetch(&pod)["env"]),
        ["SSH_KNOWN_HOSTS", "LOCAL_DIR", "PULUMI_ENV"]
    );
    assert_eq!(pod["metadata"]["labels"]["team"], "a");
    assert_eq!(pod["metadata"]["annotations"]["b"], "c");
}

#[test]
fn pod_template_containers_get_the_share_by_default() {
    let own = json!({"runAsUser": 7});
    let pod = pod(json!({
        "initContainers": [{"name": "first", "image": "x"}],
        "podTemplate": {"spec": {
            "initContainers": [{
                "name": "second",
                "securityContext": own,
                "env": [{"name": "PULUMI_ENV", "value": "/other"}],
                "volumeMounts": [{"mountPath": "/elsewhere", "name": "share"}],
            }],
            "containers": [{"name": "side"}],
        }},
    }));
    let init = &pod["spec"]["initContainers"];
    assert_eq!(names(init), ["bootstrap", "first", "second"]);
    let first = named(init, "first");
    assert_eq!(
        first["volumeMounts"],
        json!([{"name": "share", "mountPath": "/share"}])
    );
    assert_eq!(named(&first["env"], "PULUMI_ENV")["value"], "/share/.env");
    assert_eq!(first["securityContext"]["allowPrivilegeEscalation"], false);
    let second = named(init, "second");
    assert_eq!(second["volumeMounts"][0]["mountPath"], "/elsewhere");
    assert_eq!(named(&second["env"], "PULUMI_ENV")["value"], "/other");
    assert_eq!(second["securityContext"], own);
    let side = named(&pod["spec"]["containers"], "side");
    assert_eq!(
        side["volumeMounts"],
        Value::Null,
        "a side car is left to itself"
    );
    assert_eq!(side["securityContext"]["allowPrivilegeEscalation"], false);
}

#[test]
fn pod_template_with_metadata_alone_is_accepted() {
    let pod = pod(json!({"podTemplate": {"metadata": {"labels": {"a": "b"}}}}));
    assert_eq!(pod["metadata"]["labels"]["a"], "b");
    assert_eq!(names(&pod["spec"]["containers"]), ["pulumi"]);
}

#[test]
fn invalid_spec_names_the_field() {
    let git = json!({"url": "https://example.com/a", "ref": "abc"});
    let table = [
        (
            json!({"git": git, "local": {"dir": "/x"}}),
            "spec.git and spec.local: a workspace has one source; remove all but one",
        ),
        (
            json!({"git": {"url": "https://example.com/a"}}),
            "spec.git.ref: it is missing",
        ),
        (
            json!({"flux": {"url": "", "digest": "x"}}),
            "spec.flux.url: it is missing",
        ),
        (json!({"local": {}}), "spec.local.dir: it is missing"),
        (
            json!({"git": {"url": "https://example.com/a", "ref": "abc", "dir": "a/../../b"}}),
            "spec.git.dir: `a/../../b` leads out of the source",
        ),
        (
            json!({"securityProfile": "tight"}),
            "spec.securityProfile: `tight` is neither `baseline` nor `restricted`",
        ),
        (
            json!({"env": [{"name": "A"}, {"name": "POD_NAMESPACE"}]}),
            "spec.env[1]: the variable `POD_NAMESPACE` is set by the operator; give yours another name",
        ),
        (
            json!({"podTemplate": {"spec": {"containers": [
                {"name": "pulumi", "env": [{"name": "PULUMI_ENV", "value": "x"}]},
            ]}}}),
            "spec.podTemplate.spec.containers[name=pulumi].env: the variable `PULUMI_ENV` is set by the \
             operator; give yours another name",
        ),
        (
            json!({"podTemplate": {"metadata": {"labels": {"auto.pulumi.com/component": "x"}}}}),
            "spec.podTemplate.metadata.labels: the label `auto.pulumi.com/component` is the operator's own; \
             remove it",
        ),
        (
            json!({"podTemplate": {"spec": {"containers": [{"image": "x"}]}}}),
            "spec.podTemplate: spec.containers: an item lacks the merge key `name`; add it",
        ),
        (
            json!({"podTemplate": {"spec": {"containers": [
                {"name": "pulumi", "volumeMounts": [{"name": "gone", "mountPath": "/x"}]},
            ]}}}),
            "spec.podTemplate.spec.containers[name=pulumi].volumeMounts: there is no volume `gone`; add it to \
             spec.podTemplate.spec.volumes",
        ),
        (
            json!({"initContainers": [{"name": "bootstrap"}]}),
            "spec: an init container with the name `bootstrap` occurs twice; rename one",
        ),
    ];
    for (spec, message) in table {
        assert_eq!(invalid(spec), message);
    }
}

#[test]
fn revision_changes_only_with_the_source() {
    let git = |reference: &str| json!({"git": {"url": "https://example.com/a", "ref": reference}});
    let hash = |spec: Value| revision_hash(&workspace(spec));
    let mut configured = git("abc");
    configured["stacks"] = json!([{"name": "dev", "config": [{"key": "a", "value": "b"}]}]);
    assert_eq!(hash(git("abc")), hash(configured));
    assert_ne!(hash(git("abc")), hash(git("abd")));
    assert_ne!(hash(git("abc")), hash(json!({"local": {"dir": "abc"}})));
    let annotation = &pod(git("abc"))["metadata"]["annotations"]["auto.pulumi.com/revision-hash"];
    assert_eq!(annotation, &hash(git("abc")));
}
