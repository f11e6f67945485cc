//! Replacements: the new one first, or the old one first with all that depends on it.

use std::collections::{BTreeSet, HashSet};

use pulumi_engine_model::{
    property::{Properties, Property},
    resource::Resource,
    urn::Urn,
};
use pulumi_engine_providers::{ChangeRequest, ProviderError};

use super::registrar::{Registrar, Wanted};
use crate::{
    plan::{
        Operation, Step,
        decision::{self, Decision, Question},
    },
    program::evaluate::{Goal, Refusal},
};

impl Registrar<'_, '_> {
    /// Replaces a resource. Unless the old one goes first it goes at the end of the run.
    pub(super) fn replace(
        &self,
        wanted: &Wanted<'_>,
        old: &Resource,
        inputs: Properties,
        differences: &[String],
        keys: &[String],
        delete_first: bool,
    ) -> Result<Resource, Refusal> {
        self.book.lock().anew.insert(wanted.urn.clone());
        let new = self.resource(wanted, inputs, self.dated(None, true));
        let step = |operation, new| Step {
            differences: differences.to_vec(),
            replace_keys: keys.to_vec(),
            ..Step::new(operation, Some(old.clone()), Some(new))
        };
        let part = wanted.goal.part;
        if delete_first {
            self.make_room(wanted.urn, old)?;
            self.engine
                .pass(&step(Operation::Replace, new.clone()), part);
            return self.do_create(wanted, step(Operation::CreateReplacement, new));
        }
        let made = self.do_create(wanted, step(Operation::CreateReplacement, new))?;
        self.engine
            .pass(&step(Operation::Replace, made.clone()), part);
        Ok(made)
    }

    /// Makes a resource anew that was deleted because of what it depends on.
    pub(super) fn recreate(
        &self,
        wanted: &Wanted<'_>,
        old: &Resource,
        inputs: Properties,
        keys: &[String],
    ) -> Result<Resource, Refusal> {
        self.book.lock().anew.insert(wanted.urn.clone());
        let new = self.resource(wanted, inputs, self.dated(None, true));
        let step = |operation| Step {
            replace_keys: keys.to_vec(),
            ..Step::new(operation, Some(old.clone()), Some(new.clone()))
        };
        let replace = Step {
            replace_keys: Vec::new(),
            ..step(Operation::Replace)
        };
        self.engine.pass(&replace, wanted.goal.part);
        self.do_create(wanted, step(Operation::CreateReplacement))
    }

    /// Deletes a resource whose replacement is to come, after those that cannot be without it.
    fn make_room(&self, urn: &Urn, old: &Resource) -> Result<(), Refusal> {
        let dependents = self.claim_dependents(urn, old)?;
        let mut going: HashSet<&Urn> = dependents
            .iter()
            .map(|(dependent, _)| &dependent.urn)
            .collect();
        going.insert(&old.urn);
        let mut deleted = Ok(());
        for (dependent, _) in dependents.iter().rev() {
            if deleted.is_ok() && !dependent.pending_replacement {
                deleted = self.delete_early(dependent, &going);
            }
        }
        if deleted.is_ok() && !old.pending_replacement {
            deleted = self.delete_early(old, &going);
        }
        let mut book = self.book.lock();
        for (dependent, _) in &dependents {
            if deleted.is_err() {
                book.cleared.remove(&dependent.urn);
            } else if let Some((_, gone)) = book.cleared.get_mut(&dependent.urn) {
                *gone = true;
            }
        }
        self.made_room.notify_all();
        deleted
    }

    fn delete_early(&self, old: &Resource, going: &HashSet<&Urn>) -> Result<(), Refusal> {
        let step = Step {
            makes_room: true,
            ..Step::new(Operation::DeleteReplaced, Some(old.clone()), None)
        };
        let deleted = self
            .engine
            .remove(&step, |call, old| self.engine.delete_from(call, old, going));
        Ok(deleted?)
    }

