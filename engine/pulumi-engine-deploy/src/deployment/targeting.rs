//! Resources that `--target` and `--exclude` skip.

use pulumi_engine_model::{property::Properties, resource::Resource, urn::Urn};

use super::registrar::Registrar;
use crate::{
    plan::{Operation, Step},
    program::evaluate::{Goal, Registered, RegistrationError},
};

impl Registrar<'_, '_> {
    /// Whether the run includes this resource. With `--target-dependents` it then includes
    /// dependents.
    pub(super) fn is_included(&self, urn: &Urn, old: Option<&Resource>, goal: &Goal) -> bool {
        let selection = self.engine.task.selection;
        let mut registrations = self.registrations.lock();
        let by_dependency = selection.dependents
            && goal
                .dependencies
                .iter()
                .chain(&goal.parent)
                .any(|other| registrations.targeted.contains(other));
        let included = by_dependency
            || selection.includes(urn)
            || old.is_some_and(|old| selection.includes(&old.urn));
        if included && !selection.targets.is_empty() {
            registrations.targeted.insert(urn.clone());
        }
        included
    }

    /// Rejects a new resource whose dependency is new too and skipped.
    pub(super) fn require_targets(&self, urn: &Urn, goal: &Goal) -> Result<(), RegistrationError> {
        let registrations = self.registrations.lock();
        let mut needs = goal.dependencies.iter().chain(&goal.parent);
        match needs.find(|urn| registrations.skipped.contains(urn)) {
            Some(missing) => Err(RegistrationError::Message(format!(
                "resource {urn} depends on {missing}, which was not specified in --target list"
            ))),
            None => Ok(()),
        }
    }

    /// A resource that `--target` leaves as it is, or as it is not.
    pub(super) fn skip_resource(
        &self,
        urn: &Urn,
        old: Option<&Resource>,
        goal: &Goal,
    ) -> Registered {
        let Some(old) = old else {
            return self.skip(urn, goal);
        };
        if !old.provider.is_empty() {
            self.provider_of(urn, goal);
        }
        let new = Resource {
            urn: urn.clone(),
            ..old.clone()
        };
        self.engine.ledger.settle(old, goal.part);
        let step = Step::new(Operation::Same, Some(old.clone()), Some(new.clone()));
        self.engine.pass(&step, goal.part);
        self.registered(new, false)
    }

    /// Skips a new resource. It is reported as unchanged, and is in no state.
    fn skip(&self, urn: &Urn, goal: &Goal) -> Registered {
        self.provider_of(urn, goal);
        self.registrations.lock().skipped.insert(urn.clone());
        let stack = || self.stack().stack_urn();
        let skipped = Resource {
            urn: urn.clone(),
            custom: true,
            kind: goal.kind.clone(),
            inputs: Some(goal.inputs.clone()),
            parent: Some(goal.parent.clone().unwrap_or_else(stack)),
            outputs: Some(Properties::new()),
            ..self.with_timestamps(None, false)
        };
        let step = Step::new(Operation::Same, Some(skipped.clone()), Some(skipped));
        self.engine.progress.before(&step);
        self.engine.progress.after(&step);
        Registered {
            urn: urn.clone(),
            id: None,
            outputs: Properties::new(),
            partial: true,
        }
    }
}
