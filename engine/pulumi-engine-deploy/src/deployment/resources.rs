//! One resource of a program: check, diff, then create, update, replace or keep.

use pulumi_engine_model::{
    property::{Properties, Property},
    resource::{Resource, TRIGGER},
    urn::Urn,
};
use pulumi_engine_providers::{
    ChangeRequest, CheckFailure, CheckRequest, Difference, ProviderError,
};
use pulumi_yaml::text::from_float;
use ring::digest;
use serde_json::json;

use super::registrar::{DesiredResource, Registrar};
use crate::{
    plan::{
        Failure, Operation, Step,
        decision::{self, Decision, DecisionInput},
        path::Path,
    },
    program::evaluate::RegistrationError,
};

/// The replacement key if the provider changed.
const OTHER_PROVIDER: &str = "provider";

impl Registrar<'_, '_> {
    /// Creates, updates, replaces or keeps a resource. Returns it, and whether it changed.
    pub(super) fn reconcile_resource(
        &self,
        desired: &DesiredResource<'_>,
        old: Option<&Resource>,
    ) -> Result<(Resource, bool), RegistrationError> {
        let imported = self.import(desired, old)?;
        let imported_now = imported.is_some();
        let old = imported.as_ref().or(old);
        let cleared = {
            let registrations = self.registrations.lock();
            registrations
                .cleared
                .get(desired.urn)
                .map(|(keys, _)| keys.clone())
        };
        let selected = self.engine.task.selection.replaces(desired.urn);
        let (Some(old), false) = (old, old.is_some_and(|old| old.external)) else {
            let inputs = self.check(desired, None, &desired.goal.inputs)?;
            let made = match old {
                None => self.create(desired, inputs)?,
                Some(external) => self.replace(desired, external, inputs, &[], &[], false)?,
            };
            return Ok((made, true));
        };
        if let Some(keys) = cleared {
            let inputs = self.check(desired, None, &desired.goal.inputs)?;
            let made = self.recreate(desired, old, inputs, &keys)?;
            return Ok((made, true));
        }
        let old_inputs = old.inputs.clone().unwrap_or_default();
        let kept = self.ignore_changes(desired, &old_inputs);
        let inputs = self.check(desired, Some(&old_inputs).filter(|_| !selected), &kept)?;
        let forced = self.forced(desired, old);
        let difference = match forced {
            // another provider cannot diff a resource that it did not create
            Some(OTHER_PROVIDER) => Difference::default(),
            _ => self.difference(desired, old, &inputs)?,
        };
        let input = DecisionInput {
            old,
            goal: desired.goal,
            difference: &difference,
            forced,
            delete_first: desired.of_type.delete_before_replace,
        };
        let decision = decision::decide(&input).map_err(RegistrationError::Message)?;
        if matches!(decision, Decision::Replace { .. }) {
            self.refuse_protected(desired, old)?;
        }
        match decision {
            Decision::Same if imported_now => Ok((old.clone(), false)),
            Decision::Same => Ok((self.leave_as_is(desired, old, inputs), false)),
            Decision::Update { differences } => {
                Ok((self.update(desired, old, inputs, differences)?, true))
            }
            Decision::Replace { .. } if desired.goal.import.is_some() => {
                Err(RegistrationError::Message(
                    "previously-imported resources that still specify an ID may not be replaced; \
                     please remove the `import` declaration from your program"
                        .to_owned(),
                ))
            }
            Decision::Replace {
                differences,
                keys,
                delete_first,
            } => {
                // a replacement carries nothing over from the old resource
                let inputs = self.check(desired, None, &desired.goal.inputs)?;
                let made = self.replace(desired, old, inputs, &differences, &keys, delete_first)?;
                Ok((made, true))
            }
        }
    }

    /// Rejects the replacement of a protected resource. A preview reports it and continues.
    fn refuse_protected(
        &self,
        desired: &DesiredResource<'_>,
        old: &Resource,
    ) -> Result<(), RegistrationError> {
        if !old.protect || desired.goal.protect != Some(true) {
            return Ok(());
        }
        let message = decision::protected_message(old);
        if !self.engine.task.preview {
            return Err(RegistrationError::Message(message));
        }
        let failure = Failure::new(Some(desired.urn.clone()), message);
        self.engine.progress.failure(&failure);
        Ok(())
    }