    /// Old resources that a replacement of this one replaces too, in order. Others that register them wait from now on
    /// until they are gone.
    fn claim_dependents(
        &self,
        urn: &Urn,
        old: &Resource,
    ) -> Result<Vec<(Resource, Vec<String>)>, Refusal> {
        let candidates = self.dependents_of(old);
        let mut replaced = BTreeSet::from([old.urn.clone()]);
        let mut chosen = Vec::new();
        for candidate in candidates {
            let keys = self.replaced_by(&candidate, &replaced);
            let Some(keys) = keys.map_err(|error| self.failed(urn, &error))? else {
                continue;
            };
            if candidate.protect {
                return Err(Refusal::Message(format!(
                    "unable to replace resource {:?} as part of replacing {:?} as it is currently marked for \
                     protection. To unprotect the resource, remove the `protect` flag from the resource in your \
                     Pulumi program and run `pulumi up`",
                    candidate.urn.as_str(),
                    urn.as_str()
                )));
            }
            replaced.insert(candidate.urn.clone());
            chosen.push((candidate, keys));
        }
        let mut book = self.book.lock();
        // what is registered already does not depend on this one any more
        chosen.retain(|(candidate, _)| {
            !book.seen.contains(&candidate.urn) && !book.cleared.contains_key(&candidate.urn)
        });
        for (candidate, keys) in &chosen {
            let entry = (keys.clone(), false);
            book.cleared.insert(candidate.urn.clone(), entry);
        }
        Ok(chosen)
    }

    /// All of the state that refers to a resource, directly or not, and was not registered yet; in order.
    fn dependents_of(&self, old: &Resource) -> Vec<Resource> {
        let book = self.book.lock();
        let mut reached = BTreeSet::from([old.urn.as_str()]);
        let mut found = Vec::new();
        for record in &self.olds.records {
            let resource = &record.resource;
            let depends = resource.references().any(|other| reached.contains(other))
                || resource.replace_with.contains(&old.urn);
            if depends && !resource.delete && !book.seen.contains(&resource.urn) {
                reached.insert(resource.urn.as_str());
                found.push(resource.clone());
            }
        }
        found
    }

    /// The inputs that replace a resource when these others are replaced; none if it can stay.
    fn replaced_by(
        &self,
        resource: &Resource,
        replaced: &BTreeSet<Urn>,
    ) -> Result<Option<Vec<String>>, ProviderError> {
        if !resource.custom || resource.external {
            return Ok(None);
        }
        let provider = resource
            .provider
            .rsplit_once("::")
            .map(|(urn, _)| Urn::new(urn));
        let bound = provider
            .iter()
            .chain(&resource.deleted_with)
            .chain(&resource.replace_with);
        if bound.into_iter().any(|other| replaced.contains(other)) {
            return Ok(Some(Vec::new()));
        }
        let Some(inputs) = unknown_inputs(resource, replaced) else {
            return Ok(None);
        };
        if resource.is_provider() {
            return Ok(None);
        }
        self.replace_keys(resource, &inputs)
    }

    /// What the provider says when inputs may become anything.
    fn replace_keys(
        &self,
        resource: &Resource,
        inputs: &Properties,
    ) -> Result<Option<Vec<String>>, ProviderError> {
        let none = Properties::new();
        let provider = self
            .engine
            .providers
            .get(&resource.provider, &resource.kind)?;
        let request = ChangeRequest {
            id: &resource.id,
            old_inputs: resource.inputs.as_ref().unwrap_or(&none),
            old_outputs: resource.outputs.as_ref().unwrap_or(&none),
            inputs,
            ignore_changes: &resource.ignore_changes,
        };
        let difference = self
            .engine
            .call(&resource.urn, None, |call| provider.diff(call, &request))?;
        let goal = Goal {
            replace_on_changes: resource.replace_on_changes.clone(),
            ..Goal::default()
        };
        let question = Question {
            old: resource,
            goal: &goal,
            difference: &difference,
            forced: None,
            delete_first: false,
        };
        match decision::decide(&question) {
            Ok(Decision::Replace { keys, .. }) => Ok(Some(keys)),
            Ok(_) => Ok(None),
            Err(message) => Err(ProviderError::Failed(message)),
        }
    }
}

/// The inputs of a resource with those unknown that come from replaced ones; none if there is no such input.
fn unknown_inputs(resource: &Resource, replaced: &BTreeSet<Urn>) -> Option<Properties> {
    let mut inputs = resource.inputs.clone()?;
    let mut any = false;
    for (name, needs) in &resource.property_dependencies {
        let touched = needs.iter().flatten().any(|urn| replaced.contains(urn));
        if let Some(value) = inputs.get_mut(name).filter(|_| touched) {
            *value = Property::Unknown;
            any = true;
        }
    }
    any.then_some(inputs)
}
