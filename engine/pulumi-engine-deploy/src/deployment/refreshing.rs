//! Refresh: each resource is read where it is, and the state takes over what is found.

use pulumi_engine_model::{property::Properties, resource::Resource};
use pulumi_engine_providers::{Call, ChangeRequest, Observed, ProviderError, ReadRequest};

use super::{Engine, perform};
use crate::{
    plan::{Failure, Operation, Step},
    schedule,
};

/// What a read has found.
struct Finding {
    new: Option<Resource>,
    found: Operation,
    differences: Vec<String>,
}

impl Engine<'_> {
    /// Reads resources anew. `alone` is whether that is all the run does: else what it finds is not told as changes.
    pub(super) fn refresh(&self, alone: bool) {
        let olds = self.olds();
        if !self.check_targets(&self.task.selection.targets, |urn| olds.get(urn).is_some()) {
            self.fail();
            return;
        }
        let chosen: Vec<_> = olds
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

    fn find(&self, call: &Call<'_>, old: &Resource) -> Result<Finding, ProviderError> {
        let mut new = old.clone();
        // as Pulumi has it: properties without dependencies are not listed after a refresh
        new.property_dependencies
            .retain(|_, urns| urns.as_ref().is_some_and(|urns| !urns.is_empty()));
        if !old.custom || old.is_provider() || old.pending_replacement {
            return Ok(Finding {
                new: Some(new),
                found: Operation::Same,
                differences: Vec::new(),
            });
        }
        let Some((observed, reasons)) = self.observe(call, old)? else {
            return Ok(Finding {
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
            new.modified = Some(self.task.world.now());
        }
        let differences = self.drift(call, old, &new)?;
        let found = if differences.is_empty() {
            Operation::Same
        } else {
            Operation::Update
        };
        Ok(Finding {
            new: Some(new),
            found,
            differences,
        })
    }

    /// The resource as it is; that it is not well is no failure of a refresh.
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

    /// What an `up` would change back: the provider compares what is there with what was wanted. Of what others own
    /// only outputs are compared.
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
