//! Stacks: each is kept up to date by one Update after another.

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
        StackResponse, StackWrite, is_behind, program_source, workspace_name,
    },
    workspace::is_ready,
};
use pko_kube::{EventNote, RequestError};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    Context, Pass, PassError, action, after_error,
    context::{Standing, fresh, readable, soon, told},
    drive, supervised,
};
use crate::watch::shared::receiving;

/// What wakes a Stack besides its own changes.
pub(crate) struct Wakers<Stacks, Workspaces, Updates, Programs> {
    pub(crate) stacks: Stacks,
    pub(crate) workspaces: Workspaces,
    pub(crate) updates: Updates,
    pub(crate) programs: Programs,
    /// Stacks whose source has news, or that refer to something that has changed.
    pub(crate) woken: UnboundedReceiver<ObjectRef<Decoded<Stack>>>,
}

/// Runs the controller until the manager ends.
pub(crate) async fn run(
    controller: Controller<Decoded<Stack>>,
    wakers: Wakers<
        impl Stream<Item = Arc<Decoded<Stack>>> + Send + 'static,
        impl Stream<Item = Arc<Decoded<Workspace>>> + Send + 'static,
        impl Stream<Item = Arc<Decoded<Update>>> + Send + 'static,
        impl Stream<Item = Arc<Decoded<Program>>> + Send + 'static,
    >,
    context: Arc<Context>,
) {
    let (stacks, others) = (controller.store(), controller.store());
    let stream = controller
        .watches_shared_stream(wakers.workspaces, |workspace: Arc<Decoded<Workspace>>| {
            stack_of(workspace.as_ref())
        })
        .watches_shared_stream(wakers.updates, |update: Arc<Decoded<Update>>| {
            stack_of(update.as_ref())
        })
        .watches_shared_stream(wakers.programs, move |program| {
            neighbours(&stacks, program.as_ref(), uses_program)
        })
        .watches_shared_stream(wakers.stacks, move |stack| {
            neighbours(&others, stack.as_ref(), waits_for)
        })
        .reconcile_on(receiving(wakers.woken))
        .run(
            supervised(events::STACK_CONTROLLER, reconcile),
            |_, error, _| after_error(error),
            context,
        );
    stream.for_each(|_| std::future::ready(())).await;
}

/// The Stack that a Workspace or an Update was made for. It may not belong to it: see `is_deleted_in_foreground`.
fn stack_of(object: &impl kube::ResourceExt) -> Option<ObjectRef<Decoded<Stack>>> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| owner.kind == "Stack");
    let label = object.labels().get(labels::STACK_NAME);
    let name = label.or(owner.map(|owner| &owner.name))?;
    let namespace = object.namespace()?;
    Some(ObjectRef::new(name).within(&namespace))
}

