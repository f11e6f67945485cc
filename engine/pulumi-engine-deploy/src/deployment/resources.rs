//! One resource of a program: checked, compared with what is there, and created, changed, replaced or left.

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

use super::registrar::{Registrar, Wanted};
use crate::{
    plan::{
        Failure, Operation, Step,
        decision::{self, Decision, Question},
        path::Path,
    },
    program::evaluate::Refusal,
};

/// What replaces a resource whose provider is another one.
const OTHER_PROVIDER: &str = "provider";

impl Registrar<'_, '_> {
    /// Creates, changes, replaces or leaves a resource; says whether it is as it was.
    pub(super) fn make_so(
        &self,
        wanted: &Wanted<'_>,
        old: Option<&Resource>,
    ) -> Result<(Resource, bool), Refusal> {
        let imported = self.import(wanted, old)?;
        let imported_now = imported.is_some();
        let old = imported.as_ref().or(old);
        let cleared = {
            let book = self.book.lock();
            book.cleared.get(wanted.urn).map(|(keys, _)| keys.clone())
        };
        let selected = self.engine.task.selection.replaces(wanted.urn);
        let (Some(old), false) = (old, old.is_some_and(|old| old.external)) else {
            let inputs = self.check(wanted, None, &wanted.goal.inputs)?;
            let made = match old {
                None => self.create(wanted, inputs)?,
                Some(external) => self.replace(wanted, external, inputs, &[], &[], false)?,
            };
            return Ok((made, true));
        };
        if let Some(keys) = cleared {
            let inputs = self.check(wanted, None, &wanted.goal.inputs)?;
            let made = self.recreate(wanted, old, inputs, &keys)?;
            return Ok((made, true));
        }
        let old_inputs = old.inputs.clone().unwrap_or_default();
        let kept = self.ignore_changes(wanted, &old_inputs);
        let inputs = self.check(wanted, Some(&old_inputs).filter(|_| !selected), &kept)?;
        let forced = self.forced(wanted, old);
        let difference = match forced {
            // what another provider says of a resource that it did not make means nothing
            Some(OTHER_PROVIDER) => Difference::default(),
            _ => self.difference(wanted, old, &inputs)?,
        };
        let question = Question {
            old,
            goal: wanted.goal,
            difference: &difference,
            forced,
            delete_first: wanted.of_type.delete_before_replace,
        };
        let decision = decision::decide(&question).map_err(Refusal::Message)?;
        if matches!(decision, Decision::Replace { .. }) {
            self.refuse_protected(wanted, old)?;
        }
        match decision {
            Decision::Same if imported_now => Ok((old.clone(), false)),
            Decision::Same => Ok((self.leave_as_is(wanted, old, inputs), false)),
            Decision::Update { differences } => {
                Ok((self.update(wanted, old, inputs, differences)?, true))
            }
            Decision::Replace { .. } if wanted.goal.import.is_some() => Err(Refusal::Message(
                "previously-imported resources that still specify an ID may not be replaced; \
                     please remove the `import` declaration from your program"
                    .to_owned(),
            )),
            Decision::Replace {
                differences,
                keys,
                delete_first,
            } => {
                // what was carried over from the old one is no longer so
                let inputs = self.check(wanted, None, &wanted.goal.inputs)?;
                let made = self.replace(wanted, old, inputs, &differences, &keys, delete_first)?;
                Ok((made, true))
            }
        }
    }

    /// A run ends at what is protected and would be replaced; a preview tells it, and goes on to show what would be.
    fn refuse_protected(&self, wanted: &Wanted<'_>, old: &Resource) -> Result<(), Refusal> {
        if !old.protect || wanted.goal.protect != Some(true) {
            return Ok(());
        }
        let message = decision::protected(old);
        if !self.engine.task.preview {
            return Err(Refusal::Message(message));
        }
        let failure = Failure::new(Some(wanted.urn.clone()), message);
        self.engine.progress.failure(&failure);
        Ok(())
    }

    /// The inputs with old values in the place of those whose changes do not count.
    fn ignore_changes(&self, wanted: &Wanted<'_>, old: &Properties) -> Properties {
        let mut inputs = wanted.goal.inputs.clone();
        let mut left = Vec::new();
        for name in &wanted.goal.ignore_changes {
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
            self.engine.progress.status(wanted.urn, &message);
        }
        inputs
    }

    /// Why a resource is replaced whatever has changed.
    fn forced(&self, wanted: &Wanted<'_>, old: &Resource) -> Option<&'static str> {
        if self.engine.task.selection.replaces(wanted.urn) {
            return Some("id");
        }
        let replaced = {
            let book = self.book.lock();
            let mut with = wanted.goal.replace_with.iter();
            with.any(|urn| book.anew.contains(urn))
        };
        if replaced {
            return Some("replaceWith");
        }
        self.has_other_provider(old, wanted.reference)
            .then_some(OTHER_PROVIDER)
    }

    /// Has the provider look at inputs and complete them.
    pub(super) fn check(
        &self,
        wanted: &Wanted<'_>,
        old: Option<&Properties>,
        inputs: &Properties,
    ) -> Result<Properties, Refusal> {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.engine.seed);
        context.update(wanted.urn.as_str().as_bytes());
        let seed = context.finish();
        let request = CheckRequest {
            old,
            inputs,
            random_seed: seed.as_ref(),
        };
        let mut failures = missing(wanted, inputs);
        if failures.is_empty() {
            let checked = self.engine.call(wanted.urn, None, |call| {
                wanted.provider.check(call, &request)
            });
            let checked = checked.map_err(|error| self.failed(wanted.urn, &error))?;
            if checked.failures.is_empty() {
                return Ok(checked.inputs);
            }
            failures = checked.failures;
        }
        for failure in &failures {
            let (kind, name) = (&wanted.goal.kind, wanted.urn.name());
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
            let failure = Failure::new(Some(wanted.urn.clone()), message);
            self.engine.progress.failure(&failure);
        }
        Err(self.engine.fail().into())
    }

