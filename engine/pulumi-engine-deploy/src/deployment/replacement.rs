//! Replacements: create before delete, or delete before create with all dependents.

use std::collections::{BTreeSet, HashSet};

use pulumi_engine_model::{
    property::{Properties, Property},
    resource::Resource,
    urn::Urn,
};
use pulumi_engine_providers::{ChangeRequest, ProviderError};

use super::registrar::{DesiredResource, Registrar};
use crate::{
    plan::{
        Operation, Step,
        decision::{self, Decision, DecisionInput},
    },
    program::evaluate::{Goal, RegistrationError},
};

impl Registrar<'_, '_> {
    /// Replaces a resource. The old one is deleted at the end of the run, or first.
    pub(super) fn replace(
        &self,
        desired: &DesiredResource<'_>,
        old: &Resource,
        inputs: Properties,
        differences: &[String],
        keys: &[String],
        delete_first: bool,
    ) -> Result<Resource, RegistrationError> {
        self.registrations.lock().anew.insert(desired.urn.clone());
        let new = self.resource(desired, inputs, self.with_timestamps(None, true));
        let step = |operation, new| Step {
            differences: differences.to_vec(),
            replace_keys: keys.to_vec(),
            ..Step::new(operation, Some(old.clone()), Some(new))
        };
        let part = desired.goal.part;
        if delete_first {
            self.make_room(desired.urn, old)?;
            self.engine
                .pass(&step(Operation::Replace, new.clone()), part);
            return self.do_create(desired, step(Operation::CreateReplacement, new));
        }
        let made = self.do_create(desired, step(Operation::CreateReplacement, new))?;
        self.engine
            .pass(&step(Operation::Replace, made.clone()), part);
        Ok(made)
    }

    /// Creates a resource again that was deleted with its dependency.
    pub(super) fn recreate(
        &self,
        desired: &DesiredResource<'_>,
        old: &Resource,
        inputs: Properties,
        keys: &[String],
    ) -> Result<Resource, RegistrationError> {
        self.registrations.lock().anew.insert(desired.urn.clone());
        let new = self.resource(desired, inputs, self.with_timestamps(None, true));
        let step = |operation| Step {
            replace_keys: keys.to_vec(),
            ..Step::new(operation, Some(old.clone()), Some(new.clone()))
        };
        let replace = Step {
            replace_keys: Vec::new(),
            ..step(Operation::Replace)
        };
        self.engine.pass(&replace, desired.goal.part);
        self.do_create(desired, step(Operation::CreateReplacement))
    }

    /// Deletes a resource before its replacement is created, after its dependents.
    fn make_room(&self, urn: &Urn, old: &Resource) -> Result<(), RegistrationError> {
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
        let mut registrations = self.registrations.lock();
        for (dependent, _) in &dependents {
            if deleted.is_err() {
                registrations.cleared.remove(&dependent.urn);
            } else if let Some((_, gone)) = registrations.cleared.get_mut(&dependent.urn) {
                *gone = true;
            }
        }
        self.made_room.notify_all();
        deleted
    }

    fn delete_early(&self, old: &Resource, going: &HashSet<&Urn>) -> Result<(), RegistrationError> {
        let step = Step {
            makes_room: true,
            ..Step::new(Operation::DeleteReplaced, Some(old.clone()), None)
        };
        let deleted = self
            .engine
            .remove(&step, |call, old| self.engine.delete_from(call, old, going));
        Ok(deleted?)
    }

    /// Old resources that are replaced together with this one, in order. Their registrations wait
    /// from now on until they are deleted.
    fn claim_dependents(
        &self,
        urn: &Urn,
        old: &Resource,
    ) -> Result<Vec<(Resource, Vec<String>)>, RegistrationError> {
        let candidates = self.dependents_of(old);
        let mut replaced = BTreeSet::from([old.urn.clone()]);
        let mut chosen = Vec::new();
        for candidate in candidates {
            let keys = self.replaced_by(&candidate, &replaced);
            let Some(keys) = keys.map_err(|error| self.failed(urn, &error))? else {
                continue;
            };
            if candidate.protect {
                return Err(RegistrationError::Message(format!(
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
        let mut registrations = self.registrations.lock();
        // registered resources no longer depend on this one
        chosen.retain(|(candidate, _)| {
            !registrations.seen.contains(&candidate.urn)
                && !registrations.cleared.contains_key(&candidate.urn)
        });
        for (candidate, keys) in &chosen {
            let entry = (keys.clone(), false);
            registrations.cleared.insert(candidate.urn.clone(), entry);
        }
        Ok(chosen)
    }

    /// Direct and indirect dependents that are not registered yet, in order.
    fn dependents_of(&self, old: &Resource) -> Vec<Resource> {
        let registrations = self.registrations.lock();
        let mut reached = BTreeSet::from([old.urn.as_str()]);
        let mut found = Vec::new();
        for record in &self.prior_state.records {
            let resource = &record.resource;
            let depends = resource.references().any(|other| reached.contains(other))
                || resource.replace_with.contains(&old.urn);
            if depends && !resource.delete && !registrations.seen.contains(&resource.urn) {
                reached.insert(resource.urn.as_str());
                found.push(resource.clone());
            }
        }
        found
    }

    /// The inputs that force a replacement when these others are replaced; none if it can stay.
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

    /// The provider's diff with these inputs unknown.
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
        let input = DecisionInput {
            old: resource,
            goal: &goal,
            difference: &difference,
            forced: None,
            delete_first: false,
        };
        match decision::decide(&input) {
            Ok(Decision::Replace { keys, .. }) => Ok(Some(keys)),
            Ok(_) => Ok(None),
            Err(message) => Err(ProviderError::Failed(message)),
        }
    }
}

/// The inputs, with those from replaced resources unknown; none if there are no such inputs.
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
