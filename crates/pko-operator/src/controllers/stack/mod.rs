//! The controller of Stacks.

mod existing_workspace;
mod outputs;
mod prerequisites;
mod update_finalizers;
mod update_history;

use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::{
    Resource as _, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    ResourceExt as _,
    runtime::{
        Controller,
        controller::Action,
        reflector::{ObjectRef, Store},
    },
};
use pko_api::{
    Decoded, Program, Stack, Update, Workspace,
    names::{events, field_managers, finalizers, labels},
    pulumi::v1::StackStatus,
};
use pko_core::{
    Machine as _,
    stack::{
        ObservedStack, ProgramSource, Refusal, SourceError, SourceRef, StackEffect, StackRead,
        StackResponse, StackWrite, is_behind, program_source, shown_outputs, workspace_name,
    },
    workspace::is_ready,
};
use pko_kube::{EventNote, RequestError};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    Context, ReconcileError, Reconciler, action, after_error,
    applied_workspaces::ApplyState,
    context::{decoded, latest, log_event_error, wait_for_cache},
    instrument, reconcile_object,
};
use crate::watch::shared::receiver_stream;

/// What triggers the reconcile of a Stack, besides its own changes.
pub(crate) struct StackStreams<Stacks, Workspaces, Updates, Programs> {
    pub(crate) stacks: Stacks,
    pub(crate) workspaces: Workspaces,
    pub(crate) updates: Updates,
    pub(crate) programs: Programs,
    /// Stacks whose source or references have changed.
    pub(crate) triggers: UnboundedReceiver<ObjectRef<Decoded<Stack>>>,
}

/// Runs until the manager ends.
pub(crate) async fn run(
    controller: Controller<Decoded<Stack>>,
    streams: StackStreams<
        impl Stream<Item = Arc<Decoded<Stack>>> + Send + 'static,
        impl Stream<Item = Arc<Decoded<Workspace>>> + Send + 'static,
        impl Stream<Item = Arc<Decoded<Update>>> + Send + 'static,
        impl Stream<Item = Arc<Decoded<Program>>> + Send + 'static,
    >,
    context: Arc<Context>,
) {
    let (stacks, others) = (controller.store(), controller.store());
    let stream = controller
        .watches_shared_stream(streams.workspaces, |workspace: Arc<Decoded<Workspace>>| {
            stack_of(workspace.as_ref())
        })
        .watches_shared_stream(streams.updates, |update: Arc<Decoded<Update>>| {
            stack_of(update.as_ref())
        })
        .watches_shared_stream(streams.programs, move |program| {
            neighbours(&stacks, program.as_ref(), uses_program)
        })
        .watches_shared_stream(streams.stacks, move |stack| {
            neighbours(&others, stack.as_ref(), waits_for)
        })
        .reconcile_on(receiver_stream(streams.triggers))
        .run(
            instrument(events::STACK_CONTROLLER, reconcile),
            |_, error, _| after_error(error),
            context,
        );
    stream.for_each(|_| std::future::ready(())).await;
}

/// The Stack for which a Workspace or an Update was created. It may not be its owner: see
/// `is_deleted_in_foreground`.
fn stack_of(object: &impl kube::ResourceExt) -> Option<ObjectRef<Decoded<Stack>>> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| owner.kind == "Stack");
    let label = object.labels().get(labels::STACK_NAME);
    let name = label.or(owner.map(|owner| &owner.name))?;
    let namespace = object.namespace()?;
    Some(ObjectRef::new(name).within(&namespace))
}

/// The Stacks of the same namespace that this object concerns.
fn neighbours(
    stacks: &Store<Decoded<Stack>>,
    object: &impl kube::ResourceExt,
    concerned: fn(&Stack, &str) -> bool,
) -> Vec<ObjectRef<Decoded<Stack>>> {
    let (namespace, name) = (object.namespace(), object.name_any());
    let all = stacks.state().into_iter();
    let readable =
        |stack: &Decoded<Stack>| stack.as_result().is_ok_and(|stack| concerned(stack, &name));
    all.filter(|stack| stack.namespace() == namespace && readable(stack))
        .map(|stack| ObjectRef::from_obj(stack.as_ref()))
        .collect()
}

fn uses_program(stack: &Stack, name: &str) -> bool {
    let reference = stack.spec.program_ref.as_ref();
    reference.is_some_and(|reference| reference.name == name)
}

fn waits_for(stack: &Stack, name: &str) -> bool {
    let mut wanted = stack.spec.prerequisites.iter();
    wanted.any(|wanted| wanted.name == name)
}

