//! Where Stacks get their programs from: git servers, which are asked for all at once, and objects with artifacts, which
//! are watched. What is done with what is found is decided elsewhere.

mod flux;
mod git;

use kube::{
    Client, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use pko_api::{Decoded, Stack};
use pko_core::stack::{ProgramSource, SourceError, SourceRef};
use tokio::{sync::mpsc::UnboundedSender, task::JoinHandle};

pub(crate) use git::GitSettings;

/// A program at a revision, or why there is none.
pub(crate) type Found = Result<ProgramSource, SourceError>;

/// Tells Stacks to look: there is news of their source.
pub(crate) type Wake = UnboundedSender<ObjectRef<Decoded<Stack>>>;

/// Everything that Stacks get their programs from, besides Programs.
pub(crate) struct Sources {
    pub(crate) git: git::Repositories,
    pub(crate) flux: flux::Kinds,
    stacks: Store<Decoded<Stack>>,
}

impl Sources {
    /// For the Stacks of this cache, in these namespaces or in all if there are none.
    pub(crate) fn new(
        client: &Client,
        stacks: Store<Decoded<Stack>>,
        namespaces: Vec<String>,
        settings: GitSettings,
        wake: &Wake,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            git: git::Repositories::new(client, settings, wake)?,
            flux: flux::Kinds::new(client, stacks.clone(), namespaces, wake),
            stacks,
        })
    }

    /// Lets go of what no Stack wants any more.
    pub(crate) fn tidy(&self) {
        let stacks = self.stacks.state();
        let wanted = stacks.iter().filter_map(|stack| {
            let stack = stack.as_result().ok().filter(|stack| is_at_work(stack))?;
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

/// Whether anybody asks for the source of a Stack: one that rests does not run, and whoever goes without a program
/// asks again if it takes one after all.
fn is_at_work(stack: &Stack) -> bool {
    let rests = stack.spec.suspend.unwrap_or(false);
    !rests && stack.metadata.deletion_timestamp.is_none()
}

fn wanted(stack: &Stack) -> Option<SourceRef> {
    SourceRef::of(stack).ok().flatten()
}

/// The Stack by its name.
fn reference(stack: &Stack) -> ObjectRef<Decoded<Stack>> {
    let namespace = stack.namespace().unwrap_or_default();
    ObjectRef::new(&stack.name_any()).within(&namespace)
}

/// Something that goes on until it is dropped.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
