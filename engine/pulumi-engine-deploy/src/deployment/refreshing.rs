//! Refresh: reads each resource and updates the state.

use pulumi_engine_model::{property::Properties, resource::Resource};
use pulumi_engine_providers::{Call, ChangeRequest, Observed, ProviderError, ReadRequest};

use super::{Engine, perform};
use crate::{
    plan::{Failure, Operation, Step},
    schedule,
};

struct RefreshResult {
    new: Option<Resource>,
    found: Operation,
    differences: Vec<String>,
}

impl Engine<'_> {
    /// Refreshes all resources. Changes are only reported if the run does nothing else (`alone`).
    pub(super) fn refresh(&self, alone: bool) {
        let prior_state = self.prior_state();
        if !self.check_targets(&self.task.selection.targets, |urn| {
            prior_state.get(urn).is_some()
        }) {
            self.fail();
            return;
        }
        let chosen: Vec<_> = prior_state
            .records
            .iter()
            .map(|record| &record.resource)
            .filter(|resource| !resource.delete && self.task.selection.includes(&resource.urn))
            .collect();
        let needs = vec![Vec::new(); chosen.len()];
        schedule::run(&needs, self.task.parallel, &|number| {
            if let Some(old) = chosen.get(number).filter(|_| !self.is_stopped()) {
                self.refresh_one(old, alone);
            }
        });
    }

    fn refresh_one(&self, old: &Resource, alone: bool) {
        let step = Step::new(Operation::Refresh, Some(old.clone()), Some(old.clone()));
        self.progress.before(&step);
        self.delay(old);
        let timeout = perform::timeout(old, Operation::Refresh);
        match self.call(&old.urn, timeout, |call| self.find(call, old)) {
            Ok(finding) => {
                let step = Step {
                    new: finding.new,
                    found: if alone {
                        finding.found
                    } else {
                        Operation::Refresh
                    },
                    differences: finding.differences,
                    ..step
                };
                self.ledger.finish(None, &step, 0);
                self.progress.after(&step);
            }
            Err(error) => {
                self.progress.failed(&step, &error.to_string());
                self.fail();
            }
        }
    }

    fn find(&self, call: &Call<'_>, old: &Resource) -> Result<RefreshResult, ProviderError> {
        let mut new = old.clone();
        // as in Pulumi, a refresh drops properties without dependencies
        new.property_dependencies
            .retain(|_, urns| urns.as_ref().is_some_and(|urns| !urns.is_empty()));
        if !old.custom || old.is_provider() || old.pending_replacement {
            return Ok(RefreshResult {
                new: Some(new),
                found: Operation::Same,
                differences: Vec::new(),
            });
        }
        let Some((observed, reasons)) = self.observe(call, old)? else {
            return Ok(RefreshResult {
                new: None,
                found: Operation::Delete,
                differences: Vec::new(),
            });
        };
        new.id = observed.id;
        new.inputs = Some(observed.inputs);
        new.outputs = Some(observed.outputs);
        new.init_errors = reasons;
        perform::conceal(&mut new);
        if new.inputs != old.inputs || new.outputs != old.outputs {
            new.modified = Some(self.task.host.now());
        }
        let differences = self.drift(call, old, &new)?;
        let found = if differences.is_empty() {
            Operation::Same
        } else {
            Operation::Update
        };
        Ok(RefreshResult {
            new: Some(new),
            found,
            differences,
        })
    }

    /// Reads the resource. An unhealthy resource does not fail a refresh.
    fn observe(
        &self,
        call: &Call<'_>,
        old: &Resource,
    ) -> Result<Option<(Observed, Vec<String>)>, ProviderError> {
        let none = Properties::new();
        let provider = self.providers.get(&old.provider, &old.kind)?;
        let request = ReadRequest {
            id: &old.id,
            inputs: old.inputs.as_ref(),
            outputs: old.outputs.as_ref().unwrap_or(&none),
        };
        match provider.read(call, &request) {
            Ok(observed) => Ok(observed.map(|observed| (observed, Vec::new()))),
            Err(ProviderError::Incomplete {
                id,
                outputs,
                reasons,
            }) => {
                let list = reasons.join("\n* ");
                self.progress.warning(&Failure::new(
                    Some(old.urn.clone()),
                    format!("Refreshed resource is in an unhealthy state:\n* {list}"),
                ));
                let observed = Observed {
                    id,
                    inputs: old.inputs.clone().unwrap_or_default(),
                    outputs,
                };
                Ok(Some((observed, reasons)))
            }
            Err(error) => Err(error),
        }
    }

    /// What an `up` would change back: the diff of the actual and the desired inputs. For external
    /// resources, only outputs are compared.
    fn drift(
        &self,
        call: &Call<'_>,
        old: &Resource,
        new: &Resource,
    ) -> Result<Vec<String>, ProviderError> {
        let none = Properties::new();
        let of = |properties: &Option<Properties>| properties.clone().unwrap_or_default();
        if old.external {
            let (before, after) = (of(&old.outputs), of(&new.outputs));
            let keys = before.keys().chain(after.keys());
            let changed = keys.filter(|key| before.get(*key) != after.get(*key));
            let changed: std::collections::BTreeSet<_> = changed.cloned().collect();
            return Ok(changed.into_iter().collect());
        }
        let provider = self.providers.get(&old.provider, &old.kind)?;
        let request = ChangeRequest {
            id: &new.id,
            old_inputs: new.inputs.as_ref().unwrap_or(&none),
            old_outputs: new.outputs.as_ref().unwrap_or(&none),
            inputs: old.inputs.as_ref().unwrap_or(&none),
            ignore_changes: &old.ignore_changes,
        };
        Ok(provider.diff(call, &request)?.keys())
    }
}
