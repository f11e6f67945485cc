//! All watches, and the triggers beside them.

use kube::runtime::reflector::ObjectRef;
use pko_api::{Decoded, Program, Stack, Update, Workspace, pulumi::v1::ProgramBody};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{
    StackTrigger, UpdateRef, UpdateTrigger, WorkspaceTrigger,
    pods::PodWatches,
    shared::{SharedWatch, WatchConfig},
    versions::VersionWatches,
};

/// The watches, before they run.
pub(crate) struct SharedWatches {
    pub(crate) stacks: SharedWatch<Decoded<Stack>>,
    pub(crate) workspaces: SharedWatch<Decoded<Workspace>>,
    pub(crate) updates: SharedWatch<Decoded<Update>>,
    pub(crate) programs: SharedWatch<Decoded<Program>>,
    pub(crate) pods: PodWatches,
    pub(crate) versions: VersionWatches,
}

impl SharedWatches {
    /// Watches our kinds, the children of Workspaces if they are pods, and what Stacks refer to.
    pub(crate) fn new(config: &WatchConfig, with_pods: bool, with_secrets: bool) -> Self {
        Self {
            stacks: SharedWatch::new(config),
            workspaces: SharedWatch::new(config),
            updates: SharedWatch::new(config),
            programs: SharedWatch::stripped(config, drop_body),
            pods: if with_pods {
                PodWatches::new(config)
            } else {
                PodWatches::none()
            },
            versions: VersionWatches::new(config, with_secrets),
        }
    }
}

/// A body can be as large as an object can be, and is read only when it was edited or is fetched.
fn drop_body(program: &mut Decoded<Program>) {
    if let Decoded::Object(program) = program {
        program.program = ProgramBody::default();
    }
}

/// Reconciles objects for reasons that no watch shows.
#[derive(Clone)]
pub(crate) struct Triggers {
    pub(crate) stacks: StackTrigger,
    pub(crate) workspaces: WorkspaceTrigger,
    pub(crate) updates: UpdateTrigger,
}

/// The other ends of [`Triggers`], for the controllers.
pub(crate) struct TriggerStreams {
    pub(crate) stacks: UnboundedReceiver<ObjectRef<Decoded<Stack>>>,
    pub(crate) workspaces: UnboundedReceiver<ObjectRef<Decoded<Workspace>>>,
    pub(crate) updates: UnboundedReceiver<UpdateRef>,
}

impl Triggers {
    pub(crate) fn new() -> (Self, TriggerStreams) {
        let (stacks, stack_stream) = unbounded_channel();
        let (workspaces, workspace_stream) = unbounded_channel();
        let (updates, update_stream) = unbounded_channel();
        let triggers = Self {
            stacks,
            workspaces,
            updates,
        };
        let streams = TriggerStreams {
            stacks: stack_stream,
            workspaces: workspace_stream,
            updates: update_stream,
        };
        (triggers, streams)
    }
}
