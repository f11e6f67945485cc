//! The state while steps are done. Pure.
//!
//! Resources the run has dealt with come first, in the order it did; what it has not come to yet
//! follows. So each resource stands after all it refers to, at any moment, which is what Pulumi's
//! own integrity check wants.

use super::{Operation, Step};
use crate::{property::Properties, resource::Resource, urn::Urn};

/// A state under change.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    done: Vec<Resource>,
    remaining: Vec<Resource>,
}

impl Snapshot {
    /// Starts from a state.
    #[must_use]
    pub fn new(resources: Vec<Resource>) -> Self {
        Self {
            done: Vec::new(),
            remaining: resources,
        }
    }

    /// All resources, in the order of a checkpoint.
    #[must_use]
    pub fn resources(&self) -> Vec<Resource> {
        self.done.iter().chain(&self.remaining).cloned().collect()
    }

    /// Takes over what a step did.
    pub fn apply(&mut self, step: &Step) {
        match step.operation {
            Operation::Same | Operation::Create | Operation::Update | Operation::Read => {
                self.forget(step.old.as_ref());
                self.rename(step);
                self.done.extend(step.new.clone());
            }
            // a refresh may leave out what others refer to, so nothing moves
            Operation::Refresh => {
                for resource in &mut self.remaining {
                    if let Some(new) = step.new.as_ref().filter(|new| new.urn == resource.urn) {
                        resource.clone_from(new);
                    }
                }
            }
            Operation::CreateReplacement => {
                let old = step.old.as_ref();
                let same = |resource: &Resource| Some(&resource.urn) == old.map(|old| &old.urn);
                self.remaining
                    .retain(|resource| !(same(resource) && resource.pending_replacement));
                for resource in &mut self.remaining {
                    if Some(&resource.urn) == step.old.as_ref().map(|old| &old.urn) {
                        resource.delete = true;
                    }
                }
                self.done.extend(step.new.clone());
            }
            // its name stays, for those that refer to it, until it is there again
            Operation::DeleteReplaced if step.makes_room => {
                for resource in &mut self.remaining {
                    if step.old.as_ref().is_some_and(|old| is_same(resource, old)) {
                        resource.pending_replacement = true;
                    }
                }
            }
            Operation::Delete | Operation::DeleteReplaced => self.forget(step.old.as_ref()),
            Operation::Replace => {}
        }
    }

    fn forget(&mut self, old: Option<&Resource>) {
        let Some(old) = old else { return };
        let gone = |resource: &Resource| is_same(resource, old);
        if let Some(position) = self.remaining.iter().position(gone) {
            self.remaining.remove(position);
        }
    }

    /// Others that are still under way refer to a renamed resource by its new name.
    fn rename(&mut self, step: &Step) {
        let (Some(old), Some(new)) = (&step.old, &step.new) else {
            return;
        };
        if old.urn == new.urn {
            return;
        }
        for resource in &mut self.remaining {
            let listed = resource
                .property_dependencies
                .values_mut()
                .flatten()
                .flatten();
            let references = resource.parent.iter_mut().chain(&mut resource.deleted_with);
            for urn in references
                .chain(&mut resource.dependencies)
                .chain(&mut resource.replace_with)
                .chain(listed)
            {
                if *urn == old.urn {
                    urn.clone_from(&new.urn);
                }
            }
        }
    }

    /// Gives the stack its outputs.
    pub fn set_outputs(&mut self, stack: &Urn, outputs: &Properties) {
        for resource in self.done.iter_mut().chain(&mut self.remaining) {
            if resource.urn == *stack {
                resource.outputs = Some(outputs.clone()).filter(|outputs| !outputs.is_empty());
            }
        }
    }

    /// A resource by name.
    #[must_use]
    pub fn find(&self, urn: &Urn) -> Option<&Resource> {
        self.done
            .iter()
            .chain(&self.remaining)
            .find(|resource| resource.urn == *urn)
    }
}

/// A resource and the one it replaces share a name, not an id.
fn is_same(resource: &Resource, other: &Resource) -> bool {
    resource.urn == other.urn && resource.id == other.id
}
