//! The containers that the operator creates.

use pko_api::Workspace;
use serde_json::{Value, json};

use super::{
    AgentSettings, ENV_FILE, GRPC_PORT, PULUMI_CONTAINER, SHARE, SHARE_PATH, WORKSPACE_PATH,
    audience, container_name, name, namespace, profile, put, source::SpecSource,
};

/// The agent on the shared volume, and in its image.
const AGENT: &str = "/share/agent";
const AGENT_IN_IMAGE: &str = "/agent";

/// The names of the operator's init containers are upstream's: users' templates may refer to them.
const BOOTSTRAP: &str = "bootstrap";
pub(super) const FETCH: &str = "fetch";

/// The operator's init containers, then the user's.
pub(super) fn init(workspace: &Workspace, settings: &AgentSettings) -> Vec<Value> {
    let own = own_init(workspace, settings).into_iter();
    let own = own.map(|container| with_profile(workspace, container));
    let users = workspace
        .spec
        .init_containers
        .iter()
        .cloned()
        .map(Value::Object);
    own.chain(users).collect()
}

/// `bootstrap` copies the agent, `fetch` gets the program. Each container costs the kubelet about a
/// second, so one container does both unless the user's template refers to one of them.
fn own_init(workspace: &Workspace, settings: &AgentSettings) -> Vec<Value> {
    let sources = SpecSource::all(&workspace.spec);
    if let [source] = sources.as_slice()
        && !names_own_init(workspace)
    {
        let mut fetch = fetch(source, settings, AGENT_IN_IMAGE);
        let copy = ["--bootstrap-dir", SHARE_PATH].map(Value::from);
        if let Some(Value::Array(arguments)) = fetch.get_mut("args") {
            arguments.extend(copy);
        }
        return vec![fetch];
    }
    let bootstrap = json!({
        "name": BOOTSTRAP,
        "image": settings.agent_image,
        "imagePullPolicy": settings.agent_image_pull_policy,
        "command": [AGENT_IN_IMAGE, "bootstrap", "-t", SHARE_PATH],
        "volumeMounts": [share()],
    });
    let fetch = sources.iter().map(|source| fetch(source, settings, AGENT));
    [bootstrap].into_iter().chain(fetch).collect()
}

fn fetch(source: &SpecSource, settings: &AgentSettings, agent: &str) -> Value {
    json!({
        "name": FETCH,
        "image": settings.agent_image,
        "imagePullPolicy": settings.agent_image_pull_policy,
        "command": [agent],
        "args": source.arguments(),
        "env": source.environment(settings),
        "volumeMounts": [share()],
    })
}

/// Whether one of the user's init containers has the name of one of ours.
fn names_own_init(workspace: &Workspace) -> bool {
    let spec = &workspace.spec;
    let template = spec.pod_template.as_ref();
    let template = template.and_then(|template| template.spec.as_ref());
    let in_template = template.and_then(|pod| pod.get("initContainers")?.as_array());
    let in_template = in_template.into_iter().flatten().map(container_name);
    let in_spec = spec.init_containers.iter();
    let in_spec = in_spec.filter_map(|container| container.get("name")?.as_str());
    let mut names = in_template.chain(in_spec);
    names.any(|name| [BOOTSTRAP, FETCH].contains(&name))
}

/// The container in which the agent runs `pulumi`.
pub(super) fn pulumi(workspace: &Workspace, settings: &AgentSettings) -> Value {
    let spec = &workspace.spec;
    let mut container = json!({
        "name": PULUMI_CONTAINER,
        "image": profile::image(workspace),
        "command": command(workspace),
        "workingDir": WORKSPACE_PATH,
        "ports": [{"name": "grpc", "containerPort": GRPC_PORT, "protocol": "TCP"}],
        "env": environment(workspace, settings),
        "resources": resources(workspace),
        "volumeMounts": [share()],
    });
    if let Some(policy) = spec
        .image_pull_policy
        .as_ref()
        .filter(|policy| !policy.is_empty())
    {
        put(&mut container, "imagePullPolicy", policy.clone());
    }
    if !spec.env_from.is_empty() {
        put(&mut container, "envFrom", json!(spec.env_from));
    }
    with_profile(workspace, container)
}

fn command(workspace: &Workspace) -> Vec<String> {
    let (audience, namespace, name) = (audience(workspace), namespace(workspace), name(workspace));
    let words = [
        AGENT,
        "--",
        "serve",
        "--workspace",
        WORKSPACE_PATH,
        "--skip-install",
        "--env-file",
        ENV_FILE,
        "--auth-mode",
        "manager",
        "--kube-audience",
        &audience,
        "--kube-workspace-namespace",
        namespace,
        "--kube-workspace-name",
        name,
    ];
    let mut words: Vec<String> = words.map(str::to_owned).to_vec();
    if let Some(level) = workspace.spec.pulumi_log_level.filter(|level| *level != 0) {
        words.extend(["--pulumi-log-level".to_owned(), level.to_string()]);
    }
    words
}

fn environment(workspace: &Workspace, settings: &AgentSettings) -> Vec<Value> {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let users = workspace.spec.env.iter().map(|variable| json!(variable));
    let own = [
        field("POD_NAMESPACE", "metadata.namespace"),
        field("POD_SA_NAME", "spec.serviceAccountName"),
        json!({"name": "PKO_MANAGER_PUBLIC_KEY", "value": settings.manager_public_key}),
    ];
    users.chain(own).collect()
}

/// The default requests limit the number of idle workspaces on a node.
fn resources(workspace: &Workspace) -> Value {
    let given = workspace.spec.resources.clone().unwrap_or_default();
    let mut resources = json!(given);
    if given
        .requests
        .as_ref()
        .is_none_or(std::collections::BTreeMap::is_empty)
    {
        put(
            &mut resources,
            "requests",
            json!({"memory": "64Mi", "cpu": "100m"}),
        );
    }
    resources
}

fn share() -> Value {
    json!({"name": SHARE, "mountPath": SHARE_PATH})
}

fn with_profile(workspace: &Workspace, mut container: Value) -> Value {
    if let Some(context) = profile::container(workspace) {
        put(&mut container, "securityContext", context);
    }
    container
}