/// The Stacks of the same namespace that have to do with this object.
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
) -> Result<Action, PassError> {
    let Some(object) = fresh(object, &context.stacks, &context).await? else {
        return Ok(Action::await_change());
    };
    match object.as_result() {
        Ok(stack) => {
            let pass = StackPass {
                stack,
                context: &context,
            };
            let mut observed = ObservedStack::new(stack.clone());
            observed.unreleased = update_finalizers::unreleased(stack, &context);
            observed.settings.watches_secrets = context.versions.has_secrets();
            Box::pin(drive(&pass, observed)).await
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

struct StackPass<'pass> {
    stack: &'pass Stack,
    context: &'pass Context,
}

impl Pass for StackPass<'_> {
    type Observed = ObservedStack;

    async fn read(&self, read: StackRead) -> Result<StackResponse, PassError> {
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
                let outputs = secret.as_ref().map(pko_kube::masked_outputs);
                Ok(outputs.map_or(StackResponse::NoOutputs, StackResponse::Outputs))
            }
            StackRead::Source(wanted) => Ok(StackResponse::Source(
                source(stack, context, &wanted).await?,
            )),
            StackRead::ConfigMaps(names) => {
                let namespace = stack.namespace().unwrap_or_default();
                let versions = &context.versions;
                let versions = versions.config_maps(&context.client, &namespace, names);
                Ok(StackResponse::ConfigMaps(versions.await?))
            }
            StackRead::Secrets(names) => {
                let namespace = stack.namespace().unwrap_or_default();
                let versions = context.versions.secrets(&context.client, &namespace, names);
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

    async fn write(&self, write: StackWrite) -> Result<StackResponse, PassError> {
        let Self { stack, context } = *self;
        match write {
            StackWrite::PublishOutputs(secret) => {
                let published = outputs::publish(stack, context, secret.as_deref()).await?;
                Ok(StackResponse::Published(published))
            }
            StackWrite::ApplyWorkspace(workspace, status) => {
                let seen = workspace_seen(context, &workspace).await;
                // What is ready as it is needs no words: the next ones are about the Update.
                if let Some(ready) = seen.filter(|seen| is_ready(seen)) {
                    return Ok(StackResponse::Workspace(Ok(ready)));
                }
                publish_status(stack, context, &status).await?;
                Ok(StackResponse::Workspace(
                    workspace_in_place(context, &workspace).await,
                ))
            }
            StackWrite::CreateUpdate(update, status) => {
                publish_status(stack, context, &status).await?;
                Ok(StackResponse::Created(create(context, &update).await?))
            }
        }
    }

    async fn act(&self, _: &ObservedStack, effect: StackEffect) -> Result<(), PassError> {
        Box::pin(act(self.stack, self.context, effect)).await
    }

    fn object(&self) -> (&'static str, &ObjectMeta) {
        (Stack::KIND, &self.stack.metadata)
    }

    fn context(&self) -> &Context {
        self.context
    }
}

/// The current Update, which may have been made a moment ago.
async fn current_update(
    stack: &Stack,
    context: &Context,
    name: &str,
) -> Result<Option<Box<Update>>, PassError> {
    let namespace = stack.namespace().unwrap_or_default();
    let reference = ObjectRef::new(name).within(&namespace);
    soon(|| context.updates.get(&reference)).await;
    update(stack, context, name).await
}

/// The Update from the cache; its absence is believed from a live read only.
async fn update(
    stack: &Stack,
    context: &Context,
    name: &str,
) -> Result<Option<Box<Update>>, PassError> {
    let namespace = stack.namespace().unwrap_or_default();
    let cached = context
        .updates
        .get(&ObjectRef::new(name).within(&namespace));
    if let Some(update) = cached.as_ref().and_then(|object| object.as_result().ok()) {
        return Ok(Some(Box::new(update.clone())));
    }
    let live: Option<Decoded<Update>> = pko_kube::find(&context.client, &namespace, name).await?;
    // One that does not decode says nothing of its run: it is as good as gone.
    Ok(live.as_ref().and_then(readable).cloned().map(Box::new))
}

/// The Workspace, applied unless it is in place already.
async fn workspace_in_place(
    context: &Context,
    wanted: &Workspace,
) -> Result<Box<Workspace>, Refusal> {
    if let Some(found) = workspace_seen(context, wanted).await {
        return Ok(found);
    }
    let own = wanted.labels().get(labels::STACK_NAME);
    let own = own.map(String::as_str).unwrap_or_default();
    if let Some(other) = other_owner(context, &reference(wanted), own) {
        return Err(Refusal::Invalid(format!(
            "the Workspace {:?} is the Stack {other:?}'s: give one of the two another name in \
             spec.workspaceTemplate.metadata.name, or delete the Workspace if that Stack is gone",
            wanted.name_any()
        )));
    }
    let applied = pko_kube::apply(&context.client, wanted, field_managers::OPERATOR)
        .await
        .map_err(|error| refusal(&error))?;
    context.own_writes.record(&applied);
    context.applied.remember(wanted, &applied);
    Ok(Box::new(applied))
}

fn reference(workspace: &Workspace) -> ObjectRef<Decoded<Workspace>> {
    let namespace = workspace.namespace().unwrap_or_default();
    ObjectRef::new(&workspace.name_any()).within(&namespace)
}

/// The Workspace as the cache has it, or will have it in a moment, if nothing has to be applied.
async fn workspace_seen(context: &Context, wanted: &Workspace) -> Option<Box<Workspace>> {
    let reference = reference(wanted);
    let seen = soon(|| {
        let found = context.workspaces.get(&reference);
        let found = found.as_ref().and_then(|object| object.as_result().ok());
        match context.applied.standing(wanted, found) {
            Standing::InPlace => Some(found.cloned().map(Box::new)),
            Standing::NotSeen => None,
            Standing::Other => Some(None),
        }
    });
    seen.await.flatten()
}

/// Creates an Update. One of this name that is there already was made by a pass that did not come to its end. Where
/// nobody knows whether it exists, the next pass looks for it.
async fn create(context: &Context, update: &Update) -> Result<Result<(), Refusal>, PassError> {
    let manager = field_managers::OPERATOR;
    match pko_kube::create_if_absent(&context.client, update, manager).await {
        Ok(()) => Ok(Ok(())),
        Err(error) if error.is_refusal() => Ok(Err(refusal(&error))),
        Err(error) => Err(error.into()),
    }
}

/// What it means that the API server does not take an object.
fn refusal(error: &RequestError) -> Refusal {
    if error.is_namespace_terminating() {
        return Refusal::NamespaceTerminating;
    }
    match error.status_code() {
        // Of an apply, which forces nobody.
        Some(409) => Refusal::Invalid(format!(
            "{error}: {}; whoever else has set this field has to give it up, or spec.workspaceTemplate has to say the same",
            error.cause()
        )),
        Some(400 | 422) => Refusal::Invalid(format!("{error}: {}", error.cause())),
        _ => Refusal::Failed(error.full_text()),
    }
}

/// The program that a Stack wants, or why there is none.
async fn source(
    stack: &Stack,
    context: &Context,
    wanted: &SourceRef,
) -> Result<Result<ProgramSource, SourceError>, PassError> {
    match wanted {
        SourceRef::Git(git) => Ok(context.sources.git.find(stack, git).await?),
        SourceRef::Flux(flux) => Ok(context.sources.flux.find(stack, flux).await?),
        SourceRef::Program(name) => program(stack, context, name).await,
    }
}

/// The source that a Program is, as the cache has it. Its absence is believed from a live read only, and so is a
/// generation that the Stack has left behind: after a start the cache may not be filled yet, or with an old list.
async fn program(
    stack: &Stack,
    context: &Context,
    name: &str,
) -> Result<Result<ProgramSource, SourceError>, PassError> {
    let namespace = stack.namespace().unwrap_or_default();
    let cached = context
        .programs
        .get(&ObjectRef::new(name).within(&namespace));
    if let Some(program) = cached.filter(|program| !is_behind(program, stack)) {
        return Ok(program_source(stack, name, Some(program.as_ref())));
    }
    let live: Option<Decoded<Program>> = pko_kube::find(&context.client, &namespace, name).await?;
    Ok(program_source(stack, name, live.as_ref()))
}

async fn act(stack: &Stack, context: &Context, effect: StackEffect) -> Result<(), PassError> {
    let client = &context.client;
    match effect {
        StackEffect::AddFinalizer => {
            let written = pko_kube::add_finalizer(client, stack, finalizers::STACK).await?;
            context.own_writes.record(&written);
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
                // One that has just begun has another version: it is looked at again.
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
            told(context.recorders.stack.record(stack, &note).await);
        }
    }
    Ok(())
}

/// Deletes the Stack's Workspace. Its template may give it any name, so one that is another Stack's stays.
async fn delete_workspace(stack: &Stack, context: &Context) -> Result<(), PassError> {
    let namespace = stack.namespace().unwrap_or_default();
    let workspace = ObjectRef::new(workspace_name(stack)).within(&namespace);
    if other_owner(context, &workspace, &stack.name_any()).is_none() {
        pko_kube::delete::<Workspace>(&context.client, &namespace, &workspace.name, None).await?;
    }
    Ok(())
}

/// The other Stack that a Workspace belongs to. An apply would take it over without a word: all Stacks have the same field
/// manager.
fn other_owner(
    context: &Context,
    workspace: &ObjectRef<Decoded<Workspace>>,
    own: &str,
) -> Option<String> {
    let found = context.workspaces.get(workspace)?;
    let owner = found.labels().get(labels::STACK_NAME)?;
    (owner != own).then(|| owner.clone())
}

/// Writes a status unless it is stored already.
async fn publish_status(
    stack: &Stack,
    context: &Context,
    status: &StackStatus,
) -> Result<(), PassError> {
    if stack.status.as_ref() == Some(status) {
        return Ok(());
    }
    write_status(stack, context, status).await
}

/// Whether the Stack is an owner of this object.
fn belongs_to(metadata: &ObjectMeta, stack: &Stack) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == stack.metadata.uid.as_ref())
}