async fn reconcile(
    object: Arc<Decoded<Stack>>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let Some(object) = latest(object, &context.caches.stacks, &context).await? else {
        return Ok(Action::await_change());
    };
    match object.as_result() {
        Ok(stack) => {
            let reconciler = StackReconciler {
                stack,
                context: &context,
            };
            let mut observed = ObservedStack::new(stack.clone());
            observed.unreleased = update_finalizers::unreleased(stack, &context);
            observed.settings.watches_secrets = context.caches.versions.has_secrets();
            Box::pin(reconcile_object(&reconciler, observed)).await
        }
        Err(undecodable) => {
            let plan = ObservedStack::decide_undecodable(undecodable, Timestamp::now());
            for effect in plan.effects {
                if let StackEffect::PatchStatus(status) = effect {
                    write_status(object.as_ref(), &context, &status).await?;
                }
            }
            Ok(action(plan.requeue))
        }
    }
}

struct StackReconciler<'a> {
    stack: &'a Stack,
    context: &'a Context,
}

impl Reconciler for StackReconciler<'_> {
    type Observed = ObservedStack;

    async fn read(&self, read: StackRead) -> Result<StackResponse, ReconcileError> {
        let Self { stack, context } = *self;
        match read {
            StackRead::CurrentUpdate(name) => {
                let update = current_update(stack, context, &name).await?;
                Ok(StackResponse::CurrentUpdate(update))
            }
            StackRead::Outputs(name) => {
                let namespace = stack.namespace().unwrap_or_default();
                let secret: Option<Secret> =
                    pko_kube::find(&context.client, &namespace, &name).await?;
                let outputs = secret.as_ref().map(shown_outputs);
                Ok(outputs.map_or(StackResponse::NoOutputs, StackResponse::Outputs))
            }
            StackRead::Source(wanted) => Ok(StackResponse::Source(
                source(stack, context, &wanted).await?,
            )),
            StackRead::ConfigMaps(names) => {
                let namespace = stack.namespace().unwrap_or_default();
                let versions = &context.caches.versions;
                let versions = versions.config_maps(&context.client, &namespace, names);
                Ok(StackResponse::ConfigMaps(versions.await?))
            }
            StackRead::Secrets(names) => {
                let namespace = stack.namespace().unwrap_or_default();
                let versions = context
                    .caches
                    .versions
                    .secrets(&context.client, &namespace, names);
                Ok(StackResponse::Secrets(versions.await?))
            }
            StackRead::Prerequisites => {
                let stacks = prerequisites::reachable(stack, context).await?;
                Ok(StackResponse::Prerequisites(stacks))
            }
            StackRead::ExistingWorkspace(name) => {
                let workspace = existing_workspace::find(stack, context, &name).await?;
                Ok(StackResponse::ExistingWorkspace(workspace))
            }
        }
    }

    async fn write(&self, write: StackWrite) -> Result<StackResponse, ReconcileError> {
        let Self { stack, context } = *self;
        match write {
            StackWrite::PublishOutputs(secret) => {
                let published = outputs::publish(stack, context, secret.as_deref()).await?;
                Ok(StackResponse::Published(published))
            }
            StackWrite::ApplyWorkspace(workspace, status) => {
                let seen = current_workspace(context, &workspace).await;
                // A ready Workspace needs no status of its own: the next one is about the Update.
                if let Some(ready) = seen.filter(|seen| is_ready(seen)) {
                    return Ok(StackResponse::Workspace(Ok(ready)));
                }
                publish_status(stack, context, &status).await?;
                Ok(StackResponse::Workspace(
                    apply_workspace(context, &workspace).await,
                ))
            }
            StackWrite::CreateUpdate(update, status) => {
                publish_status(stack, context, &status).await?;
                Ok(StackResponse::Created(create(context, &update).await?))
            }
        }
    }

    async fn perform(&self, _: &ObservedStack, effect: StackEffect) -> Result<(), ReconcileError> {
        Box::pin(perform(self.stack, self.context, effect)).await
    }

    fn object(&self) -> (&'static str, &ObjectMeta) {
        (Stack::KIND, &self.stack.metadata)
    }

    fn context(&self) -> &Context {
        self.context
    }
}

/// The current Update, which may have been created a moment ago.
async fn current_update(
    stack: &Stack,
    context: &Context,
    name: &str,
) -> Result<Option<Box<Update>>, ReconcileError> {
    let namespace = stack.namespace().unwrap_or_default();
    let reference = ObjectRef::new(name).within(&namespace);
    wait_for_cache(|| context.caches.updates.get(&reference)).await;
    update(stack, context, name).await
}

