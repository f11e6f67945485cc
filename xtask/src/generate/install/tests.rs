//! Checks that the objects of the file fit together and fit our code.

use std::sync::OnceLock;

use pko_api::{
    Workspace,
    rbac::{PROCESS_WORKSPACES, Role, WATCH_SECRETS},
};
use pko_core::workspace::pod;

use super::*;

/// All objects of the file, parsed once.
fn objects() -> &'static [Value] {
    static OBJECTS: OnceLock<Vec<Value>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let text = file().unwrap().text;
        let documents = text.split("---\n").skip(1);
        documents
            .map(|text| serde_saphyr::from_str(text).unwrap())
            .collect()
    })
}

fn of_kind(kind: &str) -> Vec<Value> {
    let objects = objects().iter();
    let found = objects.filter(|object| object["kind"] == kind);
    found.cloned().collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// The pod of the operator's Deployment.
fn operator_pod() -> Value {
    of_kind("Deployment").remove(0)["spec"]["template"].clone()
}

/// A workspace's pod from the manager's code.
fn workspace_pod() -> Value {
    let workspace: Workspace = serde_json::from_value(json!({
        "apiVersion": "auto.pulumi.com/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": "demo", "namespace": "default", "uid": "1"},
        "spec": {},
    }))
    .unwrap();
    let settings = pod::AgentSettings {
        agent_image: "image".to_owned(),
        agent_image_pull_policy: "Never".to_owned(),
        max_untar_size: None,
        manager_public_key: "key".to_owned(),
        restrictions: pod::PodRestrictions::default(),
    };
    pod::stateful_set(&workspace, &settings).unwrap()["spec"]["template"].clone()
}

fn selects(selector: &Value, pod: &Value) -> bool {
    let mut wanted = selector.as_object().unwrap().iter();
    wanted.all(|(name, value)| pod["metadata"]["labels"][name] == *value)
}

/// The number of a pod's port, by number or name.
fn port_of(pod: &Value, port: &Value) -> Option<Value> {
    let containers = pod["spec"]["containers"].as_array().unwrap().iter();
    let ports = containers.flat_map(|container| container["ports"].as_array().unwrap());
    let mut ports = ports.filter(|one| one["name"] == *port || one["containerPort"] == *port);
    ports.next().map(|one| one["containerPort"].clone())
}

#[test]
fn install_objects_are_in_dependency_order() {
    let objects = objects();
    let place = |kind: &str, wanted: &str| {
        let found = |object: &Value| object["kind"] == kind && name(object) == wanted;
        objects.iter().position(found).unwrap()
    };
    assert_eq!(place("Namespace", NAMESPACE), 0);
    let deployment = place("Deployment", ACCOUNT);
    for (kind, name) in [
        ("CustomResourceDefinition", "stacks.pulumi.com"),
        ("ServiceAccount", ACCOUNT),
        ("ClusterRoleBinding", "pulumi-kubernetes-operator"),
        ("Service", "pulumi-kubernetes-operator"),
    ] {
        assert!(place(kind, name) < deployment, "{kind} {name}");
    }
}

#[test]
fn install_has_every_object_of_upstream() {
    let wanted = "\
        Namespace/pulumi-kubernetes-operator CustomResourceDefinition/programs.pulumi.com \
        CustomResourceDefinition/stacks.pulumi.com CustomResourceDefinition/updates.auto.pulumi.com \
        CustomResourceDefinition/workspaces.auto.pulumi.com ServiceAccount/default/pulumi \
        ServiceAccount/pulumi-kubernetes-operator/controller-manager \
        Role/pulumi-kubernetes-operator/leader-election-role \
        Role/pulumi-kubernetes-operator/token-request-role ClusterRole/metrics-auth-role \
        ClusterRole/metrics-reader ClusterRole/pulumi-kubernetes-operator-controller-manager \
        ClusterRole/pulumi-kubernetes-operator-edit ClusterRole/pulumi-kubernetes-operator-view \
        RoleBinding/pulumi-kubernetes-operator/leader-election-rolebinding \
        RoleBinding/pulumi-kubernetes-operator/token-request-rolebinding \
        ClusterRoleBinding/default:pulumi:system:auth-delegator \
        ClusterRoleBinding/metrics-auth-rolebinding ClusterRoleBinding/pulumi-kubernetes-operator \
        Service/pulumi-kubernetes-operator/controller-manager-metrics-service \
        Service/pulumi-kubernetes-operator/pulumi-kubernetes-operator \
        Deployment/pulumi-kubernetes-operator/controller-manager \
        NetworkPolicy/default/allow-workspace-rpc";
    let path = |object: &Value| {
        let namespace = object["metadata"]["namespace"].as_str();
        let parts = [object["kind"].as_str(), namespace, Some(name(object))];
        parts.into_iter().flatten().collect::<Vec<_>>().join("/")
    };
    let all: Vec<String> = objects().iter().map(path).collect();
    for wanted in wanted.split_whitespace() {
        assert!(all.iter().any(|path| path == wanted), "{wanted}");
    }
}

#[test]
fn install_manager_has_exactly_the_tested_rights() {
    let roles = objects();
    let role = |binding: &Value| {
        let (kind, wanted) = (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]);
        let mut roles = roles.iter();
        let role = roles.find(|role| role["kind"] == *kind && role["metadata"]["name"] == *wanted);
        role.map(|role| role["rules"].clone()).unwrap()
    };
    let bindings = roles.iter().filter(|object| {
        object["subjects"][0]["name"] == ACCOUNT && object["subjects"][0]["namespace"] == NAMESPACE
    });
    let mut granted: Vec<Value> = bindings.map(role).collect();
    // Those that the integration tests bind; processes beside the manager are not for a cluster.
    let table = Role::ALL
        .iter()
        .filter(|role| !role.name.ends_with("-edit") && !role.name.ends_with("-view"));
    let table = table.filter(|role| {
        ![
            PROCESS_WORKSPACES.name,
            WATCH_SECRETS.name,
            "metrics-reader",
        ]
        .contains(&role.name)
    });
    let mut wanted: Vec<Value> = table.map(|role| role.object()["rules"].clone()).collect();
    granted.sort_by_key(Value::to_string);
    wanted.sort_by_key(Value::to_string);
    assert_eq!(granted, wanted);
}

