//! The Workspace and the Update that a Stack wants.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::Resource as _;
use k8s_openapi::{
    api::core::v1::{
        ConfigMapEnvSource, ConfigMapKeySelector, EnvFromSource, EnvVar, EnvVarSource,
        SecretEnvSource, SecretKeySelector,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use pko_api::{
    GoDuration, JsonObject, Stack, Update, Workspace,
    auto::v1alpha1::{
        ConfigItem, ConfigValueFrom, OperationType, PodTemplate, UpdateSpec, WorkspaceSpec,
        WorkspaceStack,
    },
    names::{finalizers, labels},
    pulumi::v1::{ResourceRef, ResourceRefType, StackSpec},
};
use serde_json::{Value, json};

use super::{Location, Source, World};

/// How long an Update stays after its end.
const UPDATE_LIFETIME: Duration = Duration::from_hours(24);
/// Where a workspace finds the Secrets that config refers to.
const SECRETS: &str = "/var/run/secrets/stacks.pulumi.com/secrets";
/// Where a workspace finds the ConfigMaps that config refers to.
const CONFIG_MAPS: &str = "/var/run/configmaps/stacks.pulumi.com/configmaps";

/// The name of a new Update: the Stack's, and the time in hexadecimal milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateName(String);

impl UpdateName {
    /// The name of an Update that is made now.
    #[must_use]
    pub fn at(stack: &Stack, now: Timestamp) -> Self {
        let name = stack.metadata.name.as_deref().unwrap_or_default();
        Self(format!("{name}-{:x}", now.as_millisecond()))
    }
}

/// The Workspace of a Stack.
pub(super) fn workspace(stack: &Stack, source: &Source) -> Workspace {
    let spec = &stack.spec;
    let mut volumes = Volumes::default();
    let stacks = vec![workspace_stack(spec, &mut volumes)];
    let (flux, project_info) = match &source.location {
        Location::Artifact(artifact) => (Some(artifact.clone()), None),
        Location::Project(project) => (None, Some(project.clone())),
        Location::Given => (None, None),
    };
    Workspace {
        metadata: ObjectMeta {
            name: stack.metadata.name.clone(),
            namespace: stack.metadata.namespace.clone(),
            labels: Some(stack_labels(stack)),
            owner_references: Some(vec![owner(stack, true)]),
            ..ObjectMeta::default()
        },
        spec: WorkspaceSpec {
            flux,
            project_info,
            service_account_name: spec
                .service_account_name
                .clone()
                .filter(|name| !name.is_empty()),
            env: environment(spec),
            env_from: environment_sources(spec),
            pod_template: Some(PodTemplate {
                metadata: None,
                spec: Some(volumes.pod_spec()),
            }),
            stacks,
            ..WorkspaceSpec::default()
        },
        status: None,
    }
}

/// An Update of a Stack.
pub(super) fn update(world: &World, message: &str, name: &UpdateName) -> Update {
    let stack = &world.stack;
    let spec = &stack.spec;
    let mut update = UpdateSpec {
        workspace_name: stack.metadata.name.clone(),
        stack_name: Some(spec.stack.clone()),
        ttl_after_completed: Some(GoDuration::from(UPDATE_LIFETIME)),
        message: Some(message.to_owned()),
        ..UpdateSpec::default()
    };
    if world.is_deleting() {
        update.operation = Some(OperationType::Destroy);
        update.run_program = Some(spec.run_program.unwrap_or(false));
    } else {
        let preview = spec.preview.unwrap_or(false);
        update.operation = Some(if preview {
            OperationType::Preview
        } else {
            OperationType::Up
        });
        update.target.clone_from(&spec.targets);
        update.target_dependents = Some(spec.target_dependents.unwrap_or(false));
        update.refresh = Some(spec.refresh.unwrap_or(false));
    }
    Update {
        metadata: ObjectMeta {
            name: Some(name.0.clone()),
            namespace: stack.metadata.namespace.clone(),
            labels: Some(stack_labels(stack)),
            finalizers: Some(vec![finalizers::STACK.to_owned()]),
            owner_references: Some(update_owners(world)),
            ..ObjectMeta::default()
        },
        spec: update,
        status: None,
    }
}

fn stack_labels(stack: &Stack) -> BTreeMap<String, String> {
    let name = stack.metadata.name.clone().unwrap_or_default();
    BTreeMap::from([
        (
            labels::STACK_COMPONENT_KEY.to_owned(),
            labels::STACK_COMPONENT.to_owned(),
        ),
        (labels::STACK_NAME.to_owned(), name),
    ])
}

fn owner(stack: &Stack, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: Stack::API_VERSION.to_owned(),
        kind: Stack::KIND.to_owned(),
        name: stack.metadata.name.clone().unwrap_or_default(),
        uid: stack.metadata.uid.clone().unwrap_or_default(),
        controller: controller.then_some(true),
        block_owner_deletion: Some(true),
    }
}

/// The Workspace runs an Update, so it is the controller; the Stack keeps it as history.
fn update_owners(world: &World) -> Vec<OwnerReference> {
    let workspace = match &world.workspace {
        crate::Known::Known(Ok(workspace)) => Some(OwnerReference {
            api_version: Workspace::API_VERSION.to_owned(),
            kind: Workspace::KIND.to_owned(),
            name: workspace.metadata.name.clone().unwrap_or_default(),
            uid: workspace.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }),
        _ => None,
    };
    workspace
        .into_iter()
        .chain([owner(&world.stack, false)])
        .collect()
}

fn environment(spec: &StackSpec) -> Vec<EnvVar> {
    let backend = spec
        .backend
        .as_ref()
        .map(|url| plain("PULUMI_BACKEND_URL", url));
    let token = spec
        .access_token_secret
        .as_ref()
        .map(|secret| from_secret("PULUMI_ACCESS_TOKEN", secret, "accessToken"));
    let references = spec
        .env_refs
        .iter()
        .filter_map(|(name, reference)| variable(name, reference));
    backend.into_iter().chain(token).chain(references).collect()
}

fn variable(name: &str, reference: &ResourceRef) -> Option<EnvVar> {
    match (
        &reference.reference_type,
        &reference.literal,
        &reference.secret,
        &reference.config_map,
    ) {
        (ResourceRefType::Literal, Some(literal), _, _) => Some(plain(name, &literal.value)),
        (ResourceRefType::Secret, _, Some(secret), _) => {
            Some(from_secret(name, &secret.name, &secret.key))
        }
        (ResourceRefType::ConfigMap, _, _, Some(map)) => Some(EnvVar {
            value_from: Some(EnvVarSource {
                config_map_key_ref: Some(ConfigMapKeySelector {
                    name: map.name.clone(),
                    key: map.key.clone(),
                    optional: None,
                }),
                ..EnvVarSource::default()
            }),
            ..plain(name, "")
        })
        .map(|variable| EnvVar {
            value: None,
            ..variable
        }),
        _ => None,
    }
}

fn plain(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    }
}