/// The Update from the cache. Only a live read proves its absence.
async fn update(
    stack: &Stack,
    context: &Context,
    name: &str,
) -> Result<Option<Box<Update>>, ReconcileError> {
    let namespace = stack.namespace().unwrap_or_default();
    let cached = context
        .caches
        .updates
        .get(&ObjectRef::new(name).within(&namespace));
    if let Some(update) = cached.as_ref().and_then(|object| object.as_result().ok()) {
        return Ok(Some(Box::new(update.clone())));
    }
    let live: Option<Decoded<Update>> = pko_kube::find(&context.client, &namespace, name).await?;
    // An Update that does not decode counts as absent.
    Ok(live.as_ref().and_then(decoded).cloned().map(Box::new))
}

/// Applies the Workspace unless it is current.
async fn apply_workspace(context: &Context, wanted: &Workspace) -> Result<Box<Workspace>, Refusal> {
    if let Some(found) = current_workspace(context, wanted).await {
        return Ok(found);
    }
    let own = wanted.labels().get(labels::STACK_NAME);
    let own = own.map(String::as_str).unwrap_or_default();
    if let Some(other) = other_owner(context, &reference(wanted), own) {
        return Err(Refusal::Invalid(format!(
            "the Workspace {:?} belongs to the Stack {other:?}: set another name for one of the two in \
             spec.workspaceTemplate.metadata.name, or delete the Workspace if that Stack is gone",
            wanted.name_any()
        )));
    }
    let applied = pko_kube::apply(&context.client, wanted, field_managers::OPERATOR)
        .await
        .map_err(|error| refusal(&error))?;
    context.memory.own_writes.record(&applied);
    context.memory.applied_workspaces.record(wanted, &applied);
    Ok(Box::new(applied))
}

fn reference(workspace: &Workspace) -> ObjectRef<Decoded<Workspace>> {
    let namespace = workspace.namespace().unwrap_or_default();
    ObjectRef::new(&workspace.name_any()).within(&namespace)
}

/// The current Workspace from the cache, after a short wait; none if it has to be applied.
async fn current_workspace(context: &Context, wanted: &Workspace) -> Option<Box<Workspace>> {
    let reference = reference(wanted);
    let seen = wait_for_cache(|| {
        let found = context.caches.workspaces.get(&reference);
        let found = found.as_ref().and_then(|object| object.as_result().ok());
        match context.memory.applied_workspaces.state_of(wanted, found) {
            ApplyState::Current => Some(found.cloned().map(Box::new)),
            ApplyState::NotObserved => None,
            ApplyState::Differs => Some(None),
        }
    });
    seen.await.flatten()
}

/// Creates an Update, unless an interrupted reconcile did. If the outcome is unknown, the next
/// reconcile looks for it.
async fn create(context: &Context, update: &Update) -> Result<Result<(), Refusal>, ReconcileError> {
    let manager = field_managers::OPERATOR;
    match pko_kube::create_if_absent(&context.client, update, manager).await {
        Ok(()) => Ok(Ok(())),
        Err(error) if error.is_refusal() => Ok(Err(refusal(&error))),
        Err(error) => Err(error.into()),
    }
}

/// Classifies the rejection of an object.
fn refusal(error: &RequestError) -> Refusal {
    if error.is_namespace_terminating() {
        return Refusal::NamespaceTerminating;
    }
    match error.status_code() {
        // An apply without force.
        Some(409) => Refusal::Invalid(format!(
            "{error}: {}; remove the other field manager from this field, or set the same value in spec.workspaceTemplate",
            error.cause()
        )),
        Some(400 | 422) => Refusal::Invalid(format!("{error}: {}", error.cause())),
        _ => Refusal::Failed(error.full_text()),
    }
}

/// The program of a Stack, or why there is none.
async fn source(
    stack: &Stack,
    context: &Context,
    wanted: &SourceRef,
) -> Result<Result<ProgramSource, SourceError>, ReconcileError> {
    match wanted {
        SourceRef::Git(git) => Ok(context.sources.git.find(stack, git).await?),
        SourceRef::Flux(flux) => Ok(context.sources.flux.find(stack, flux).await?),
        SourceRef::Program(name) => program(stack, context, name).await,
    }
}

/// The source in a Program from the cache. Only a live read proves that the Program is absent, or
/// has a generation that the Stack has left behind: at a start the cache may be empty or old.
async fn program(
    stack: &Stack,
    context: &Context,
    name: &str,
) -> Result<Result<ProgramSource, SourceError>, ReconcileError> {
    let namespace = stack.namespace().unwrap_or_default();
    let cached = context
        .caches
        .programs
        .get(&ObjectRef::new(name).within(&namespace));
    if let Some(program) = cached.filter(|program| !is_behind(program, stack)) {
        return Ok(program_source(stack, name, Some(program.as_ref())));
    }
    let live: Option<Decoded<Program>> = pko_kube::find(&context.client, &namespace, name).await?;
    Ok(program_source(stack, name, live.as_ref()))
}

