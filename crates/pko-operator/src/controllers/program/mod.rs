//! Programs: each is published as an archive, and its generations are kept as long as somebody needs them.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    Resource as _, api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Resource as _, ResourceExt as _,
    runtime::{Controller, controller::Action},
};
use pko_api::{
    Decoded, Program, Workspace,
    names::{events, field_managers},
};
use pko_core::{
    Fact, Machine as _,
    program::{
        Generations, ObservedProgram, ProgramEffect, ProgramRead, generation_at, generation_in,
        program_label,
    },
};
use pko_kube::EventNote;

use super::{
    Context, Pass, PassError, after_error,
    context::{fresh, told},
    drive, supervised,
};

/// Runs the controller until the manager ends.
pub(crate) async fn run(controller: Controller<Decoded<Program>>, context: Arc<Context>) {
    let stream = controller.run(
        supervised(events::PROGRAM_CONTROLLER, reconcile),
        |_, error, _| after_error(error),
        context,
    );
    futures::StreamExt::for_each(stream, |_| std::future::ready(())).await;
}

async fn reconcile(
    object: Arc<Decoded<Program>>,
    context: Arc<Context>,
) -> Result<Action, PassError> {
    let Some(object) = fresh(object, &context.programs, &context).await? else {
        return Ok(Action::await_change());
    };
    let pass = ProgramPass {
        object: &object,
        context: &context,
    };
    let program = match object.as_result() {
        // Its parts go with it.
        _ if object.meta().deletion_timestamp.is_some() => return Ok(Action::await_change()),
        Ok(program) => program,
        Err(undecodable) => {
            for effect in ObservedProgram::decide_undecodable(undecodable, Timestamp::now()).effects
            {
                pass.carry_out(effect).await?;
            }
            return Ok(Action::await_change());
        }
    };
    let generation = program.metadata.generation.unwrap_or_default();
    let seals = context.seals.as_ref();
    let observed = ObservedProgram {
        program: program.clone(),
        advertised: context.advertised.clone(),
        seal: seals.map(|seals| seals.seal(&program.metadata, generation)),
        generations: Fact::Unknown,
    };
    drive(&pass, observed).await
}

struct ProgramPass<'pass> {
    object: &'pass Decoded<Program>,
    context: &'pass Context,
}

impl Pass for ProgramPass<'_> {
    type Observed = ObservedProgram;

    async fn read(&self, read: ProgramRead) -> Result<Generations, PassError> {
        match read {
            ProgramRead::Generations => self.generations().await,
        }
    }

    async fn write(&self, write: Infallible) -> Result<Generations, PassError> {
        match write {}
    }

    async fn act(&self, _: &ObservedProgram, effect: ProgramEffect) -> Result<(), PassError> {
        self.carry_out(effect).await
    }

    fn object(&self) -> (&'static str, &ObjectMeta) {
        (Program::KIND, self.object.meta())
    }

    fn context(&self) -> &Context {
        self.context
    }
}

impl ProgramPass<'_> {
    async fn carry_out(&self, effect: ProgramEffect) -> Result<(), PassError> {
        let Self { object, context } = *self;
        let client = &context.client;
        match effect {
            ProgramEffect::Keep(revision) => {
                pko_kube::create_if_absent(client, revision.as_ref(), field_managers::OPERATOR)
                    .await?;
            }
            ProgramEffect::PatchStatus(status) => {
                let manager = field_managers::PROGRAM_STATUS;
                context
                    .write_status::<Program>(object, &status, manager)
                    .await?;
            }
            ProgramEffect::LetGo(name) => {
                let namespace = object.namespace().unwrap_or_default();
                pko_kube::delete::<ControllerRevision>(client, &namespace, &name, None).await?;
            }
            ProgramEffect::Emit(event) => {
                let note = EventNote {
                    reason: event.reason.as_str(),
                    message: &event.message,
                    warning: event.warning,
                };
                told(context.recorders.program.record(object, &note).await);
            }
        }
        Ok(())
    }

    /// What is kept, as the API server has it, and what is referred to, as the cache has it.
    async fn generations(&self) -> Result<Generations, PassError> {
        let metadata = self.object.meta();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let (label, name) = program_label(metadata);
        let label = (label, name.as_str());
        let kept: Vec<ControllerRevision> =
            pko_kube::list_labelled(&self.context.client, namespace, label).await?;
        let kept = kept.iter();
        let kept: BTreeSet<i64> = kept
            .filter_map(|revision| generation_in(revision, metadata))
            .collect();
        let referred = self.referred(&kept).await;
        Ok(Generations { kept, referred })
    }

    /// The generations that Workspaces of the namespace name. Where one of them can't be read, that is all of them.
    async fn referred(&self, kept: &BTreeSet<i64>) -> BTreeSet<i64> {
        let metadata = self.object.meta();
        let (namespace, name) = (
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        );
        // All caches are filled by then. They themselves wake only one of those who wait for them, and another one does.
        self.context.turns.are_primed().await;
        let workspaces = self.context.workspaces.state().into_iter();
        let mut workspaces =
            workspaces.filter(|workspace| workspace.namespace().as_deref() == Some(namespace));
        let named = workspaces.try_fold(BTreeSet::new(), |mut named, workspace| {
            let address = address(workspace.as_result().ok()?).unwrap_or_default();
            named.extend(generation_at(address, namespace, name));
            Some(named)
        });
        named.unwrap_or_else(|| kept.clone())
    }
}

/// Where a Workspace takes its program from, if that is an archive.
fn address(workspace: &Workspace) -> Option<&str> {
    workspace.spec.flux.as_ref()?.url.as_deref()
}
