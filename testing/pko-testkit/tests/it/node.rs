//! The fake node with pods like those of workspaces: a StatefulSet in the operator's shape, the
//! real controllers, and the real agent.

use std::net::TcpStream;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pko_testkit::node::{NodeSettings, USER};
use pko_testkit::{ControlPlane, FakeNode, TestNamespace, eventually, with_namespace};
use serde_json::{Value, json};

const POD: &str = "demo-workspace-0";

/// A program of this workspace, in `$PKO_BIN_DIR` or in cargo's target folder.
fn program(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_pulumi-stand-in")).with_file_name(name);
    let path =
        std::env::var_os("PKO_BIN_DIR").map_or(built, |folder| PathBuf::from(folder).join(name));
    assert!(
        path.is_file(),
        "{} is not there: `cargo xtask test` builds it",
        path.display()
    );
    path
}

fn start(plane: &ControlPlane, namespace: &TestNamespace) -> FakeNode {
    let settings = NodeSettings {
        agent: program("agent"),
        environment: vec![("CHOSEN".to_owned(), "by the test".to_owned())],
        namespace: Some(namespace.name().to_owned()),
    };
    FakeNode::start(plane, settings).unwrap()
}

/// In the operator's shape, but without authentication.
fn stateful_set() -> Value {
    let labels = json!({
        "auto.pulumi.com/component": "workspace",
        "auto.pulumi.com/workspace-name": "demo",
    });
    let share = json!({ "name": "share", "mountPath": "/share" });
    let pod = json!({
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 600,
        "initContainers": [
            {
                "name": "bootstrap", "image": "agent:1", "volumeMounts": [share],
                "command": ["/agent", "bootstrap", "-t", "/share"],
            },
            {
                "name": "fetch", "image": "agent:1", "volumeMounts": [share],
                "command": ["/share/agent"],
                "args": [
                    "init", "-t", "/share/workspace", "--project-name", "$(PROJECT_NAME)",
                    "--project-runtime", "$(PROJECT_RUNTIME)",
                ],
                "env": [
                    { "name": "PROJECT_NAME", "value": "demo" },
                    { "name": "PROJECT_RUNTIME", "value": "yaml" },
                ],
            },
        ],
        "containers": [{
            "name": "pulumi", "image": "pulumi:1", "volumeMounts": [share],
            "command": [
                "/share/agent", "--", "serve", "--workspace", "/share/workspace", "--skip-install",
                "--env-file", "/share/.env", "--auth-mode", "none",
            ],
            "workingDir": "/share/workspace",
        }],
        "volumes": [{ "name": "share", "emptyDir": {} }],
    });
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "demo-workspace" },
        "spec": {
            "serviceName": "demo-workspace", "replicas": 1, "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    })
}

/// A further init container of the user.
fn with_init_container(container: Value) -> Value {
    let mut set = stateful_set();
    let containers = &mut set["spec"]["template"]["spec"]["initContainers"];
    containers.as_array_mut().unwrap().push(container);
    set
}

/// Waits until a function of the pod's JSON returns a value.
async fn pod_has<T>(
    namespace: &TestNamespace,
    what: &str,
    part: impl Fn(&Value) -> Option<T>,
) -> T {
    let pods: Api<Pod> = namespace.api();
    eventually(what, async || {
        let pod = pods.get(POD).await.map_err(|error| error.to_string())?;
        let pod = serde_json::to_value(pod).unwrap();
        part(&pod).ok_or_else(|| pod["status"].to_string())
    })
    .await
    .unwrap()
}

async fn ready_pod(namespace: &TestNamespace) -> Value {
    pod_has(namespace, "the pod to be ready", |pod| {
        (condition(pod, "Ready")? == "True" && pod["metadata"]["deletionTimestamp"].is_null())
            .then(|| pod.clone())
    })
    .await
}

fn condition(pod: &Value, kind: &str) -> Option<String> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|it| it["type"] == kind)?;
    Some(found["status"].as_str()?.to_owned())
}

fn init_container<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let containers = pod["status"]["initContainerStatuses"].as_array()?;
    containers.iter().find(|it| it["name"] == name)
}

