//! The run queue's request for an Update.

use k8s_openapi::api::core::v1::EnvVar;
use pko_api::{Update, Workspace, auto::v1alpha1::OperationType, names::annotations};

use crate::{
    redaction::without_credentials,
    run_queue::{RunRequest, StackKey, Urgency},
};

const BACKEND: &str = "PULUMI_BACKEND_URL";

#[must_use]
pub fn run_request(update: &Update, workspace: Option<&Workspace>) -> RunRequest {
    RunRequest {
        run: update.metadata.uid.clone().unwrap_or_default(),
        namespace: update.metadata.namespace.clone().unwrap_or_default(),
        stack: stack_key(update, workspace),
        urgency: urgency(update),
    }
}

/// From the annotation, except that a destroy has its own urgency.
fn urgency(update: &Update) -> Urgency {
    if update.spec.operation == Some(OperationType::Destroy) {
        return Urgency::Destroy;
    }
    let annotations = update.metadata.annotations.as_ref();
    let named = annotations.and_then(|annotations| annotations.get(annotations::URGENCY));
    named
        .and_then(|name| Urgency::from_text(name))
        .unwrap_or(Urgency::Change)
}

/// The identity of the Pulumi stack, as far as it can be derived here. A name without a project is
/// ambiguous, so the source is part of the key. Two objects for one stack have the same key.
fn stack_key(update: &Update, workspace: Option<&Workspace>) -> StackKey {
    let name = update.spec.stack_name.as_deref().unwrap_or_default();
    let namespace = update.metadata.namespace.as_deref().unwrap_or_default();
    let backend = workspace.and_then(|workspace| backend(workspace, namespace));
    let stack = if name.matches('/').count() >= 2 {
        name.to_owned()
    } else {
        let own = || {
            let workspace = update.spec.workspace_name.as_deref().unwrap_or_default();
            format!("{namespace}/{workspace}")
        };
        let source = workspace.and_then(source).unwrap_or_else(own);
        format!("{source}#{name}")
    };
    StackKey {
        backend: backend.unwrap_or_default(),
        stack,
    }
}

/// The backend's URL, or the reference to it.
fn backend(workspace: &Workspace, namespace: &str) -> Option<String> {
    let is_backend = |variable: &&EnvVar| variable.name == BACKEND;
    let variable = workspace.spec.env.iter().find(is_backend)?;
    if let Some(value) = &variable.value {
        return Some(value.clone());
    }
    let from = variable.value_from.as_ref()?;
    let secret = from
        .secret_key_ref
        .as_ref()
        .map(|key| (&key.name, &key.key));
    let config_map = from
        .config_map_key_ref
        .as_ref()
        .map(|key| (&key.name, &key.key));
    let (name, key) = secret.or(config_map)?;
    Some(format!("{namespace}/{name}/{key}"))
}

/// The part of the source that does not change between revisions.
fn source(workspace: &Workspace) -> Option<String> {
    let spec = &workspace.spec;
    if let Some(git) = &spec.git {
        let dir = git.dir.as_deref().unwrap_or_default();
        // A waiting run shows it.
        let url = without_credentials(git.url.as_deref()?);
        return Some(format!("{url}//{}", dir.trim_matches('/')));
    }
    let flux = spec.flux.as_ref()?;
    // The last segment is the revision.
    let url = without_credentials(flux.url.as_deref()?);
    let (source, _) = url.rsplit_once('/')?;
    let dir = flux.dir.as_deref().unwrap_or_default();
    Some(format!("{source}//{}", dir.trim_matches('/')))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn key(stack: &str, workspace: impl Into<Value>) -> StackKey {
        let workspace: Value = workspace.into();
        let update: Update = serde_json::from_value(json!({
            "metadata": {"name": "u", "namespace": "team", "uid": "1"},
            "spec": {"workspaceName": "ws", "stackName": stack, "type": "up"},
        }))
        .unwrap();
        let workspace: Workspace = serde_json::from_value(json!({"spec": workspace})).unwrap();
        run_request(&update, Some(&workspace)).stack
    }

    fn on(backend: &str) -> Value {
        json!({"env": [{"name": "PULUMI_BACKEND_URL", "value": backend}]})
    }

    #[test]
    fn stack_key_is_the_same_for_the_same_stack() {
        let git = |reference: &str, dir: &str| json!({"git": {"url": "https://git.test/a", "ref": reference, "dir": dir}});
        assert_eq!(
            key("dev", git("1", "infra")),
            key("dev", git("2", "infra/"))
        );
        assert_ne!(key("dev", git("1", "infra")), key("dev", git("1", "other")));
        assert_ne!(key("dev", git("1", "")), key("prod", git("1", "")));
        let flux = |generation: u8| json!({"flux": {"url": format!("http://op/programs/team/p/{generation}")}});
        assert_eq!(key("dev", flux(1)), key("dev", flux(2)));
        assert_eq!(
            key("org/app/dev", git("1", "")),
            key("org/app/dev", flux(1))
        );
    }

    #[test]
    fn stack_key_has_no_credentials() {
        let git = |url: &str| json!({"git": {"url": url, "ref": "1"}});
        let with = key("dev", git("https://me:canary@git.test/a"));
        assert_eq!(with, key("dev", git("https://git.test/a")));
        assert!(!with.stack.contains("canary"));
    }

    #[test]
    fn stack_key_differs_by_backend() {
        assert_ne!(
            key("org/app/dev", on("s3://a")),
            key("org/app/dev", on("s3://b"))
        );
        let from = |name: &str| {
            let key = json!({"secretKeyRef": {"name": name, "key": "url"}});
            json!({"env": [{"name": "PULUMI_BACKEND_URL", "valueFrom": key}]})
        };
        assert_eq!(key("a/b/c", from("x")), key("a/b/c", from("x")));
        assert_ne!(key("a/b/c", from("x")), key("a/b/c", from("y")));
    }

    #[test]
    fn urgency_is_read_from_the_annotation() {
        let urgency = |kind: &str, named: Value| {
            let update: Update = serde_json::from_value(json!({
                "metadata": {"annotations": {"auto.pulumi.com/urgency": named}},
                "spec": {"type": kind},
            }))
            .unwrap();
            run_request(&update, None).urgency
        };
        for known in Urgency::ALL {
            assert_eq!(urgency("up", json!(known.as_str())), *known);
            assert_eq!(urgency("destroy", json!(known.as_str())), Urgency::Destroy);
        }
        assert_eq!(urgency("up", json!("very")), Urgency::Change);
        assert_eq!(urgency("preview", json!("")), Urgency::Change);
    }

    #[test]
    fn destroy_is_more_urgent_than_up() {
        let request = |kind: &str| {
            let update: Update = serde_json::from_value(json!({
                "metadata": {"name": "u", "namespace": "team", "uid": "1"},
                "spec": {"workspaceName": "ws", "stackName": "dev", "type": kind},
            }))
            .unwrap();
            run_request(&update, None)
        };
        assert!(request("destroy").urgency > request("up").urgency);
        assert_eq!(request("up").run, "1");
        assert_eq!(request("up").stack.stack, "team/ws#dev");
    }
}
