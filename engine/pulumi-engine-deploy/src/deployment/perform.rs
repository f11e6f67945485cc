//! Performs one step: reports it, records it as pending, calls the provider, updates the state.

use std::time::Duration;

use parking_lot::Mutex;
use pulumi_engine_model::{property::Properties, resource::Resource, urn::Urn};
use pulumi_engine_providers::{Call, ProviderError};
use serde_json::Value;

use super::{Engine, Halted};
use crate::plan::{Operation, Step};

impl Engine<'_> {
    /// Calls a provider about a resource.
    pub(super) fn call<T>(
        &self,
        urn: &Urn,
        timeout: Option<Duration>,
        about: impl FnOnce(&Call<'_>) -> T,
    ) -> T {
        let canceled = || self.task.cancellation.is_set();
        // a provider may report from several threads
        let progress = Mutex::new(&self.progress);
        let status = |message: &str| progress.lock().status(urn, message);
        about(&Call {
            urn,
            preview: self.task.preview,
            timeout,
            canceled: &canceled,
            status: &status,
        })
    }

    /// Performs a step after which the resource exists. `act` calls the provider and updates the
    /// resource.
    pub(super) fn change(
        &self,
        mut step: Step,
        part: usize,
        act: impl FnOnce(&Call<'_>, &mut Resource) -> Result<(), ProviderError>,
    ) -> Result<Resource, Halted> {
        self.progress.before(&step);
        let mut new = step.new.take().unwrap_or_default();
        let ticket = self.begin(step.operation, &new)?;
        self.delay(&new);
        let timeout = timeout(&new, step.operation);
        let result = self.call(&step.urn, timeout, |call| act(call, &mut new));
        let unwell = match result {
            Ok(()) => None,
            Err(ProviderError::Incomplete {
                id,
                outputs,
                reasons,
            }) => {
                new.id = if id.is_empty() { new.id } else { id };
                new.outputs = Some(outputs);
                new.init_errors.clone_from(&reasons);
                Some(unwell(&reasons))
            }
            Err(ProviderError::Failed(message)) => {
                self.ledger.abandon(ticket);
                self.progress.failed(&step, &message);
                return Err(self.fail());
            }
        };
        conceal(&mut new);
        step.new = Some(new.clone());
        self.end(ticket, &step, part);
        if let Some(message) = unwell {
            self.progress.failed(&step, &message);
            return Err(self.fail());
        }
        self.progress.after(&step);
        Ok(new)
    }

    /// Performs a step that deletes a resource. `act` calls the provider.
    pub(super) fn remove(
        &self,
        step: &Step,
        act: impl FnOnce(&Call<'_>, &Resource) -> Result<(), ProviderError>,
    ) -> Result<(), Halted> {
        self.progress.before(step);
        let old = step.old.clone().unwrap_or_default();
        let ticket = self.begin(step.operation, &old)?;
        self.delay(&old);
        let timeout = timeout(&old, step.operation);
        let deleted = self.call(&step.urn, timeout, |call| act(call, &old));
        if let Err(error) = deleted {
            self.ledger.abandon(ticket);
            self.progress.failed(step, &error.to_string());
            return Err(self.fail());
        }
        self.end(ticket, step, 0);
        self.progress.after(step);
        Ok(())
    }

    /// Performs a step that changes only the state.
    pub(super) fn pass(&self, step: &Step, part: usize) {
        self.progress.before(step);
        if let Some(resource) = step.resource()
            && step.operation != Operation::Replace
        {
            self.delay(resource);
        }
        self.end(None, step, part);
        self.progress.after(step);
    }

    fn begin(&self, operation: Operation, resource: &Resource) -> Result<Option<usize>, Halted> {
        let own = resource.custom && !resource.is_provider() && !self.task.preview;
        match operation.pending().filter(|_| own) {
            Some(kind) => {
                let begun = self.ledger.begin(kind, resource.clone());
                begun.map(Some).map_err(|_| Halted)
            }
            None => Ok(None),
        }
    }

    fn end(&self, ticket: Option<usize>, step: &Step, part: usize) {
        if matches!(step.operation, Operation::Same | Operation::Replace) {
            self.ledger.note(step, part);
        } else {
            self.ledger.finish(ticket, step, part);
        }
    }

    pub(super) fn delay(&self, resource: &Resource) {
        if !self.task.preview && !resource.is_provider() {
            self.task.cancellation.wait(self.task.step_delay);
        }
    }
}

fn unwell(reasons: &[String]) -> String {
    let errors = match reasons.len() {
        1 => "1 error".to_owned(),
        count => format!("{count} errors"),
    };
    format!("{errors} occurred:\n\t* {}\n", reasons.join("\n\t* "))
}

/// The time limit of a step, from `customTimeouts`.
pub(super) fn timeout(resource: &Resource, operation: Operation) -> Option<Duration> {
    let name = match operation {
        Operation::Create | Operation::CreateReplacement => "create",
        Operation::Update => "update",
        Operation::Delete | Operation::DeleteReplaced => "delete",
        _ => "read",
    };
    let seconds = resource.custom_timeouts.get(name).and_then(Value::as_f64)?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|timeout| !timeout.is_zero())
}

/// Marks outputs as secret that the program or the type names, and those of secret inputs.
pub(super) fn conceal(resource: &mut Resource) {
    let none = Properties::new();
    let inputs = resource.inputs.as_ref().unwrap_or(&none);
    let Some(outputs) = &mut resource.outputs else {
        return;
    };
    for (name, value) in outputs.iter_mut() {
        let given = matches!(
            inputs.get(name),
            Some(pulumi_engine_model::property::Property::Secret(_))
        );
        if given || resource.additional_secret_outputs.contains(name) {
            let open = std::mem::replace(value, pulumi_engine_model::property::Property::Null);
            *value = open.into_secret();
        }
    }
}
