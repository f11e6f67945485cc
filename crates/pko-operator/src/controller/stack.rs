//! Stacks: each is kept up to date by one Update after another.

use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    ResourceExt as _,
    runtime::{Controller, controller::Action, reflector::ObjectRef},
};
use pko_api::{
    Decoded, Program, Stack, Update, Workspace,
    names::{events, field_managers, finalizers, reasons::StackReason},
    pulumi::v1::StackStatus,
};
use pko_core::{
    Class,
    stack::{Answer, Effect, Question, Source, World, decide_undecodable, program_source},
};
use pko_kube::Notice;

use super::{
    Context, Pass, PassError, action, after_error,
    context::{fresh, readable, told},
    drive, supervised,
};

/// How soon a Workspace that the API server did not take is applied again.
const APPLY_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);

/// Runs the controller until the manager ends; what belongs to a Stack wakes it.
pub(crate) async fn run(
    controller: Controller<Decoded<Stack>>,
    workspaces: impl Stream<Item = Arc<Decoded<Workspace>>> + Send + 'static,
    updates: impl Stream<Item = Arc<Decoded<Update>>> + Send + 'static,
    programs: impl Stream<Item = Arc<Decoded<Program>>> + Send + 'static,
    context: Arc<Context>,
) {
    let stacks = controller.store();
    let users = move |program: Arc<Decoded<Program>>| {
        let (namespace, name) = (program.namespace(), program.name_any());
        let users = stacks
            .state()
            .into_iter()
            .filter(move |stack| stack.namespace() == namespace && uses_program(stack, &name));
        users
            .map(|stack| ObjectRef::from_obj(stack.as_ref()))
            .collect::<Vec<_>>()
    };
    let stream = controller
        .owns_shared_stream(workspaces)
        .owns_shared_stream(updates)
        .watches_shared_stream(programs, users)
        .run(
            supervised(events::STACK_CONTROLLER, reconcile),
            |_, error, _| after_error(error),
            context,
        );
    stream.for_each(|_| std::future::ready(())).await;
}

fn uses_program(stack: &Decoded<Stack>, name: &str) -> bool {
    let reference = stack
        .as_result()
        .ok()
        .and_then(|stack| stack.spec.program_ref.as_ref());
    reference.is_some_and(|reference| reference.name == name)
}

