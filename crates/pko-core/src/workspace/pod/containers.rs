//! The containers that the operator makes.

use pko_api::Workspace;
use serde_json::{Value, json};

use super::{
    ENV_FILE, GRPC_PORT, PULUMI_CONTAINER, SHARE, SHARE_PATH, Settings, WORKSPACE_PATH, audience,
    name, namespace, profile, put, source::Source,
};

const AGENT: &str = "/share/agent";

/// `bootstrap` copies the agent, `fetch` gets the program, then come the user's own.
pub(super) fn init(workspace: &Workspace, settings: &Settings) -> Vec<Value> {
    let bootstrap = json!({
        "name": "bootstrap",
        "image": settings.agent_image,
        "imagePullPolicy": settings.agent_image_pull_policy,
        "command": ["/agent", "bootstrap", "-t", SHARE_PATH],
        "volumeMounts": [share()],
    });
    let fetch = Source::all(&workspace.spec).into_iter().map(|source| {
        json!({
            "name": "fetch",
            "image": settings.agent_image,
            "imagePullPolicy": settings.agent_image_pull_policy,
            "command": [AGENT],
            "args": source.arguments(),
            "env": source.environment(settings),
            "volumeMounts": [share()],
        })
    });
    let own = [bootstrap].into_iter().chain(fetch);
    let own = own.map(|container| with_profile(workspace, container));
    let users = workspace
        .spec
        .init_containers
        .iter()
        .cloned()
        .map(Value::Object);
    own.chain(users).collect()
}

/// The container in which the agent runs `pulumi`.
pub(super) fn pulumi(workspace: &Workspace, settings: &Settings) -> Value {
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

fn environment(workspace: &Workspace, settings: &Settings) -> Vec<Value> {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let users = workspace.spec.env.iter().map(|variable| json!(variable));
    let own = [
        field("POD_NAMESPACE", "metadata.namespace"),
        field("POD_SA_NAME", "spec.serviceAccountName"),
        json!({"name": "PKO_MANAGER_PUBLIC_KEY", "value": settings.manager_public_key}),
    ];
    users.chain(own).collect()
}

/// A little by default, so that a node is not filled with workspaces that do nothing.
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
