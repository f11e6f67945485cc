//! What `--target` and `--exclude` leave as it is, or as it is not.

use pulumi_engine_model::{property::Properties, resource::Resource, urn::Urn};

use super::registrar::Registrar;
use crate::{
    plan::{Operation, Step},
    program::evaluate::{Goal, Refusal, Registered},
};

impl Registrar<'_, '_> {
    /// Whether the run is about this resource; then also what depends on it may be.
    pub(super) fn is_included(&self, urn: &Urn, old: Option<&Resource>, goal: &Goal) -> bool {
        let selection = self.engine.task.selection;
        let mut book = self.book.lock();
        let by_dependency = selection.dependents
            && goal
                .dependencies
                .iter()
                .chain(&goal.parent)
                .any(|other| book.targeted.contains(other));
        let included = by_dependency
            || selection.includes(urn)
            || old.is_some_and(|old| selection.includes(&old.urn));
        if included && !selection.targets.is_empty() {
            book.targeted.insert(urn.clone());
        }
        included
    }

    /// Nothing new can be made without what it needs, and that is left out.
    pub(super) fn require_targets(&self, urn: &Urn, goal: &Goal) -> Result<(), Refusal> {
        let book = self.book.lock();
        let mut needs = goal.dependencies.iter().chain(&goal.parent);
        match needs.find(|urn| book.skipped.contains(urn)) {
            Some(missing) => Err(Refusal::Message(format!(
                "resource {urn} depends on {missing}, which was not specified in --target list"
            ))),
            None => Ok(()),
        }
    }

    /// A resource that `--target` leaves as it is, or as it is not.
    pub(super) fn leave(&self, urn: &Urn, old: Option<&Resource>, goal: &Goal) -> Registered {
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

    /// A new resource that `--target` leaves out. It is told of as one that stays as it is, and is in no state.
    fn skip(&self, urn: &Urn, goal: &Goal) -> Registered {
        self.provider_of(urn, goal);
        self.book.lock().skipped.insert(urn.clone());
        let stack = || self.stack().stack_urn();
        let skipped = Resource {
            urn: urn.clone(),
            custom: true,
            kind: goal.kind.clone(),
            inputs: Some(goal.inputs.clone()),
            parent: Some(goal.parent.clone().unwrap_or_else(stack)),
            outputs: Some(Properties::new()),
            ..self.dated(None, false)
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