/// Writes a status. From an old copy of a Stack it would forget the Update that the Stack has now, and lead to one too
/// many.
async fn write_status(
    stack: &impl kube::ResourceExt,
    context: &Context,
    status: &StackStatus,
) -> Result<(), PassError> {
    let manager = field_managers::STACK_STATUS;
    context
        .write_status_unless_changed::<Stack>(stack, status, manager)
        .await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn woken(labels: &Value, owners: &Value) -> Option<String> {
        let update = json!({
            "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Update", "spec": {},
            "metadata": { "name": "demo-1", "namespace": "shop", "labels": labels, "ownerReferences": owners },
        });
        let update: Update = serde_json::from_value(update).unwrap();
        stack_of(&update).map(|stack| stack.name)
    }

    #[test]
    fn an_update_wakes_its_stack_whomever_it_belongs_to() {
        let owner = |kind: &str, name: &str| json!([{ "apiVersion": "v1", "kind": kind, "name": name, "uid": "1" }]);
        let demo = Some("demo".to_owned());
        let label = json!({ labels::STACK_NAME: "demo" });
        // The destroy of a Stack that is deleted in the foreground belongs to its Workspace alone.
        assert_eq!(woken(&label, &owner("Workspace", "demo")), demo);
        assert_eq!(woken(&json!({}), &owner("Stack", "demo")), demo);
        assert_eq!(woken(&json!({}), &owner("Workspace", "demo")), None);
    }
}