    /// The inputs, with old values for `ignoreChanges`.
    fn ignore_changes(&self, desired: &DesiredResource<'_>, old: &Properties) -> Properties {
        let mut inputs = desired.goal.inputs.clone();
        let mut left = Vec::new();
        for name in &desired.goal.ignore_changes {
            let path = Path::parse("ignoreChanges", name);
            if !path.is_ok_and(|path| path.keep(old, &mut inputs)) {
                left.push(name.as_str());
            }
        }
        if !left.is_empty() {
            let message = format!(
                "cannot ignore changes in added or removed elements of the path: {:?}",
                left.join(", ")
            );
            self.engine.progress.status(desired.urn, &message);
        }
        inputs
    }

    /// The reason for a replacement that needs no diff.
    fn forced(&self, desired: &DesiredResource<'_>, old: &Resource) -> Option<&'static str> {
        if self.engine.task.selection.replaces(desired.urn) {
            return Some("id");
        }
        let replaced = {
            let registrations = self.registrations.lock();
            let mut with = desired.goal.replace_with.iter();
            with.any(|urn| registrations.anew.contains(urn))
        };
        if replaced {
            return Some("replaceWith");
        }
        self.has_other_provider(old, desired.reference)
            .then_some(OTHER_PROVIDER)
    }

    /// Calls the provider's check, which completes the inputs.
    pub(super) fn check(
        &self,
        desired: &DesiredResource<'_>,
        old: Option<&Properties>,
        inputs: &Properties,
    ) -> Result<Properties, RegistrationError> {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.engine.seed);
        context.update(desired.urn.as_str().as_bytes());
        let seed = context.finish();
        let request = CheckRequest {
            old,
            inputs,
            random_seed: seed.as_ref(),
        };
        let mut failures = missing_inputs(desired, inputs);
        if failures.is_empty() {
            let checked = self.engine.call(desired.urn, None, |call| {
                desired.provider.check(call, &request)
            });
            let checked = checked.map_err(|error| self.failed(desired.urn, &error))?;
            if checked.failures.is_empty() {
                return Ok(checked.inputs);
            }
            failures = checked.failures;
        }
        for failure in &failures {
            let (kind, name) = (&desired.goal.kind, desired.urn.name());
            let message = if failure.property.is_empty() {
                format!("{kind} resource '{name}' has a problem: {}", failure.reason)
            } else {
                let value = inputs.get(&failure.property);
                let value = value.map_or_else(|| "<nil>".to_owned(), |value| format!("{value:?}"));
                format!(
                    "{kind} resource '{name}': property {} value {{{value}}} has a problem: {}",
                    failure.property, failure.reason
                )
            };
            let failure = Failure::new(Some(desired.urn.clone()), message);
            self.engine.progress.failure(&failure);
        }
        Err(self.engine.fail().into())
    }

    fn difference(
        &self,
        desired: &DesiredResource<'_>,
        old: &Resource,
        inputs: &Properties,
    ) -> Result<Difference, RegistrationError> {
        let none = Properties::new();
        let request = ChangeRequest {
            id: &old.id,
            old_inputs: old.inputs.as_ref().unwrap_or(&none),
            old_outputs: old.outputs.as_ref().unwrap_or(&none),
            inputs,
            ignore_changes: &desired.goal.ignore_changes,
        };
        self.engine
            .call(desired.urn, None, |call| {
                desired.provider.diff(call, &request)
            })
            .map_err(|error| self.failed(desired.urn, &error))
    }

    /// Reports a failed call that is not part of a step.
    pub(super) fn failed(&self, urn: &Urn, error: &ProviderError) -> RegistrationError {
        let failure = Failure::new(Some(urn.clone()), error.to_string());
        self.engine.progress.failure(&failure);
        self.engine.fail().into()
    }

    fn create(
        &self,
        desired: &DesiredResource<'_>,
        inputs: Properties,
    ) -> Result<Resource, RegistrationError> {
        let new = self.resource(desired, inputs, self.with_timestamps(None, true));
        let step = Step::new(Operation::Create, None, Some(new));
        self.do_create(desired, step)
    }

    /// Calls the provider to create the resource of a step.
    pub(super) fn do_create(
        &self,
        desired: &DesiredResource<'_>,
        step: Step,
    ) -> Result<Resource, RegistrationError> {
        let part = desired.goal.part;
        Ok(self.engine.change(step, part, |call, new| {
            let none = Properties::new();
            let made = desired
                .provider
                .create(call, new.inputs.as_ref().unwrap_or(&none))?;
            new.id = made.id;
            new.outputs = Some(made.outputs);
            Ok(())
        })?)
    }