async fn agent_answers(pod: &Value) {
    let address = format!("{}:50051", pod["status"]["podIP"].as_str().unwrap());
    eventually("the agent to answer", async || {
        TcpStream::connect(&address).map(drop)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn stateful_set_pod_becomes_ready_and_agent_answers() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let node = start(&plane, namespace);
        namespace.create_object(stateful_set()).await.unwrap();
        let pod = ready_pod(namespace).await;
        assert_eq!(pod["spec"]["nodeName"], node.name());
        let status = &pod["status"];
        assert_eq!(status["phase"], "Running");
        for kind in ["PodScheduled", "Initialized", "ContainersReady"] {
            assert_eq!(condition(&pod, kind).as_deref(), Some("True"), "{kind}");
        }
        let container = &status["containerStatuses"][0];
        assert_eq!(
            (
                &container["ready"],
                &container["started"],
                &container["restartCount"]
            ),
            (&json!(true), &json!(true), &json!(0))
        );
        for name in ["bootstrap", "fetch"] {
            let end = &init_container(&pod, name).unwrap()["state"]["terminated"];
            assert_eq!(
                (&end["exitCode"], &end["reason"]),
                (&json!(0), &json!("Completed"))
            );
            assert!(end["startedAt"].is_string() && end["finishedAt"].is_string());
        }
        agent_answers(&pod).await;
        let key = format!("{}/{POD}", namespace.name());
        assert_eq!(node.pods_started().get(&key), Some(&1));
        let requests = plane
            .requests_since(pko_testkit::audit::AuditPosition::START)
            .await
            .unwrap();
        assert!(requests.count(USER, "create", "pods/binding") >= 1);
    })
    .await;
}

#[tokio::test]
async fn container_gets_variables_and_mounts() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let node = start(&plane, namespace);
        let objects = [
            json!({"kind": "Secret", "metadata": {"name": "secret"}, "stringData": {"KEY": "hush"}}),
            json!({"kind": "ConfigMap", "metadata": {"name": "map"}, "data": {"KEY": "loud"}}),
        ];
        for mut object in objects {
            object["apiVersion"] = "v1".into();
            namespace.create_object(object).await.unwrap();
        }
        let script = "echo $1 $FROM_SECRET $FROM_MAP $ALL_KEY $POD $CHOSEN; \
                      cat /secret/KEY /map/renamed; echo $TWICE >/share/.env; pwd";
        let mut set = with_init_container(json!({
            "name": "user", "image": "alpine", "workingDir": "/share/made",
            "command": ["sh", "-c", script, "sh"], "args": ["$(FROM_SECRET)-$(NOWHERE)"],
            "envFrom": [{ "prefix": "ALL_", "configMapRef": { "name": "map" } }],
            "env": [
                { "name": "FROM_SECRET", "valueFrom": { "secretKeyRef": { "name": "secret", "key": "KEY" } } },
                { "name": "FROM_MAP", "valueFrom": { "configMapKeyRef": { "name": "map", "key": "KEY" } } },
                { "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                { "name": "TWICE", "value": "A=$(FROM_MAP)" },
            ],
            "volumeMounts": [
                { "name": "share", "mountPath": "/share" },
                { "name": "secret", "mountPath": "/secret" },
                { "name": "map", "mountPath": "/map" },
            ],
        }));
        let volumes = &mut set["spec"]["template"]["spec"]["volumes"];
        volumes.as_array_mut().unwrap().extend([
            json!({ "name": "secret", "secret": { "secretName": "secret" } }),
            json!({ "name": "map", "configMap": {
                "name": "map", "items": [{ "key": "KEY", "path": "renamed" }],
            }}),
        ]);
        namespace.create_object(set).await.unwrap();
        ready_pod(namespace).await;
        let log = node.log(namespace.name(), POD, "user");
        let expected = format!("hush-$(NOWHERE) hush loud loud {POD} by the test\nhushloud");
        assert!(log.starts_with(&expected), "{log}");
        assert!(log.trim_end().ends_with("volumes/share/made"), "{log}");
    })
    .await;
}

#[tokio::test]
async fn failed_init_container_is_reported_with_log_tail() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let node = start(&plane, namespace);
        // Fails until its folder has a file that a former run left there: an emptyDir outlives runs
        let script =
            "echo no such branch >&2; test -e /share/tried || { touch /share/tried; exit 7; }";
        let set = with_init_container(json!({
            "name": "user", "image": "alpine", "command": ["sh", "-c", script],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [{ "name": "share", "mountPath": "/share" }],
        }));
        namespace.create_object(set).await.unwrap();
        let pod = ready_pod(namespace).await;
        let container = init_container(&pod, "user").unwrap();
        let end = &container["lastState"]["terminated"];
        assert_eq!(
            (&end["exitCode"], &end["reason"], &end["message"]),
            (&json!(7), &json!("Error"), &json!("no such branch\n"))
        );
        assert_eq!(container["restartCount"], 1);
        assert_eq!(container["state"]["terminated"]["exitCode"], 0);
        let log = node.log(namespace.name(), POD, "user");
        assert_eq!(
            log, "no such branch\nno such branch\n",
            "both runs are there"
        );
    })
    .await;
}

