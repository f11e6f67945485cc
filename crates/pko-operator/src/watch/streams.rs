//! All watches, and all controllers that live on them.

use std::{fmt::Debug, sync::Arc};

use k8s_openapi::NamespaceResourceScope;
use kube::runtime::{Controller, controller, reflector::ObjectRef};
use pko_api::{Decoded, Program, Stack, StoredKind, Update, Workspace};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::{
    pods::PodFeeds,
    shared::{Feed, Watching},
    versions::VersionFeeds,
};
use crate::{
    controllers::{Context, program, stack, update, workspace},
    runs::orphans::attend_to_abandoned,
};

/// So many times more Stacks, Workspaces and Updates are looked at at a time: a look may wait for a git server or an agent
/// that does not answer, which costs nothing, and others must not wait with it.
const WAITING_FOR_OTHERS: u16 = 20;

/// The watches, before they run.
pub(crate) struct Feeds {
    pub(crate) stacks: Feed<Decoded<Stack>>,
    pub(crate) workspaces: Feed<Decoded<Workspace>>,
    pub(crate) updates: Feed<Decoded<Update>>,
    pub(crate) programs: Feed<Decoded<Program>>,
    pub(crate) children: PodFeeds,
    pub(crate) versions: VersionFeeds,
}

/// Objects that somebody inside the manager has something to tell about.
pub(crate) struct Woken {
    pub(crate) stacks: UnboundedReceiver<ObjectRef<Decoded<Stack>>>,
    /// For who finds out while the watches run.
    pub(crate) wake_stacks: UnboundedSender<ObjectRef<Decoded<Stack>>>,
    pub(crate) workspaces: UnboundedReceiver<ObjectRef<Decoded<Workspace>>>,
    pub(crate) updates: UnboundedReceiver<ObjectRef<Decoded<Update>>>,
}

impl Feeds {
    /// Of all our kinds, of what pods consist of where workspaces are pods, and of what Stacks refer to.
    pub(crate) fn new(watching: &Watching, in_pods: bool, with_secrets: bool) -> Self {
        Self {
            stacks: Feed::new(watching),
            workspaces: Feed::new(watching),
            updates: Feed::new(watching),
            programs: Feed::new(watching),
            children: if in_pods {
                PodFeeds::new(watching)
            } else {
                PodFeeds::none()
            },
            versions: VersionFeeds::new(watching, with_secrets),
        }
    }

    /// Runs them and their controllers until the manager ends.
    pub(crate) async fn drive(mut self, woken: Woken, workers: u16, context: Arc<Context>) {
        let patient = workers.saturating_mul(WAITING_FOR_OTHERS);
        let controller_of_stacks = controller(&mut self.stacks, patient);
        let versions = self.versions.run(self.stacks.store(), woken.wake_stacks);
        let wakers = stack::Wakers {
            stacks: self.stacks.listen(),
            workspaces: self.workspaces.listen(),
            updates: self.updates.listen(),
            programs: self.programs.listen(),
            woken: woken.stacks,
        };
        let stacks = stack::run(controller_of_stacks, wakers, context.clone());
        let wakers = self
            .children
            .wakers(self.updates.listen(), woken.workspaces);
        let workspaces = controller(&mut self.workspaces, patient);
        let workspaces = workspace::run(workspaces, wakers, context.clone());
        let updates = update::run(
            controller(&mut self.updates, patient),
            self.workspaces.listen(),
            woken.updates,
            context.clone(),
        );
        let programs = program::run(controller(&mut self.programs, workers), context.clone());
        let (gone, met) = (self.updates.listen(), self.workspaces.listen());
        let abandoned = attend_to_abandoned(gone, met, context);
        tokio::join!(
            stacks,
            workspaces,
            updates,
            programs,
            abandoned,
            self.stacks.run(),
            self.workspaces.run(),
            self.updates.run(),
            self.programs.run(),
            self.children.run(),
            versions,
        );
    }
}

/// The controller of a kind, fed by its watch.
fn controller<K>(feed: &mut Feed<Decoded<K>>, concurrency: u16) -> Controller<Decoded<K>>
where
    K: StoredKind
        + kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Send
        + Sync
        + 'static,
{
    let config = controller::Config::default().concurrency(concurrency);
    Controller::for_shared_stream(feed.listen(), feed.store()).with_config(config)
}