    fn update(
        &self,
        desired: &DesiredResource<'_>,
        old: &Resource,
        inputs: Properties,
        differences: Vec<String>,
    ) -> Result<Resource, RegistrationError> {
        let kept = Resource {
            id: old.id.clone(),
            import_id: old.import_id.clone(),
            ..self.with_timestamps(Some(old), true)
        };
        let new = self.resource(desired, inputs, kept);
        let step = Step {
            differences,
            ..Step::new(Operation::Update, Some(old.clone()), Some(new))
        };
        Ok(self.engine.change(step, desired.goal.part, |call, new| {
            let none = Properties::new();
            let request = ChangeRequest {
                id: &old.id,
                old_inputs: old.inputs.as_ref().unwrap_or(&none),
                old_outputs: old.outputs.as_ref().unwrap_or(&none),
                inputs: new.inputs.as_ref().unwrap_or(&none),
                ignore_changes: &desired.goal.ignore_changes,
            };
            new.outputs = Some(desired.provider.update(call, &request)?);
            Ok(())
        })?)
    }

    fn leave_as_is(
        &self,
        desired: &DesiredResource<'_>,
        old: &Resource,
        inputs: Properties,
    ) -> Resource {
        let kept = Resource {
            id: old.id.clone(),
            import_id: old.import_id.clone(),
            outputs: Some(old.outputs.clone().unwrap_or_default()),
            ..self.with_timestamps(Some(old), false)
        };
        let mut new = self.resource(desired, inputs, kept);
        super::perform::conceal(&mut new);
        let step = Step::new(Operation::Same, Some(old.clone()), Some(new.clone()));
        self.engine.pass(&step, desired.goal.part);
        new
    }

    /// The new resource, from the goal and the kept fields.
    pub(super) fn resource(
        &self,
        desired: &DesiredResource<'_>,
        inputs: Properties,
        kept: Resource,
    ) -> Resource {
        let goal = desired.goal.clone();
        let dependencies = goal.property_dependencies.into_iter();
        let mut secret = goal.additional_secret_outputs;
        for name in &desired.of_type.secret_outputs {
            if !secret.iter().any(|known| known == name) {
                secret.push((*name).to_owned());
            }
        }
        Resource {
            urn: desired.urn.clone(),
            custom: true,
            kind: goal.kind,
            inputs: Some(inputs),
            parent: Some(goal.parent.unwrap_or_else(|| self.stack().stack_urn())),
            protect: goal.protect.unwrap_or_default(),
            dependencies: goal.dependencies.into_iter().collect(),
            provider: desired.reference.to_owned(),
            property_dependencies: dependencies
                .map(|(name, urns)| (name, Some(urns.into_iter().collect())))
                .collect(),
            additional_secret_outputs: secret,
            retain_on_delete: goal.retain_on_delete.unwrap_or_default(),
            deleted_with: goal.deleted_with,
            ignore_changes: goal.ignore_changes,
            replace_on_changes: goal.replace_on_changes,
            replace_with: goal.replace_with,
            custom_timeouts: goal
                .custom_timeouts
                .into_iter()
                .map(|(name, seconds)| (name, json!(from_float(seconds))))
                .collect(),
            replacement_trigger: goal
                .replacement_trigger
                .filter(|trigger| *trigger != Property::Null)
                .map(|trigger| Properties::from([(TRIGGER.to_owned(), trigger)])),
            hide_diff: goal
                .hide_diffs
                .iter()
                .map(|path| canonical_path(path))
                .collect(),
            ..kept
        }
    }
}

/// The required inputs that are not there.
fn missing_inputs(desired: &DesiredResource<'_>, inputs: &Properties) -> Vec<CheckFailure> {
    let is_given = |name: &&str| match inputs.get(*name).map(Property::opened) {
        // a secret null is none, null that a resource gives is one
        Some((Property::Null, secret)) => !secret,
        given => given.is_some(),
    };
    let required = desired.of_type.required.iter();
    let missing = required.filter(|name| !is_given(name));
    let failure = |name: &&str| CheckFailure {
        property: (*name).to_owned(),
        reason: format!("missing required property {name:?}"),
    };
    missing.map(failure).collect()
}

/// A path as states have it: in one way, however the program has it.
fn canonical_path(path: &str) -> String {
    Path::parse("hideDiffs", path).map_or_else(|_| path.to_owned(), |path| path.to_string())
}