fn from_secret(name: &str, secret: &str, key: &str) -> EnvVar {
    let selector = SecretKeySelector {
        name: secret.to_owned(),
        key: key.to_owned(),
        optional: None,
    };
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(selector),
            ..EnvVarSource::default()
        }),
    }
}

fn environment_sources(spec: &StackSpec) -> Vec<EnvFromSource> {
    let maps = spec.envs.iter().map(|name| EnvFromSource {
        config_map_ref: Some(ConfigMapEnvSource {
            name: name.clone(),
            optional: None,
        }),
        ..EnvFromSource::default()
    });
    let secrets = spec.env_secrets.iter().map(|name| EnvFromSource {
        secret_ref: Some(SecretEnvSource {
            name: name.clone(),
            optional: None,
        }),
        ..EnvFromSource::default()
    });
    maps.chain(secrets).collect()
}

fn workspace_stack(spec: &StackSpec, volumes: &mut Volumes) -> WorkspaceStack {
    WorkspaceStack {
        name: spec.stack.clone(),
        create: Some(spec.may_create_stack()),
        secrets_provider: spec
            .secrets_provider
            .clone()
            .filter(|provider| !provider.is_empty()),
        config: config(spec, volumes),
        environment: spec.environment.clone(),
    }
}

/// Config in a fixed order: inline, from ConfigMaps, secret, from Secrets; each by key.
fn config(spec: &StackSpec, volumes: &mut Volumes) -> Vec<ConfigItem> {
    let item = |key: &str,
                value: Option<Value>,
                value_from: Option<ConfigValueFrom>,
                secret: bool| ConfigItem {
        key: key.to_owned(),
        value,
        value_from,
        secret: Some(secret),
        path: None,
    };
    let mut items: Vec<ConfigItem> = spec
        .config
        .iter()
        .map(|(key, value)| item(key, Some(value.clone()), None, false))
        .collect();
    for (key, reference) in spec.config_map_refs().iter() {
        let path = volumes.config_map(&reference.name, &reference.key);
        let from = ConfigValueFrom {
            path: Some(path),
            json: reference.json,
            env: None,
        };
        items.push(item(key, None, Some(from), false));
    }
    for (key, value) in &spec.secrets {
        items.push(item(key, Some(value.as_str().into()), None, true));
    }
    for (key, reference) in &spec.secrets_ref {
        match (&reference.literal, &reference.secret) {
            (Some(literal), _) => {
                items.push(item(key, Some(literal.value.as_str().into()), None, true));
            }
            (None, Some(secret)) => {
                let path = volumes.secret(&secret.name, &secret.key);
                let from = ConfigValueFrom {
                    path: Some(path),
                    json: None,
                    env: None,
                };
                items.push(item(key, None, Some(from), true));
            }
            (None, None) => {}
        }
    }
    items
}

