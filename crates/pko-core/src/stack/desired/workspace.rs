//! The Workspace that a Stack wants, in the exact shape that upstream stores: another one, even without an
//! empty map, would replace the pod of each Stack that is taken over.

use k8s_openapi::{
    api::core::v1::ResourceRequirements, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pko_api::{
    Workspace,
    auto::v1alpha1::{PodTemplate, TemplateMetadata, WorkspaceSpec, WorkspaceStack},
    pulumi::v1::{StackSpec, StackStatus},
};

use super::{config, environment, owner, present, stack_labels, volumes::Volumes};
use crate::stack::{Location, Source, World};

/// The Workspace of a Stack.
///
/// # Errors
/// The template makes something of it that can't be.
pub(in crate::stack) fn workspace(
    world: &World,
    _status: &StackStatus,
    source: &Source,
) -> Result<Workspace, String> {
    let stack = &world.stack;
    let spec = &stack.spec;
    let owned = !world.is_deleted_in_foreground();
    let mut volumes = Volumes::default();
    let stacks = vec![workspace_stack(spec, &mut volumes)];
    let mut generated = WorkspaceSpec::default();
    match &source.location {
        Location::Git(git) => generated.git = Some(git.as_ref().clone()),
        Location::Artifact(artifact) => generated.flux = Some(artifact.clone()),
        Location::Project(project) => generated.project_info = Some(project.clone()),
        Location::Given => {}
    }
    Ok(Workspace {
        metadata: ObjectMeta {
            name: stack.metadata.name.clone(),
            namespace: stack.metadata.namespace.clone(),
            labels: Some(stack_labels(stack)),
            owner_references: owned.then(|| vec![owner(stack, true)]),
            ..ObjectMeta::default()
        },
        spec: WorkspaceSpec {
            service_account_name: present(spec.service_account_name.as_ref()).cloned(),
            env: environment::variables(spec),
            env_from: environment::sources(spec),
            resources: Some(ResourceRequirements::default()),
            pod_template: Some(PodTemplate {
                metadata: Some(TemplateMetadata::default()),
                spec: Some(volumes.pod_spec()),
            }),
            stacks,
            ..generated
        },
        status: None,
    })
}

fn workspace_stack(spec: &StackSpec, volumes: &mut Volumes) -> WorkspaceStack {
    WorkspaceStack {
        name: spec.stack.clone(),
        create: Some(spec.may_create_stack()),
        secrets_provider: present(spec.secrets_provider.as_ref()).cloned(),
        config: config::items(spec, volumes),
        environment: spec.environment.clone(),
    }
}
