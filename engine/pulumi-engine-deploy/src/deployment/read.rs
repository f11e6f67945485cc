//! Resources that others own (`get`, stack references), and those that the stack takes over (`import`).

use pulumi_engine_model::{
    property::{Properties, Property},
    resource::Resource,
    urn::Urn,
};
use pulumi_engine_providers::{Observed, ProviderError, ReadRequest};

use super::registrar::{Registrar, Wanted, refused};
use crate::{
    plan::{Operation, Step},
    program::evaluate::{Goal, Refusal, Registered},
};

impl Registrar<'_, '_> {
    /// Reads a resource that belongs to nobody here; each run reads it anew.
    pub(super) fn read(&self, urn: &Urn, goal: &Goal) -> Result<Registered, Refusal> {
        let old = self.find_old(urn, goal);
        let old = old.map(|record| record.resource.clone());
        let wish = wish(goal)?;
        let reference = self.provider_of(urn, goal);
        if wish.id.as_deref() == Some("") {
            return Err(Refusal::Message(format!(
                "Expected an ID for {urn}: \"get\" needs the id of a resource"
            )));
        }
        let provider = self.engine.providers.get(&reference, &goal.kind);
        let provider = provider.map_err(|error| refused(&error))?;
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
            // an id that a preview cannot know yet cannot be read either
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

    /// Takes over a resource that the program says exists already, unless that is done.
    pub(super) fn import(
        &self,
        wanted: &Wanted<'_>,
        old: Option<&Resource>,
    ) -> Result<Option<Resource>, Refusal> {
        let Some(id) = &wanted.goal.import else {
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
            ..self.dated(None, true)
        };
        let new = self.resource(wanted, Properties::new(), dated);
        let operation = if old.is_some() {
            Operation::ImportReplacement
        } else {
            Operation::Import
        };
        let step = Step::new(operation, old.cloned(), Some(new));
        let part = wanted.goal.part;
        let imported = self.engine.change(step, part, |call, new| {
            let request = ReadRequest {
                id,
                inputs: None,
                outputs: &Properties::new(),
            };
            let found = existing(wanted.provider.read(call, &request)?, id)?;
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
struct Wish {
    /// Its id; none if a preview cannot know it.
    id: Option<String>,
    /// What else helps to find it.
    state: Properties,
}

/// What is to be read: a reference to a stack is found by its name.
fn wish(goal: &Goal) -> Result<Wish, Refusal> {
    let name = || goal.inputs.get("name").cloned().unwrap_or(Property::Null);
    let (id, what) = match &goal.read {
        Some(id) => (id.clone(), "the id of a resource to get"),
        None => (name(), "the name of a stack reference"),
    };
    let id = match id.opened().0 {
        Property::String(id) => Some(id),
        Property::Unknown if goal.read.is_some() => None,
        _ => return Err(Refusal::Message(format!("{what} must be known text"))),
    };
    Ok(Wish {
        id,
        state: goal.inputs.clone(),
    })
}