/// The volumes that config needs, one for each Secret or ConfigMap.
#[derive(Default)]
struct Volumes {
    volumes: BTreeMap<String, (Value, String)>,
}

impl Volumes {
    fn secret(&mut self, name: &str, key: &str) -> String {
        self.mount(
            &format!("secret-{name}"),
            json!({ "secret": { "secretName": name } }),
            &format!("{SECRETS}/{name}"),
            key,
        )
    }

    fn config_map(&mut self, name: &str, key: &str) -> String {
        self.mount(
            &format!("configmap-{name}"),
            json!({ "configMap": { "name": name } }),
            &format!("{CONFIG_MAPS}/{name}"),
            key,
        )
    }

    fn mount(&mut self, volume: &str, source: Value, folder: &str, key: &str) -> String {
        self.volumes
            .insert(volume.to_owned(), (source, folder.to_owned()));
        format!("{folder}/{key}")
    }

    /// The partial pod that has the volumes and mounts them into the workspace's container.
    fn pod_spec(&self) -> JsonObject {
        let mut container = json!({ "name": "pulumi" });
        let mut spec = JsonObject::new();
        if !self.volumes.is_empty() {
            let mounts: Vec<Value> = self
                .volumes
                .iter()
                .map(|(name, (_, folder))| json!({ "name": name, "mountPath": folder }))
                .collect();
            let volumes: Vec<Value> = self
                .volumes
                .iter()
                .map(|(name, (source, _))| {
                    let mut volume = source.clone();
                    if let Value::Object(fields) = &mut volume {
                        fields.insert("name".to_owned(), name.as_str().into());
                    }
                    volume
                })
                .collect();
            if let Value::Object(fields) = &mut container {
                fields.insert("volumeMounts".to_owned(), mounts.into());
            }
            spec.insert("volumes".to_owned(), volumes.into());
        }
        spec.insert("containers".to_owned(), json!([container]));
        spec
    }
}
