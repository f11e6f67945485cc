//! Where the programs of Stacks come from: git servers, which are polled, and objects with
//! artifacts, which are watched.

mod flux;
mod git;

use kube::{
    Client, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use pko_api::{Decoded, Stack};
use pko_core::stack::{FluxSourceGroups, ProgramSource, SourceError, SourceRef};
use tokio::task::JoinHandle;

use crate::watch::StackTrigger;

pub(crate) use git::GitSettings;

pub(crate) type SourceResult = Result<ProgramSource, SourceError>;

/// All sources but Programs.
pub(crate) struct Sources {
    pub(crate) git: git::Repositories,
    pub(crate) flux: flux::FluxKinds,
    stacks: Store<Decoded<Stack>>,
}

impl Sources {
    /// Works in these namespaces, or in all if there are none.
    pub(crate) fn new(
        client: &Client,
        stacks: Store<Decoded<Stack>>,
        namespaces: Vec<String>,
        settings: GitSettings,
        groups: FluxSourceGroups,
        trigger: &StackTrigger,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            git: git::Repositories::new(client, settings, trigger)?,
            flux: flux::FluxKinds::new(client, stacks.clone(), namespaces, groups, trigger),
            stacks,
        })
    }

    /// Drops the subscriptions and watches that no Stack needs.
    pub(crate) fn drop_unused(&self) {
        let stacks = self.stacks.state();
        let wanted = stacks.iter().filter_map(|stack| {
            let stack = stack.as_result().ok().filter(|stack| needs_source(stack))?;
            Some((reference(stack), wanted(stack)?))
        });
        let (mut repositories, mut kinds) = (Vec::new(), Vec::new());
        for (stack, wanted) in wanted {
            match wanted {
                SourceRef::Git(_) => repositories.push(stack),
                SourceRef::Flux(flux) => kinds.push(flux::kind_of(&flux)),
                SourceRef::Program(_) => {}
            }
        }
        self.git.keep_only(&repositories.into_iter().collect());
        self.flux.keep_only(&kinds.into_iter().collect());
    }
}

/// Whether a Stack needs its source. A suspended one does not run; one that is being deleted
/// subscribes again if its destroy needs the program.
fn needs_source(stack: &Stack) -> bool {
    let is_suspended = stack.spec.suspend.unwrap_or(false);
    !is_suspended && stack.metadata.deletion_timestamp.is_none()
}

fn wanted(stack: &Stack) -> Option<SourceRef> {
    SourceRef::of(stack).ok().flatten()
}

fn reference(stack: &Stack) -> ObjectRef<Decoded<Stack>> {
    let namespace = stack.namespace().unwrap_or_default();
    ObjectRef::new(&stack.name_any()).within(&namespace)
}

/// A task that ends when this is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