#[tokio::test]
async fn failing_init_container_enters_crash_loop() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let _node = start(&plane, namespace);
        let set = with_init_container(json!({
            "name": "user", "image": "alpine", "command": ["false"],
        }));
        namespace.create_object(set).await.unwrap();
        let pod = pod_has(namespace, "a second failure", |pod| {
            let container = init_container(pod, "user")?;
            let waits = container["state"]["waiting"]["reason"] == "CrashLoopBackOff";
            (waits && container["restartCount"].as_u64()? >= 1).then(|| pod.clone())
        })
        .await;
        let container = init_container(&pod, "user").unwrap();
        assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
        let message = container["state"]["waiting"]["message"].as_str().unwrap();
        let expected = "restarting failed container=user pod=demo-workspace-0_";
        assert!(message.contains(expected), "{message}");
        assert_eq!(pod["status"]["phase"], "Pending");
        assert_eq!(condition(&pod, "Initialized").as_deref(), Some("False"));
        let pulumi = &pod["status"]["containerStatuses"][0];
        assert_eq!(pulumi["state"]["waiting"]["reason"], "PodInitializing");
    })
    .await;
}

#[tokio::test]
async fn container_waits_for_missing_secret() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let _node = start(&plane, namespace);
        let mut set = stateful_set();
        set["spec"]["template"]["spec"]["containers"][0]["env"] = json!([
            { "name": "A", "valueFrom": { "secretKeyRef": { "name": "late", "key": "token" } } },
        ]);
        namespace.create_object(set).await.unwrap();
        let message = |expected: &'static str| {
            pod_has(namespace, expected, move |pod| {
                let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
                let is_it = waiting["reason"] == "CreateContainerConfigError"
                    && waiting["message"].as_str()?.starts_with(expected);
                is_it.then_some(())
            })
        };
        message("secret \"late\" not found").await;
        let secret = |data: Value| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "late" },
                "stringData": data,
            })
        };
        namespace
            .create_object(secret(json!({ "other": "x" })))
            .await
            .unwrap();
        message("couldn't find key token in Secret ").await;
        let secrets = namespace.api_of(&secret(json!({}))).await.unwrap();
        let patch = Patch::Merge(json!({ "stringData": { "token": "x" } }));
        secrets
            .patch("late", &PatchParams::default(), &patch)
            .await
            .unwrap();
        ready_pod(namespace).await;
    })
    .await;
}

#[tokio::test]
async fn broken_image_is_not_pulled_until_restored() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let node = start(&plane, namespace);
        node.break_image("pulumi:1");
        namespace.create_object(stateful_set()).await.unwrap();
        let waiting = pod_has(namespace, "the image to be missed", |pod| {
            let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
            (waiting["reason"] == "ImagePullBackOff").then(|| waiting.clone())
        })
        .await;
        let message = waiting["message"].as_str().unwrap();
        let expected = "Back-off pulling image \"pulumi:1\": ErrImagePull: ";
        assert!(message.starts_with(expected), "{message}");
        node.restore_image("pulumi:1");
        agent_answers(&ready_pod(namespace).await).await;
    })
    .await;
}

#[tokio::test]
async fn image_without_local_program_is_not_found() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let _node = start(&plane, namespace);
        let set = with_init_container(json!({
            "name": "user", "image": "example.com/tool", "command": ["/no/such/tool"],
        }));
        namespace.create_object(set).await.unwrap();
        let reason = pod_has(namespace, "the image to be missed", |pod| {
            let reason = &init_container(pod, "user")?["state"]["waiting"]["reason"];
            reason
                .as_str()
                .filter(|it| it.contains("Image"))
                .map(str::to_owned)
        })
        .await;
        assert!(
            ["ErrImagePull", "ImagePullBackOff"].contains(&&*reason),
            "{reason}"
        );
    })
    .await;
}

#[tokio::test]
async fn unschedulable_pod_waits_for_node() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let node = start(&plane, namespace);
        node.set_unschedulable(true);
        namespace.create_object(stateful_set()).await.unwrap();
        let scheduled = pod_has(namespace, "the scheduler's word", |pod| {
            let conditions = pod["status"]["conditions"].as_array()?;
            conditions
                .iter()
                .find(|it| it["type"] == "PodScheduled")
                .cloned()
        })
        .await;
        assert_eq!(
            (&scheduled["status"], &scheduled["reason"]),
            (&json!("False"), &json!("Unschedulable"))
        );
        let message = scheduled["message"].as_str().unwrap();
        assert!(message.starts_with("0/1 nodes are available"), "{message}");
        assert!(node.processes().is_empty());
        node.set_unschedulable(false);
        ready_pod(namespace).await;
    })
    .await;
}

