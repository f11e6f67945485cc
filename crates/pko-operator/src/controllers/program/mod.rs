//! The controller of Programs: publishes each as an archive, and keeps old generations as long as a
//! Workspace refers to them.

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
        ArchiveKey, Generations, ObservedProgram, ProgramAddresses as _, ProgramEffect,
        ProgramRead, ProgramResponse, Publication, generation_at, generation_named_in,
        program_label,
    },
};
use pko_kube::EventNote;

use super::{
    Context, ReconcileError, Reconciler, after_error,
    context::{latest, log_event_error},
    instrument, reconcile_object,
};
use crate::server::programs::process;

/// Runs until the manager ends.
pub(crate) async fn run(controller: Controller<Decoded<Program>>, context: Arc<Context>) {
    let stream = controller.run(
        instrument(events::PROGRAM_CONTROLLER, reconcile),
        |_, error, _| after_error(error),
        context,
    );
    futures::StreamExt::for_each(stream, |_| std::future::ready(())).await;
}

async fn reconcile(
    object: Arc<Decoded<Program>>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let Some(object) = latest(object, &context.caches.programs, &context).await? else {
        return Ok(Action::await_change());
    };
    let reconciler = ProgramReconciler {
        object: &object,
        context: &context,
    };
    let program = match object.as_result() {
        // Garbage collection deletes its revisions.
        _ if object.meta().deletion_timestamp.is_some() => return Ok(Action::await_change()),
        Ok(program) => program,
        Err(undecodable) => {
            for effect in ObservedProgram::decide_undecodable(undecodable, Timestamp::now()).effects
            {
                reconciler.perform_effect(effect).await?;
            }
            return Ok(Action::await_change());
        }
    };
    let generation = program.metadata.generation.unwrap_or_default();
    let observed = ObservedProgram {
        program: program.clone(),
        advertised: context.program_urls.host.clone(),
        seal: context.program_urls.seal(program, generation),
        generations: Fact::Unknown,
        publication: Fact::Unknown,
    };
    reconcile_object(&reconciler, observed).await
}

struct ProgramReconciler<'a> {
    object: &'a Decoded<Program>,
    context: &'a Context,
}

impl Reconciler for ProgramReconciler<'_> {
    type Observed = ObservedProgram;

    async fn read(&self, read: ProgramRead) -> Result<ProgramResponse, ReconcileError> {
        Ok(match read {
            ProgramRead::Generations => ProgramResponse::Generations(self.generations().await?),
            ProgramRead::Publication => ProgramResponse::Publication(self.publication().await?),
        })
    }

    async fn write(&self, write: Infallible) -> Result<ProgramResponse, ReconcileError> {
        match write {}
    }

    async fn perform(
        &self,
        _: &ObservedProgram,
        effect: ProgramEffect,
    ) -> Result<(), ReconcileError> {
        self.perform_effect(effect).await
    }

    fn object(&self) -> (&'static str, &ObjectMeta) {
        (Program::KIND, self.object.meta())
    }

    fn context(&self) -> &Context {
        self.context
    }
}

impl ProgramReconciler<'_> {
    async fn perform_effect(&self, effect: ProgramEffect) -> Result<(), ReconcileError> {
        let Self { object, context } = *self;
        let client = &context.client;
        match effect {
            ProgramEffect::StoreRevision(revision) => {
                pko_kube::create_if_absent(client, revision.as_ref(), field_managers::OPERATOR)
                    .await?;
            }
            ProgramEffect::PatchStatus(status) => {
                let manager = field_managers::PROGRAM_STATUS;
                context
                    .write_status::<Program>(object, &status, manager)
                    .await?;
            }
            ProgramEffect::DeleteRevision { generation, name } => {
                let namespace = object.namespace().unwrap_or_default();
                let uid = object.uid().unwrap_or_default();
                context
                    .program_archives
                    .remove(&ArchiveKey { uid, generation });
                pko_kube::delete::<ControllerRevision>(client, &namespace, &name, None).await?;
            }
            ProgramEffect::Emit(event) => {
                let note = EventNote {
                    reason: event.reason.as_str(),
                    message: &event.message,
                    warning: event.warning,
                };
                log_event_error(context.recorders.program.record(object, &note).await);
            }
        }
        Ok(())
    }

    /// What is made of the body, by a live read. None if the Program has another generation by now.
    async fn publication(&self) -> Result<Option<Box<Publication>>, ReconcileError> {
        let (store, metadata) = (&self.context.program_archives, self.object.meta());
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        // Bodies and their archives take memory.
        let _place = store.place_to_publish().await;
        let live: Option<Decoded<Program>> =
            pko_kube::find(&self.context.client, namespace, name).await?;
        let Some(Decoded::Object(program)) = live else {
            return Ok(None);
        };
        let found = (&program.metadata.uid, program.metadata.generation);
        if found != (&metadata.uid, metadata.generation) {
            return Ok(None);
        }
        let made = process(move || Publication::of(&program)).await?;
        if let (Ok(archive), Some(uid), Some(generation)) =
            (&made.archive, &metadata.uid, metadata.generation)
        {
            let uid = uid.clone();
            store.insert(ArchiveKey { uid, generation }, archive.clone());
        }
        Ok(Some(Box::new(made)))
    }

    /// The stored generations, by a live read, and those that Workspaces refer to, by the cache.
    async fn generations(&self) -> Result<Generations, ReconcileError> {
        let metadata = self.object.meta();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let (label, name) = program_label(metadata);
        let label = (label, name.as_str());
        // Without the programs in them, which can be as large as objects can be.
        let client = &self.context.client;
        let kept = pko_kube::list_labelled_metadata::<ControllerRevision>(client, namespace, label)
            .await?;
        let kept: BTreeSet<i64> = kept
            .iter()
            .filter_map(|revision| generation_named_in(revision, metadata))
            .collect();
        let referred = self.referred(&kept).await;
        Ok(Generations { kept, referred })
    }

    /// The generations that Workspaces of the namespace refer to; all of them if a Workspace does
    /// not decode.
    async fn referred(&self, kept: &BTreeSet<i64>) -> BTreeSet<i64> {
        let metadata = self.object.meta();
        let (namespace, name) = (
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        );
        // By then all caches are filled. Waiting for a cache itself would take the wake-up from
        // another waiter.
        self.context.runs.queue.wait_until_primed().await;
        let workspaces = self.context.caches.workspaces.state().into_iter();
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

/// The archive that a Workspace fetches, if any.
fn address(workspace: &Workspace) -> Option<&str> {
    workspace.spec.flux.as_ref()?.url.as_deref()
}
