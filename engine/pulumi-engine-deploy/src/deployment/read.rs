//! External resources (`get`, stack references) and imported ones (`import`).

use pulumi_engine_model::{
    property::{Properties, Property},
    resource::Resource,
    urn::Urn,
};
use pulumi_engine_providers::{Observed, ProviderError, ReadRequest};

use super::registrar::{DesiredResource, Registrar, registration_error};
use crate::{
    plan::{Operation, Step},
    program::evaluate::{Goal, Registered, RegistrationError},
};

impl Registrar<'_, '_> {
    /// Reads an external resource. Each run reads it again.
    pub(super) fn read(&self, urn: &Urn, goal: &Goal) -> Result<Registered, RegistrationError> {
        let old = self.find_old(urn, goal);
        let old = old.map(|record| record.resource.clone());
        let wish = wish(goal)?;
        let reference = self.provider_of(urn, goal);
        if wish.id.as_deref() == Some("") {
            return Err(RegistrationError::Message(format!(
                "Expected an ID for {urn}: \"get\" needs the id of a resource"
            )));
        }
        let provider = self.engine.providers.get(&reference, &goal.kind);
        let provider = provider.map_err(|error| registration_error(&error))?;
        let new = Resource {
            urn: urn.clone(),
            custom: true,
            external: true,
            id: wish.id.clone().unwrap_or_default(),
            kind: goal.kind.clone(),
            inputs: Some(wish.state.clone()),
            outputs: Some(Properties::new()),
            parent: Some(
                goal.parent
                    .clone()
                    .unwrap_or_else(|| self.stack().stack_urn()),
            ),
            dependencies: goal.dependencies.iter().cloned().collect(),
            additional_secret_outputs: goal.additional_secret_outputs.clone(),
            provider: reference,
            ..Resource::default()
        };
        let replaces = old
            .as_ref()
            .filter(|old| !old.external && wish.id.as_ref() != Some(&old.id))
            .cloned();
        let operation = if replaces.is_some() {
            Operation::ReadReplacement
        } else {
            Operation::Read
        };
        let step = Step::new(operation, old, Some(new));
        let read = self.engine.change(step, goal.part, |call, new| {
            // a preview cannot read an id that it does not know
            let Some(id) = &wish.id else { return Ok(()) };
            let request = ReadRequest {
                id,
                inputs: None,
                outputs: &wish.state,
            };
            let found = existing(provider.read(call, &request)?, id)?;
            new.id = found.id;
            new.outputs = Some(found.outputs);
            Ok(())
        })?;
        if let Some(old) = replaces {
            let step = Step::new(Operation::Replace, Some(old), Some(read.clone()));
            self.engine.pass(&step, goal.part);
        }
        Ok(self.registered(read, wish.id.is_none()))
    }

    /// Imports an existing resource, unless an earlier run has.
    pub(super) fn import(
        &self,
        desired: &DesiredResource<'_>,
        old: Option<&Resource>,
    ) -> Result<Option<Resource>, RegistrationError> {
        let Some(id) = &desired.goal.import else {
            return Ok(None);
        };
        let known = old.filter(|old| !old.external).map(|old| {
            if old.import_id.is_empty() {
                &old.id
            } else {
                &old.import_id
            }
        });
        if known == Some(id) {
            return Ok(None);
        }
        let dated = Resource {
            import_id: id.clone(),
            ..self.with_timestamps(None, true)
        };
        let new = self.resource(desired, Properties::new(), dated);
        let operation = if old.is_some() {
            Operation::ImportReplacement
        } else {
            Operation::Import
        };
        let step = Step::new(operation, old.cloned(), Some(new));
        let part = desired.goal.part;
        let imported = self.engine.change(step, part, |call, new| {
            let request = ReadRequest {
                id,
                inputs: None,
                outputs: &Properties::new(),
            };
            let found = existing(desired.provider.read(call, &request)?, id)?;
            new.id = found.id;
            new.inputs = Some(found.inputs);
            new.outputs = Some(found.outputs);
            Ok(())
        })?;
        if let Some(old) = old {
            let step = Step::new(
                Operation::Replace,
                Some(old.clone()),
                Some(imported.clone()),
            );
            self.engine.pass(&step, part);
        }
        Ok(Some(imported))
    }
}

fn existing(found: Option<Observed>, id: &str) -> Result<Observed, ProviderError> {
    found.ok_or_else(|| ProviderError::Failed(format!("resource '{id}' does not exist")))
}

/// A resource to read.
struct ReadTarget {
    /// Its id; none if a preview cannot know it.
    id: Option<String>,
    /// Properties that help to find it.
    state: Properties,
}

/// The target of a read. A stack reference is found by its name.
fn wish(goal: &Goal) -> Result<ReadTarget, RegistrationError> {
    let name = || goal.inputs.get("name").cloned().unwrap_or(Property::Null);
    let (id, what) = match &goal.read {
        Some(id) => (id.clone(), "the id of a resource to get"),
        None => (name(), "the name of a stack reference"),
    };
    let id = match id.opened().0 {
        Property::String(id) => Some(id),
        Property::Unknown if goal.read.is_some() => None,
        _ => {
            return Err(RegistrationError::Message(format!(
                "{what} must be known text"
            )));
        }
    };
    Ok(ReadTarget {
        id,
        state: goal.inputs.clone(),
    })
}
