//! Deletes resources in reverse order of dependencies, several at the same time.

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
        let prior_state = self.prior_state();
        let all: Vec<_> = prior_state
            .records
            .iter()
            .map(|record| &record.resource)
            .collect();
        self.check_targets(&self.task.selection.targets, |urn| {
            prior_state.get(urn).is_some()
        });
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

    /// Reports the resources that a destroy with targets keeps.
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
        // resources that could not be deleted, and their dependencies
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

    /// Deletes one resource. Returns false if it still exists.
    fn delete(&self, step: &Step, going: &HashSet<&Urn>) -> bool {
        if let Some(reason) = refusal(step) {
            // the provider was not called, so others may continue
            self.progress.before(step);
            self.progress.failed(step, &reason);
            return false;
        }
        self.remove(step, |call, old| self.delete_from(call, old, going))
            .is_ok()
    }

    /// Calls the provider, unless the resource is external or retained.
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

    /// Deletes replaced resources, and those that the program no longer has.
    pub(super) fn delete_gone(&self, is_gone: impl Fn(&Resource) -> bool) {
        let prior_state = self.prior_state();
        let all = prior_state.records.iter().map(|record| &record.resource);
        let gone: Vec<_> = all.filter(|old| old.delete || is_gone(old)).collect();
        let needed = self.still_needed(&gone);
        let gone: Vec<_> = gone
            .into_iter()
            .filter(|old| old.delete || !needed.contains(&old.urn))
            .collect();
        self.delete_all(&gone);
    }

    /// Resources that cannot be deleted because others still refer to them, after failures or with
    /// targets.
    fn still_needed(&self, gone: &[&Resource]) -> HashSet<Urn> {
        let going: HashSet<_> = gone
            .iter()
            .map(|old| (old.urn.clone(), old.id.clone()))
            .collect();
        let mut needed: HashSet<Urn> = HashSet::new();
        self.ledger.read_snapshot(|snapshot| {
            for record in snapshot.records() {
                let resource = &record.resource;
                let goes = going.contains(&(resource.urn.clone(), resource.id.clone()));
                if !goes {
                    needed.extend(resource.references().map(Urn::new));
                }
            }
        });
        // dependencies have dependencies in turn, which come earlier in a state
        for old in gone.iter().rev() {
            if needed.contains(&old.urn) && !old.delete {
                needed.extend(old.references().map(Urn::new));
            }
        }
        needed
    }
}
