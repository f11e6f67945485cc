//! The Workspace of a Stack, in the exact form that upstream stores. Any difference, even a missing
//! empty map, would replace the pod of each Stack that is taken over.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::ResourceRequirements, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pko_api::{
    JsonObject, Stack, Workspace,
    auto::v1alpha1::{PodTemplate, TemplateMetadata, WorkspaceSpec},
    names::annotations,
    pulumi::v1::{StackSpec, StackStatus},
};
use serde_json::{Value, json};

use super::{
    environment, owner, present, shape, stack_labels, stacks, template::Template, volumes::Volumes,
};
use crate::{
    merge::MergeSchema,
    stack::{Location, ObservedStack, ProgramSource, references},
};

/// The Workspace of a Stack: the fields of the Stack, its template merged over them, then the lists
/// to which a template only adds.
///
/// # Errors
/// The template is invalid.
pub(in crate::stack) fn workspace(
    observed: &ObservedStack,
    status: &StackStatus,
    source: &ProgramSource,
) -> Result<Workspace, String> {
    let spec = &observed.stack.spec;
    let template = template(spec);
    let mut volumes = Volumes::default();
    let own_stack = stacks::own(spec, &mut volumes);
    let generated = generate(observed, status, source, volumes);
    let mut merged = template.merge_over(&generated)?;
    if let Some(merged) = merged.get_mut("spec").and_then(Value::as_object_mut) {
        append_variables(spec, merged);
        stacks::append(own_stack, &template, merged)?;
        shape::settle_workspace(merged);
    }
    let merged = template.decode(merged)?;
    let workspace = restore_fixed_fields(merged, generated, source);
    match several_sources(&workspace.spec) {
        Some(problem) => Err(template.problem(problem)),
        None => Ok(workspace),
    }
}

/// The name of a Stack's Workspace: the Stack's own, unless its template sets one.
#[must_use]
pub fn workspace_name(stack: &Stack) -> &str {
    let template = stack.spec.workspace_template.as_ref();
    let metadata = template.and_then(|template| template.0.get("metadata"));
    let name = metadata.and_then(|metadata| metadata.get("name"));
    let name = name.and_then(Value::as_str).filter(|name| !name.is_empty());
    name.unwrap_or(stack.metadata.name.as_deref().unwrap_or_default())
}

fn template(spec: &StackSpec) -> Template {
    let template = spec.workspace_template.as_ref();
    let field = |name| template.and_then(|template| template.0.get(name));
    let mut patch = field("spec").cloned();
    if let Some(patch) = patch.as_mut().and_then(Value::as_object_mut) {
        shape::trim_workspace(patch);
    }
    Template::new(
        "spec.workspaceTemplate",
        &MergeSchema::WORKSPACE,
        field("metadata").and_then(Value::as_object),
        patch,
    )
}

/// An existing Workspace with the same spec, without the owner through which the garbage collector
/// would delete it.
pub(in crate::stack) fn without_owner(observed: &ObservedStack, existing: &Workspace) -> Workspace {
    let before = &existing.metadata;
    let own = own_metadata(observed);
    let both = |before: &Option<BTreeMap<_, _>>, own: Option<BTreeMap<_, _>>| {
        let mut both = before.clone().unwrap_or_default();
        both.extend(own.into_iter().flatten());
        (!both.is_empty()).then_some(both)
    };
    Workspace {
        metadata: ObjectMeta {
            name: before.name.clone(),
            labels: both(&before.labels, own.labels),
            annotations: both(&before.annotations, own.annotations),
            ..own
        },
        spec: existing.spec.clone(),
        status: None,
    }
}

/// The owner of the Workspace, and how its Stack is found.
fn own_metadata(observed: &ObservedStack) -> ObjectMeta {
    let stack = &observed.stack;
    let has_owner = !observed.is_deleted_in_foreground();
    ObjectMeta {
        name: stack.metadata.name.clone(),
        namespace: stack.metadata.namespace.clone(),
        labels: Some(stack_labels(stack)),
        owner_references: has_owner.then(|| vec![owner(stack, true)]),
        // Without an owner reference this annotation identifies the Stack.
        annotations: stack
            .metadata
            .uid
            .clone()
            .filter(|_| !has_owner)
            .map(|uid| BTreeMap::from([(annotations::DESTROYS.to_owned(), uid)])),
        ..ObjectMeta::default()
    }
}

/// The Workspace without the template.
fn generate(
    observed: &ObservedStack,
    status: &StackStatus,
    source: &ProgramSource,
    volumes: Volumes,
) -> Workspace {
    let spec = &observed.stack.spec;
    let mut with_source = WorkspaceSpec::default();
    match &source.location {
        Location::Git(git) => with_source.git = Some(git.as_ref().clone()),
        Location::Artifact(artifact) => with_source.flux = Some(artifact.clone()),
        Location::Project(project) => with_source.project_info = Some(project.clone()),
        Location::Given => {}
    }
    Workspace {
        metadata: own_metadata(observed),
        spec: WorkspaceSpec {
            service_account_name: present(spec.service_account_name.as_ref()).cloned(),
            env: environment::variables(spec),
            resources: Some(ResourceRequirements::default()),
            pod_template: Some(PodTemplate {
                metadata: Some(template_metadata(observed, status)),
                spec: Some(volumes.pod_spec()),
            }),
            ..with_source
        },
        status: None,
    }
}

/// Appends the ConfigMaps and Secrets of the Stack after those of its template.
fn append_variables(spec: &StackSpec, merged: &mut JsonObject) {
    let own = environment::sources(spec).into_iter().map(|own| json!(own));
    let own: Vec<Value> = own.collect();
    if own.is_empty() {
        return;
    }
    let list = merged.entry("envFrom").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.extend(own);
    }
}

/// Restores what a template does not change: the owner, how the Stack is found, and a destroy
/// without a program.
fn restore_fixed_fields(
    mut merged: Workspace,
    generated: Workspace,
    source: &ProgramSource,
) -> Workspace {
    let own = generated.metadata;
    let metadata = &mut merged.metadata;
    metadata.name = present(metadata.name.as_ref())
        .or(own.name.as_ref())
        .cloned();
    let labels = metadata.labels.get_or_insert_default();
    labels.extend(own.labels.into_iter().flatten());
    if let Some(own) = own.annotations {
        metadata.annotations.get_or_insert_default().extend(own);
    }
    if let Location::Project(project) = &source.location {
        merged.spec = WorkspaceSpec {
            git: None,
            flux: None,
            local: None,
            project_info: Some(project.clone()),
            ..merged.spec
        };
    }
    merged
}

fn several_sources(spec: &WorkspaceSpec) -> Option<String> {
    let named = [
        ("git", spec.git.is_some()),
        ("flux", spec.flux.is_some()),
        ("local", spec.local.is_some()),
        ("projectInfo", spec.project_info.is_some()),
    ];
    let named = named.into_iter().filter(|(_, used)| *used);
    let named: Vec<&str> = named.map(|(name, _)| name).collect();
    (named.len() > 1).then(|| {
        format!(
            "spec: the program has several sources: {}; keep one",
            named.join(" and ")
        )
    })
}

/// Once a referenced object has changed, a hash of the versions replaces the pod.
fn template_metadata(observed: &ObservedStack, status: &StackStatus) -> TemplateMetadata {
    let hash = references::version_hash(observed, status);
    let hash = hash.map(|hash| (annotations::REFERENCES.to_owned(), hash));
    TemplateMetadata {
        annotations: hash.into_iter().collect(),
        ..TemplateMetadata::default()
    }
}