async fn perform(
    stack: &Stack,
    context: &Context,
    effect: StackEffect,
) -> Result<(), ReconcileError> {
    let client = &context.client;
    match effect {
        StackEffect::AddFinalizer => {
            let written = pko_kube::add_finalizer(client, stack, finalizers::STACK).await?;
            context.memory.own_writes.record(&written);
        }
        StackEffect::RemoveFinalizer => {
            Box::pin(pko_kube::remove_finalizer(client, stack, finalizers::STACK)).await?;
        }
        StackEffect::PatchStatus(status) => write_status(stack, context, &status).await?,
        StackEffect::ReleaseUpdate(name) => {
            if let Some(update) = update(stack, context, &name).await? {
                update_finalizers::release(context, &update).await?;
            }
        }
        StackEffect::DeleteUpdate(name) => {
            if let Some(update) = update(stack, context, &name).await? {
                // An Update that has just started has another version: it is reconciled again.
                pko_kube::delete_unchanged(client, update.as_ref()).await?;
            }
        }
        StackEffect::DeleteWorkspace => delete_workspace(stack, context).await?,
        StackEffect::RequestPrerequisite {
            stack: other,
            value,
        } => prerequisites::request(context, &other, &value).await?,
        StackEffect::PruneUpdates => update_history::prune(stack, context).await?,
        StackEffect::Emit(event) => {
            let note = EventNote {
                reason: event.reason.as_str(),
                message: &event.message,
                warning: event.warning,
            };
            log_event_error(context.recorders.stack.record(stack, &note).await);
        }
    }
    Ok(())
}

/// Deletes the Stack's Workspace unless it belongs to another Stack: the template may give it any
/// name.
async fn delete_workspace(stack: &Stack, context: &Context) -> Result<(), ReconcileError> {
    let namespace = stack.namespace().unwrap_or_default();
    let workspace = ObjectRef::new(workspace_name(stack)).within(&namespace);
    if other_owner(context, &workspace, &stack.name_any()).is_none() {
        pko_kube::delete::<Workspace>(&context.client, &namespace, &workspace.name, None).await?;
    }
    Ok(())
}

/// The other Stack that owns a Workspace. An apply would silently take it over, because all Stacks
/// have the same field manager.
fn other_owner(
    context: &Context,
    workspace: &ObjectRef<Decoded<Workspace>>,
    own: &str,
) -> Option<String> {
    let found = context.caches.workspaces.get(workspace)?;
    let owner = found.labels().get(labels::STACK_NAME)?;
    (owner != own).then(|| owner.clone())
}

/// Writes a status unless it is unchanged.
async fn publish_status(
    stack: &Stack,
    context: &Context,
    status: &StackStatus,
) -> Result<(), ReconcileError> {
    if stack.status.as_ref() == Some(status) {
        return Ok(());
    }
    write_status(stack, context, status).await
}

fn belongs_to(metadata: &ObjectMeta, stack: &Stack) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == stack.metadata.uid.as_ref())
}

/// Writes a status unless the Stack has changed since. An old copy of the Stack could lose its
/// current Update and lead to a second one.
async fn write_status(
    stack: &impl kube::ResourceExt,
    context: &Context,
    status: &StackStatus,
) -> Result<(), ReconcileError> {
    let manager = field_managers::STACK_STATUS;
    context
        .write_status_unless_changed::<Stack>(stack, status, manager)
        .await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn triggered(labels: &Value, owners: &Value) -> Option<String> {
        let update = json!({
            "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Update", "spec": {},
            "metadata": { "name": "demo-1", "namespace": "shop", "labels": labels, "ownerReferences": owners },
        });
        let update: Update = serde_json::from_value(update).unwrap();
        stack_of(&update).map(|stack| stack.name)
    }

    #[test]
    fn update_triggers_its_stack_whatever_its_owner() {
        let owner = |kind: &str, name: &str| json!([{ "apiVersion": "v1", "kind": kind, "name": name, "uid": "1" }]);
        let demo = Some("demo".to_owned());
        let label = json!({ labels::STACK_NAME: "demo" });
        // The destroy of a Stack that is deleted in the foreground belongs to its Workspace alone.
        assert_eq!(triggered(&label, &owner("Workspace", "demo")), demo);
        assert_eq!(triggered(&json!({}), &owner("Stack", "demo")), demo);
        assert_eq!(triggered(&json!({}), &owner("Workspace", "demo")), None);
    }
}