async fn reconcile(
    object: Arc<Decoded<Stack>>,
    context: Arc<Context>,
) -> Result<Action, PassError> {
    let Some(object) = fresh(object, &context).await? else {
        return Ok(Action::await_change());
    };
    match object.as_result() {
        Ok(stack) => {
            let pass = StackPass {
                stack,
                context: &context,
            };
            Box::pin(drive(&pass, World::new(stack.clone()))).await
        }
        Err(undecodable) => {
            let plan = decide_undecodable(undecodable, Timestamp::now());
            for effect in plan.effects {
                if let Effect::PatchStatus(status) = effect {
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
    type World = World;

    async fn answer(&self, question: Question) -> Result<Answer, PassError> {
        let Self { stack, context } = *self;
        match question {
            Question::CurrentUpdate(name) => {
                Ok(Answer::CurrentUpdate(update(stack, context, &name).await?))
            }
            Question::Outputs(name) => {
                let namespace = stack.namespace().unwrap_or_default();
                let secret: Option<Secret> =
                    pko_kube::find(&context.client, &namespace, &name).await?;
                let outputs = secret.as_ref().map(pko_kube::masked_outputs);
                Ok(outputs.map_or(Answer::NoOutputs, Answer::Outputs))
            }
            Question::Program(name) => Ok(Answer::Source(program(stack, context, &name).await?)),
            Question::ApplyWorkspace(workspace, status) => {
                if stack.status.as_ref() != Some(status.as_ref()) {
                    write_status(stack, context, &status).await?;
                }
                Ok(Answer::Workspace(
                    workspace_in_place(context, &workspace).await,
                ))
            }
        }
    }

    async fn act(&self, _: &World, effect: Effect) -> Result<(), PassError> {
        act(self.stack, self.context, effect).await
    }

    fn log(&self, rule: &'static str) {
        let Self { stack, .. } = self;
        tracing::info!(
            namespace = stack.namespace(),
            name = stack.name_any(),
            generation = stack.metadata.generation,
            rule,
            "Stack decided"
        );
    }
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
) -> Result<Box<Workspace>, Class> {
    let found = context
        .workspaces
        .get(&ObjectRef::new(&wanted.name_any()).within(&wanted.namespace().unwrap_or_default()));
    if let Some(found) = found.as_ref().and_then(|object| object.as_result().ok())
        && !context.written.is_stale(found)
        && context.applied.is_in_place(wanted, found)
    {
        return Ok(Box::new(found.clone()));
    }
    let applied = pko_kube::apply(&context.client, wanted, field_managers::OPERATOR)
        .await
        .map_err(|error| refused(&error))?;
    context.written.remember(&applied);
    context.applied.remember(wanted, &applied);
    Ok(Box::new(applied))
}

/// A Workspace that the API server does not take: the Stack says so, and it is tried again.
fn refused(error: &pko_kube::RequestError) -> Class {
    Class::Wait(StackReason::WorkspaceFailed, error.full_text(), APPLY_AGAIN)
}

/// The source that a Program is, as the cache has it. Its absence is believed from a live read only: after a start
/// the cache may not be filled yet, which is no reason to call a Ready Stack stalled.
async fn program(
    stack: &Stack,
    context: &Context,
    name: &str,
) -> Result<Result<Source, Class>, PassError> {
    let namespace = stack.namespace().unwrap_or_default();
    let cached = context
        .programs
        .get(&ObjectRef::new(name).within(&namespace));
    if let Some(program) = cached {
        return Ok(program_source(stack, name, Some(program.as_ref())));
    }
    let live: Option<Decoded<Program>> = pko_kube::find(&context.client, &namespace, name).await?;
    Ok(program_source(stack, name, live.as_ref()))
}

async fn act(stack: &Stack, context: &Context, effect: Effect) -> Result<(), PassError> {
    let client = &context.client;
    let namespace = stack.namespace().unwrap_or_default();
    match effect {
        Effect::AddFinalizer => {
            let written = pko_kube::add_finalizer(client, stack, finalizers::STACK).await?;
            context.written.remember(&written);
        }
        Effect::RemoveFinalizer => {
            pko_kube::remove_finalizer(client, stack, finalizers::STACK).await?;
        }
        Effect::PatchStatus(status) => write_status(stack, context, &status).await?,
        Effect::CreateUpdate { update, undo } => {
            if let Err(error) =
                pko_kube::create(client, update.as_ref(), field_managers::OPERATOR).await
            {
                // Where nobody knows whether it exists, the next pass looks for it.
                if error.is_refusal() {
                    write_status(stack, context, &undo).await?;
                }
                return Err(error.into());
            }
        }
        Effect::ReleaseUpdate(name) => {
            if let Some(update) = update(stack, context, &name).await? {
                pko_kube::remove_finalizer(client, update.as_ref(), finalizers::STACK).await?;
            }
        }
        Effect::DeleteWorkspace => {
            pko_kube::delete::<Workspace>(client, &namespace, &stack.name_any(), None).await?;
        }
        Effect::Emit(event) => {
            let notice = Notice {
                reason: event.reason.as_str(),
                message: &event.message,
                warning: event.warning,
            };
            told(context.reporters.stack.report(stack, &notice).await);
        }
    }
    Ok(())
}

async fn write_status(
    stack: &impl kube::ResourceExt,
    context: &Context,
    status: &StackStatus,
) -> Result<(), PassError> {
    let manager = field_managers::STACK_STATUS;
    context.write_status::<Stack>(stack, status, manager).await
}