#[tokio::test]
async fn killed_agent_is_restarted_in_same_pod() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let node = start(&plane, namespace);
        namespace.create_object(stateful_set()).await.unwrap();
        let first = ready_pod(namespace).await;
        let again = async |restarts: i64| {
            pod_has(namespace, "the agent to run again", |pod| {
                let container = &pod["status"]["containerStatuses"][0];
                let again = container["restartCount"] == restarts && container["ready"] == true;
                again.then(|| pod.clone())
            })
            .await
        };
        let ends = [
            ("Error", node.kill(namespace.name(), POD)),
            ("OOMKilled", false),
        ];
        for (number, (reason, killed)) in (1..).zip(ends) {
            assert!(killed || node.kill_out_of_memory(namespace.name(), POD));
            let pod = again(number).await;
            let end = &pod["status"]["containerStatuses"][0]["lastState"]["terminated"];
            assert_eq!(
                (&end["exitCode"], &end["reason"]),
                (&json!(137), &json!(reason))
            );
            assert_eq!(pod["metadata"]["uid"], first["metadata"]["uid"]);
            assert_eq!(pod["status"]["podIP"], first["status"]["podIP"]);
            agent_answers(&pod).await;
        }
        assert!(!node.kill(namespace.name(), "another"));
    })
    .await;
}

#[tokio::test]
async fn deleted_pod_is_replaced() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let node = start(&plane, namespace);
        namespace.create_object(stateful_set()).await.unwrap();
        let first = ready_pod(namespace).await;
        let agent = node.agent(namespace.name(), POD).unwrap();
        let pods: Api<Pod> = namespace.api();

        // While the node is paused, the pod and its agent stay
        node.pause();
        pods.delete(POD, &DeleteParams::default()).await.unwrap();
        let pod = pods.get(POD).await.unwrap();
        assert!(pod.metadata.deletion_timestamp.is_some());
        assert!(node.processes().contains(&agent));

        node.resume();
        let second = pod_has(namespace, "another pod to be ready", |pod| {
            let another = pod["metadata"]["uid"] != first["metadata"]["uid"];
            (another && condition(pod, "Ready")? == "True").then(|| pod.clone())
        })
        .await;
        assert_ne!(second["status"]["podIP"], first["status"]["podIP"]);
        agent_answers(&second).await;
        assert!(!node.processes().contains(&agent));
        let key = format!("{}/{POD}", namespace.name());
        assert_eq!(node.pods_started().get(&key), Some(&2));
    })
    .await;
}

#[tokio::test]
async fn node_survives_api_server_outage() {
    let plane = ControlPlane::builder()
        .controller_manager(true)
        .start()
        .await
        .unwrap();
    with_namespace(&plane, async |namespace| {
        let node = start(&plane, namespace);
        namespace.create_object(stateful_set()).await.unwrap();
        let first = ready_pod(namespace).await;
        plane.stop_api_server().unwrap();
        // A change to report while the API server is down
        assert!(node.kill(namespace.name(), POD));
        plane.start_api_server().await.unwrap();
        let pod = pod_has(namespace, "the agent to run again", |pod| {
            let container = &pod["status"]["containerStatuses"][0];
            let again = container["restartCount"] == 1 && container["ready"] == true;
            again.then(|| pod.clone())
        })
        .await;
        assert_eq!(pod["metadata"]["uid"], first["metadata"]["uid"]);

        let pods: Api<Pod> = namespace.api();
        pods.delete(POD, &DeleteParams::default()).await.unwrap();
        pod_has(namespace, "another pod to be ready", |pod| {
            let another = pod["metadata"]["uid"] != first["metadata"]["uid"];
            (another && condition(pod, "Ready")? == "True").then_some(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn node_drop_leaves_no_process_and_no_folder() {
    let plane = ControlPlane::shared_with_controllers().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let node = start(&plane, namespace);
        // In a session of its own, and deaf
        let script = "trap '' TERM HUP; setsid sh -c \"trap '' TERM HUP; sleep 1000\" & wait";
        let set = with_init_container(json!({
            "name": "user", "image": "alpine", "command": ["sh", "-c", script],
        }));
        namespace.create_object(set).await.unwrap();
        let processes = eventually("two processes", async || {
            let processes = node.processes();
            if processes.len() > 1 {
                Ok(processes)
            } else {
                Err(format!("{processes:?}"))
            }
        })
        .await
        .unwrap();
        let mark = std::fs::read(format!("/proc/{}/environ", processes[0])).unwrap();
        let mark = String::from_utf8_lossy(&mark).into_owned();
        let home = mark
            .split('\0')
            .find_map(|it| it.strip_prefix("HOME="))
            .unwrap();
        assert!(Path::new(home).is_dir());
        drop(node);
        assert!(!Path::new(home).exists());
        let runs = |id: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{id}/status"));
            status.is_ok_and(|status| !status.contains("State:\tZ"))
        };
        eventually("the processes to be gone", async || {
            let left: Vec<&u32> = processes.iter().filter(|id| runs(id)).collect();
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            }
        })
        .await
        .unwrap();
    })
    .await;
}