    fn difference(
        &self,
        wanted: &Wanted<'_>,
        old: &Resource,
        inputs: &Properties,
    ) -> Result<Difference, Refusal> {
        let none = Properties::new();
        let request = ChangeRequest {
            id: &old.id,
            old_inputs: old.inputs.as_ref().unwrap_or(&none),
            old_outputs: old.outputs.as_ref().unwrap_or(&none),
            inputs,
            ignore_changes: &wanted.goal.ignore_changes,
        };
        self.engine
            .call(wanted.urn, None, |call| {
                wanted.provider.diff(call, &request)
            })
            .map_err(|error| self.failed(wanted.urn, &error))
    }

    /// A call that was about a resource, but part of no step, has failed.
    pub(super) fn failed(&self, urn: &Urn, error: &ProviderError) -> Refusal {
        let failure = Failure::new(Some(urn.clone()), error.to_string());
        self.engine.progress.failure(&failure);
        self.engine.fail().into()
    }

    fn create(&self, wanted: &Wanted<'_>, inputs: Properties) -> Result<Resource, Refusal> {
        let new = self.resource(wanted, inputs, self.dated(None, true));
        let step = Step::new(Operation::Create, None, Some(new));
        self.do_create(wanted, step)
    }

    /// Has the provider make the resource of a step.
    pub(super) fn do_create(&self, wanted: &Wanted<'_>, step: Step) -> Result<Resource, Refusal> {
        let part = wanted.goal.part;
        Ok(self.engine.change(step, part, |call, new| {
            let none = Properties::new();
            let made = wanted
                .provider
                .create(call, new.inputs.as_ref().unwrap_or(&none))?;
            new.id = made.id;
            new.outputs = Some(made.outputs);
            Ok(())
        })?)
    }

    fn update(
        &self,
        wanted: &Wanted<'_>,
        old: &Resource,
        inputs: Properties,
        differences: Vec<String>,
    ) -> Result<Resource, Refusal> {
        let kept = Resource {
            id: old.id.clone(),
            import_id: old.import_id.clone(),
            ..self.dated(Some(old), true)
        };
        let new = self.resource(wanted, inputs, kept);
        let step = Step {
            differences,
            ..Step::new(Operation::Update, Some(old.clone()), Some(new))
        };
        Ok(self.engine.change(step, wanted.goal.part, |call, new| {
            let none = Properties::new();
            let request = ChangeRequest {
                id: &old.id,
                old_inputs: old.inputs.as_ref().unwrap_or(&none),
                old_outputs: old.outputs.as_ref().unwrap_or(&none),
                inputs: new.inputs.as_ref().unwrap_or(&none),
                ignore_changes: &wanted.goal.ignore_changes,
            };
            new.outputs = Some(wanted.provider.update(call, &request)?);
            Ok(())
        })?)
    }

    fn leave_as_is(&self, wanted: &Wanted<'_>, old: &Resource, inputs: Properties) -> Resource {
        let kept = Resource {
            id: old.id.clone(),
            import_id: old.import_id.clone(),
            outputs: Some(old.outputs.clone().unwrap_or_default()),
            ..self.dated(Some(old), false)
        };
        let mut new = self.resource(wanted, inputs, kept);
        super::perform::conceal(&mut new);
        let step = Step::new(Operation::Same, Some(old.clone()), Some(new.clone()));
        self.engine.pass(&step, wanted.goal.part);
        new
    }

    /// A resource from what the program wants and what it keeps.
    pub(super) fn resource(
        &self,
        wanted: &Wanted<'_>,
        inputs: Properties,
        kept: Resource,
    ) -> Resource {
        let goal = wanted.goal.clone();
        let dependencies = goal.property_dependencies.into_iter();
        let mut secret = goal.additional_secret_outputs;
        for name in &wanted.of_type.secret_outputs {
            if !secret.iter().any(|known| known == name) {
                secret.push((*name).to_owned());
            }
        }
        Resource {
            urn: wanted.urn.clone(),
            custom: true,
            kind: goal.kind,
            inputs: Some(inputs),
            parent: Some(goal.parent.unwrap_or_else(|| self.stack().stack_urn())),
            protect: goal.protect.unwrap_or_default(),
            dependencies: goal.dependencies.into_iter().collect(),
            provider: wanted.reference.to_owned(),
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
            hide_diff: goal.hide_diffs.iter().map(|path| written(path)).collect(),
            ..kept
        }
    }
}

/// The required inputs that are not there.
fn missing(wanted: &Wanted<'_>, inputs: &Properties) -> Vec<CheckFailure> {
    let is_given = |name: &&str| match inputs.get(*name).map(Property::opened) {
        // a secret null is none, null that a resource gives is one
        Some((Property::Null, secret)) => !secret,
        given => given.is_some(),
    };
    let required = wanted.of_type.required.iter();
    let missing = required.filter(|name| !is_given(name));
    let failure = |name: &&str| CheckFailure {
        property: (*name).to_owned(),
        reason: format!("missing required property {name:?}"),
    };
    missing.map(failure).collect()
}

/// A path as states have it: in one way, however the program has it.
fn written(path: &str) -> String {
    Path::parse("hideDiffs", path).map_or_else(|_| path.to_owned(), |path| path.to_string())
}
