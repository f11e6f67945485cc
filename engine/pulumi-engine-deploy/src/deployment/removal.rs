//! Deletes: in reverse order of dependencies, as many at the same time as the run may.

use std::collections::HashSet;

use parking_lot::Mutex;
use pulumi_engine_model::{resource::Resource, urn::Urn};
use pulumi_engine_providers::{Call, ProviderError, ReadRequest};

use super::Engine;
use crate::{
    plan::{
        Operation, Step,
        deletion::{self, refusal},
    },
    schedule,
};

impl Engine<'_> {
    pub(super) fn destroy(&self) {
        let olds = self.olds();
        let all: Vec<_> = olds.records.iter().map(|record| &record.resource).collect();
        self.check_targets(&self.task.selection.targets, |urn| olds.get(urn).is_some());
        match deletion::destroyed(&all, self.task.selection) {
            Ok(doomed) => {
                self.delete_all(&doomed);
                self.keep_others(&all, &doomed);
            }
            Err(failures) => {
                for failure in failures {
                    self.progress.failure(&failure);
                }
            }
        }
    }

    /// Tells what a destroy with targets leaves alone.
    fn keep_others(&self, all: &[&Resource], doomed: &[&Resource]) {
        let doomed: HashSet<_> = doomed.iter().map(|resource| &resource.urn).collect();
        for resource in all.iter().filter(|each| !doomed.contains(&each.urn)) {
            if !self.is_stopped() && !resource.delete {
                let copy = || Some((*resource).clone());
                self.pass(&Step::new(Operation::Same, copy(), copy()), 0);
            }
        }
    }

    /// Deletes resources of a state, given in its order.
    fn delete_all(&self, doomed: &[&Resource]) {
        let (steps, needs) = deletion::steps(doomed);
        let going: HashSet<_> = doomed.iter().map(|resource| &resource.urn).collect();
        // what could not be deleted, and all that it needs
        let kept = Mutex::new(vec![false; steps.len()]);
        schedule::run(&needs, self.task.parallel, &|number| {
            let Some(step) = steps.get(number) else {
                return;
            };
            let held = needs
                .get(number)
                .into_iter()
                .flatten()
                .any(|dependent| kept.lock().get(*dependent).copied().unwrap_or_default());
            let gone = !held && !self.is_stopped() && self.delete(step, &going);
            if let Some(mark) = kept.lock().get_mut(number) {
                *mark = !gone;
            }
        });
    }

    /// Deletes one resource; false if it is still there.
    fn delete(&self, step: &Step, going: &HashSet<&Urn>) -> bool {
        if let Some(reason) = refusal(step) {
            // nothing was tried, so others may go on
            self.progress.before(step);
            self.progress.failed(step, &reason);
            return false;
        }
        self.remove(step, |call, old| self.delete_from(call, old, going))
            .is_ok()
    }

    /// Has the provider delete a resource that is the stack's to delete.
    pub(super) fn delete_from(
        &self,
        call: &Call<'_>,
        old: &Resource,
        going: &HashSet<&Urn>,
    ) -> Result<(), ProviderError> {
        let with_another = old
            .deleted_with
            .as_ref()
            .is_some_and(|other| going.contains(other));
        let untouched = !old.custom
            || old.external
            || old.retain_on_delete
            || old.pending_replacement
            || old.is_provider()
            || with_another;
        if untouched || self.task.preview {
            return Ok(());
        }
        let none = pulumi_engine_model::property::Properties::new();
        let provider = self.providers.get(&old.provider, &old.kind)?;
        let request = ReadRequest {
            id: &old.id,
            inputs: old.inputs.as_ref(),
            outputs: old.outputs.as_ref().unwrap_or(&none),
        };
        provider.delete(call, &request)
    }

    /// Deletes what was replaced, and what a program no longer has.
    pub(super) fn delete_gone(&self, is_gone: impl Fn(&Resource) -> bool) {
        let olds = self.olds();
        let all = olds.records.iter().map(|record| &record.resource);
        let gone: Vec<_> = all.filter(|old| old.delete || is_gone(old)).collect();
        let needed = self.still_needed(&gone);
        let gone: Vec<_> = gone
            .into_iter()
            .filter(|old| old.delete || !needed.contains(&old.urn))
            .collect();
        self.delete_all(&gone);
    }

    /// Of what should go: what others that stay refer to. Only after failures, or with targets, is there any.
    fn still_needed(&self, gone: &[&Resource]) -> HashSet<Urn> {
        let going: HashSet<_> = gone
            .iter()
            .map(|old| (old.urn.clone(), old.id.clone()))
            .collect();
        let mut needed: HashSet<Urn> = HashSet::new();
        self.ledger.look(|snapshot| {
            for record in snapshot.records() {
                let resource = &record.resource;
                let goes = going.contains(&(resource.urn.clone(), resource.id.clone()));
                if !goes {
                    needed.extend(resource.references().map(Urn::new));
                }
            }
        });
        // what is needed needs others in turn; a state has them before it
        for old in gone.iter().rev() {
            if needed.contains(&old.urn) && !old.delete {
                needed.extend(old.references().map(Urn::new));
            }
        }
        needed
    }
}