#[test]
fn install_services_target_ports_of_the_operator() {
    let pod = operator_pod();
    for service in of_kind("Service") {
        assert!(
            selects(&service["spec"]["selector"], &pod),
            "{}",
            name(&service)
        );
        for port in service["spec"]["ports"].as_array().unwrap() {
            assert!(
                port_of(&pod, &port["targetPort"]).is_some(),
                "{}: {port}",
                name(&service)
            );
        }
    }
    assert!(selects(
        &of_kind("Deployment")[0]["spec"]["selector"]["matchLabels"],
        &pod
    ));
}

#[test]
fn install_flags_match_ports() {
    let pod = operator_pod();
    let container = &pod["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap();
    let port = |flag: &str| {
        let mut values = arguments
            .iter()
            .filter_map(|one| one.as_str()?.strip_prefix(flag));
        values.next().unwrap().parse::<u16>().unwrap()
    };
    for (flag, probe) in [
        ("--metrics-bind-address=:", json!("http-metrics")),
        (
            "--health-probe-bind-address=:",
            container["readinessProbe"]["httpGet"]["port"].clone(),
        ),
    ] {
        assert_eq!(port_of(&pod, &probe), Some(json!(port(flag))), "{flag}");
    }
    assert!(arguments.contains(&json!(
        "--program-fs-adv-addr=pulumi-kubernetes-operator.$(POD_NAMESPACE):80"
    )));
}

#[test]
fn install_agent_image_is_the_operators() {
    let pod = operator_pod();
    let container = &pod["spec"]["containers"][0];
    let agent = container["env"].as_array().unwrap();
    let agent = agent
        .iter()
        .find(|one| one["name"] == "AGENT_IMAGE")
        .unwrap();
    assert_eq!(agent["value"], container["image"]);
}

/// The peers and ports of each rule of a policy's `ingress`.
fn admits(policy: &Value, from: &Value, namespace: &str, to: &Value, port: &Value) -> bool {
    let spec = &policy["spec"];
    assert!(
        selects(&spec["podSelector"]["matchLabels"], to),
        "{}",
        name(policy)
    );
    spec["ingress"].as_array().unwrap().iter().any(|rule| {
        let mut ports = rule["ports"].as_array().unwrap().iter();
        let through = ports.any(|one| port_of(to, &one["port"]).as_ref() == Some(port));
        let peers = rule["from"].as_array();
        let admitted = peers.is_none_or(|peers| peers.iter().any(|peer| is(peer, from, namespace)));
        through && admitted
    })
}

fn is(peer: &Value, pod: &Value, namespace: &str) -> bool {
    let wanted = &peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"];
    (wanted.is_null() || *wanted == *namespace) && selects(&peer["podSelector"]["matchLabels"], pod)
}

#[test]
fn install_network_policies_allow_only_required_traffic() {
    let (operator, workspace) = (operator_pod(), workspace_pod());
    let stranger = json!({"metadata": {"labels": {"app": "other"}}});
    let policies = of_kind("NetworkPolicy");
    let policy = |wanted: &str| {
        policies
            .iter()
            .find(|policy| name(policy) == wanted)
            .unwrap()
    };
    let rpc = policy("allow-workspace-rpc");
    assert_eq!(rpc["metadata"]["namespace"], "default");
    let grpc = json!(50051);
    assert!(admits(rpc, &operator, NAMESPACE, &workspace, &grpc));
    assert!(
        !admits(rpc, &operator, "elsewhere", &workspace, &grpc),
        "the same labels elsewhere"
    );
    assert!(!admits(rpc, &stranger, NAMESPACE, &workspace, &grpc));
    assert!(
        !admits(rpc, &workspace, "default", &workspace, &grpc),
        "another workspace"
    );
    let own = policy("controller-manager");
    assert_eq!(own["metadata"]["namespace"], NAMESPACE);
    let (programs, metrics, probes) = (json!(9090), json!(8443), json!(8081));
    assert!(admits(own, &workspace, "shop", &operator, &programs));
    assert!(!admits(own, &stranger, "shop", &operator, &programs));
    assert!(admits(own, &stranger, "monitoring", &operator, &metrics));
    assert!(!admits(own, &stranger, "monitoring", &operator, &probes));
    // Each is about the pods that it is meant for, and about no others.
    let about =
        |policy: &Value, pod: &Value| selects(&policy["spec"]["podSelector"]["matchLabels"], pod);
    assert!(!about(rpc, &operator) && !about(own, &workspace) && !about(rpc, &stranger));
}

#[test]
fn install_objects_fit_last_applied_annotation() {
    // What `kubectl apply` keeps of an object, and how much the API server takes of that.
    const LIMIT: usize = 256 * 1024;
    for object in objects() {
        let size = serde_json::to_string(&object).unwrap().len();
        assert!(size < LIMIT - 4096, "{}: {size}", name(object));
    }
}

#[test]
fn install_operator_meets_restricted_pod_security() {
    let namespace = of_kind("Namespace").remove(0);
    let labels = &namespace["metadata"]["labels"];
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
    let container = &operator_pod()["spec"]["containers"][0]["securityContext"];
    assert_eq!(container["readOnlyRootFilesystem"], true);
}
