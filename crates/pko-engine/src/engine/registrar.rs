//! Preview and up: what a program registers, against the state. Here the program's wishes become steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use ring::digest;
use serde_json::{Value, json};

use super::{Engine, Halted, Olds, providers::Shared};
use crate::{
    builtin,
    plan::{
        Failure, Operation, Step,
        decision::{self, Decision, Question},
        path::Path,
        snapshot::Record,
    },
    program::{
        Program,
        access::{self, Accessor},
        evaluate::{self, Alias, Goal, Host, Refusal, Registered, Surroundings},
    },
    property::{Properties, Property},
    provider::{ChangeRequest, CheckRequest, Difference, ProviderError, ResourceType},
    resource::Resource,
    schedule::locked,
    urn::{STACK_TYPE, StackIdentity, Urn},
};

/// Runs a program, then deletes what it no longer has.
pub(super) fn run(engine: &Engine<'_>, program: &Program, surroundings: &Surroundings<'_>) {
    for warning in &program.warnings {
        engine.reporter.warning(&Failure {
            urn: None,
            diagnostic: warning.clone(),
        });
    }
    if engine.is_stopped() {
        return;
    }
    let registrar = Registrar {
        engine,
        olds: engine.olds(),
        book: Mutex::default(),
        made_room: Condvar::new(),
        defaults: Mutex::default(),
    };
    registrar.register_stack();
    match evaluate::evaluate(program, surroundings, &registrar) {
        Ok(outputs) => registrar.finish(outputs),
        Err(errors) => {
            for diagnostic in errors {
                engine.reporter.failure(&Failure {
                    urn: None,
                    diagnostic,
                });
            }
            registrar.stack_done(None);
        }
    }
}

/// Registers resources for a program.
pub(super) struct Registrar<'r, 'a> {
    pub(super) engine: &'r Engine<'a>,
    pub(super) olds: Olds,
    pub(super) book: Mutex<Book>,
    /// Told when old resources are gone that stood in the way of new ones.
    pub(super) made_room: Condvar,
    /// References to default providers; held while one is registered, so that there is one of each.
    pub(super) defaults: Mutex<BTreeMap<(String, String, String), String>>,
}

/// What was registered so far.
#[derive(Default)]
pub(super) struct Book {
    /// URNs the program has, under their new names.
    pub(super) seen: BTreeSet<Urn>,
    /// Old names of resources that aliases found.
    renamed: BTreeMap<Urn, Urn>,
    /// Resources that are made anew in this run.
    pub(super) anew: BTreeSet<Urn>,
    /// New resources that `--target` leaves out.
    skipped: BTreeSet<Urn>,
    /// What `--target` includes, with dependents.
    targeted: BTreeSet<Urn>,
    /// Resources that were deleted because what they depend on was deleted before its replacement: the inputs that
    /// change, and whether they are gone already.
    pub(super) cleared: BTreeMap<Urn, (Vec<String>, bool)>,
    /// Providers that children inherit, by package.
    pub(super) inherited: BTreeMap<Urn, BTreeMap<String, String>>,
}

/// All that is known of a resource that is about to be made, changed or left.
pub(super) struct Wanted<'a> {
    pub(super) urn: &'a Urn,
    pub(super) goal: &'a Goal,
    /// Reference to its provider.
    pub(super) reference: &'a str,
    pub(super) provider: &'a Shared<'a>,
    pub(super) of_type: &'a ResourceType,
}

impl From<Halted> for Refusal {
    fn from(_: Halted) -> Self {
        Self::Reported
    }
}

impl<'a> Registrar<'_, 'a> {
    pub(super) fn stack(&self) -> &'a StackIdentity {
        self.engine.task.stack
    }

    fn register_stack(&self) {
        let urn = self.stack().stack_urn();
        let old = self.olds.get(&urn).map(|record| record.resource.clone());
        let new = Resource {
            kind: STACK_TYPE.to_owned(),
            outputs: old.as_ref().and_then(|old| old.outputs.clone()),
            urn: urn.clone(),
            ..self.dated(old.as_ref(), false)
        };
        locked(&self.book).seen.insert(urn);
        let operation = if old.is_some() {
            Operation::Same
        } else {
            Operation::Create
        };
        self.engine.pass(&Step::new(operation, old, Some(new)), 0);
    }

    pub(super) fn dated(&self, old: Option<&Resource>, changed: bool) -> Resource {
        let now = || Some(self.engine.task.world.now());
        Resource {
            created: old.and_then(|old| old.created.clone()).or_else(now),
            modified: old
                .and_then(|old| old.modified.clone())
                .filter(|_| !changed)
                .or_else(now),
            ..Resource::default()
        }
    }

    /// Notes that a resource is registered, once it is out of the way of what was deleted for others.
    fn enter(&self, urn: &Urn) -> Result<(), Refusal> {
        let mut book = locked(&self.book);
        if !book.seen.insert(urn.clone()) {
            return Err(Refusal::Message(format!(
                "duplicate resource URN {urn}; each name must be unique"
            )));
        }
        while book.cleared.get(urn).is_some_and(|(_, gone)| !gone) {
            book = self
                .made_room
                .wait(book)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// The resource before, under its own name or a former one.
    pub(super) fn find_old(&self, urn: &Urn, goal: &Goal) -> Option<Arc<Record>> {
        if let Some(old) = self.olds.get(urn) {
            return Some(Arc::clone(old));
        }
        let parent = goal.parent.as_ref();
        let mut aliases = goal
            .aliases
            .iter()
            .map(|alias| former_urn(self.stack(), alias, goal, parent));
        let old = aliases.find_map(|alias| self.olds.get(&alias).map(Arc::clone))?;
        let mut book = locked(&self.book);
        book.renamed.insert(old.resource.urn.clone(), urn.clone());
        Some(old)
    }

    /// Whether the run is about this resource; then also what depends on it may be.
    fn is_included(&self, urn: &Urn, old: Option<&Resource>, goal: &Goal) -> bool {
        let selection = self.engine.task.selection;
        let mut book = locked(&self.book);
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

    fn register_resource(&self, urn: &Urn, goal: &Goal) -> Result<Registered, Refusal> {
        let old = self.find_old(urn, goal);
        let old = old.as_ref().map(|record| &record.resource);
        if !self.is_included(urn, old, goal) {
            return self.leave(urn, old, goal);
        }
        let missing = {
            let book = locked(&self.book);
            let mut needs = goal.dependencies.iter();
            needs.find(|urn| book.skipped.contains(urn)).cloned()
        };
        if let Some(missing) = missing {
            return Err(Refusal::Message(format!(
                "resource {urn} depends on {missing}, which was not specified in --target list"
            )));
        }
        let reference = self.provider_of(urn, goal)?;
        let provider = self.engine.providers.get(&reference, &goal.kind);
        let provider = provider.map_err(refused)?;
        let of_type = provider.resource_type(&goal.kind).map_err(refused)?;
        let wanted = Wanted {
            urn,
            goal,
            reference: &reference,
            provider: &provider,
            of_type: &of_type,
        };
        let (resource, new) = self.make_so(&wanted, old)?;
        Ok(self.registered(resource, new))
    }

    /// What the program is told. In a preview there may be outputs that nobody can know.
    pub(super) fn registered(&self, resource: Resource, changed: bool) -> Registered {
        Registered {
            urn: resource.urn,
            id: Some(resource.id).filter(|id| !id.is_empty()),
            outputs: resource.outputs.unwrap_or_default(),
            partial: changed && self.engine.task.preview,
        }
    }

    /// Creates, changes, replaces or leaves a resource; says whether it is as it was.
    fn make_so(
        &self,
        wanted: &Wanted<'_>,
        old: Option<&Resource>,
    ) -> Result<(Resource, bool), Refusal> {
        let imported = self.import(wanted, old)?;
        let imported_now = imported.is_some();
        let old = imported.as_ref().or(old);
        let cleared = {
            let book = locked(&self.book);
            book.cleared.get(wanted.urn).map(|(keys, _)| keys.clone())
        };
        let forced = self.engine.task.selection.replaces(wanted.urn);
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
        let kept = ignore_changes(wanted.goal, &old_inputs).map_err(Refusal::Message)?;
        let inputs = self.check(wanted, Some(&old_inputs).filter(|_| !forced), &kept)?;
        let difference = self.difference(wanted, old, &inputs)?;
        let question = Question {
            old,
            goal: wanted.goal,
            inputs: &inputs,
            difference: &difference,
            forced: self.forced(wanted),
            delete_first: wanted.of_type.delete_before_replace,
        };
        match decision::decide(&question).map_err(Refusal::Message)? {
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

    /// Why a resource is replaced whatever has changed.
    fn forced(&self, wanted: &Wanted<'_>) -> Option<&'static str> {
        if self.engine.task.selection.replaces(wanted.urn) {
            return Some("id");
        }
        let book = locked(&self.book);
        let mut with = wanted.goal.replace_with.iter();
        with.any(|urn| book.anew.contains(urn))
            .then_some("replaceWith")
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
        let checked = self.engine.call(wanted.urn, None, |call| {
            wanted.provider.check(call, &request)
        });
        let checked = checked.map_err(|error| self.failed(wanted.urn, &error))?;
        if checked.failures.is_empty() {
            return Ok(checked.inputs);
        }
        for failure in &checked.failures {
            let (kind, name) = (&wanted.goal.kind, wanted.urn.name());
            let message = if failure.property.is_empty() {
                format!("{kind} resource '{name}' has a problem: {}", failure.reason)
            } else {
                let value = inputs.get(&failure.property);
                let value = value.map_or_else(String::new, |value| format!("{value:?}"));
                format!(
                    "{kind} resource '{name}': property {} value {{{value}}} has a problem: {}",
                    failure.property, failure.reason
                )
            };
            let failure = Failure::new(Some(wanted.urn.clone()), message);
            self.engine.reporter.failure(&failure);
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
        self.engine.reporter.failure(&failure);
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

    /// A resource that `--target` leaves as it is, or as it is not.
    fn leave(&self, urn: &Urn, old: Option<&Resource>, goal: &Goal) -> Result<Registered, Refusal> {
        let Some(old) = old else {
            locked(&self.book).skipped.insert(urn.clone());
            return Ok(Registered {
                urn: urn.clone(),
                id: None,
                outputs: Properties::new(),
                partial: true,
            });
        };
        if !old.provider.is_empty() {
            self.provider_of(urn, goal)?;
        }
        let new = Resource {
            urn: urn.clone(),
            ..old.clone()
        };
        self.engine.ledger.settle(old, goal.part);
        let step = Step::new(Operation::Same, Some(old.clone()), Some(new.clone()));
        self.engine.pass(&step, goal.part);
        Ok(self.registered(new, false))
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
            protect: goal.protect,
            dependencies: goal.dependencies.into_iter().collect(),
            provider: wanted.reference.to_owned(),
            property_dependencies: dependencies
                .map(|(name, urns)| (name, Some(urns.into_iter().collect())))
                .collect(),
            additional_secret_outputs: secret,
            retain_on_delete: goal.retain_on_delete,
            deleted_with: goal.deleted_with,
            ignore_changes: goal.ignore_changes,
            replace_on_changes: goal.replace_on_changes,
            replace_with: goal.replace_with,
            custom_timeouts: goal
                .custom_timeouts
                .into_iter()
                .map(|(name, seconds)| (name, json!(seconds)))
                .collect(),
            hide_diff: goal.hide_diffs.iter().map(|path| parts(path)).collect(),
            ..kept
        }
    }

    fn stack_done(&self, outputs: Option<&Properties>) {
        let urn = self.stack().stack_urn();
        if let Some(outputs) = outputs {
            self.engine.ledger.set_outputs(&urn, outputs);
        }
        let stack = self
            .engine
            .ledger
            .look(|snapshot| snapshot.find(&urn).cloned());
        self.engine.reporter.stack_done(stack, outputs);
    }

    /// Outputs, then everything the program no longer has.
    fn finish(&self, mut outputs: Properties) {
        if self.engine.is_stopped() {
            return self.stack_done(None);
        }
        if !self.engine.task.preview {
            // only what `--target` left out can be unknown here
            outputs.retain(|_, value| *value != Property::Unknown);
        }
        self.stack_done(Some(&outputs));
        let book = locked(&self.book);
        let selection = self.engine.task.selection;
        self.engine.delete_gone(|old| {
            let known = book.seen.contains(&old.urn) || book.renamed.contains_key(&old.urn);
            !known && selection.includes(&old.urn)
        });
    }
}

impl Host for Registrar<'_, '_> {
    fn register(&self, goal: Goal) -> Result<Registered, Refusal> {
        if self.engine.is_stopped() {
            return Err(Refusal::Reported);
        }
        let urn = self
            .stack()
            .urn(goal.parent.as_ref(), &goal.kind, &goal.name);
        self.enter(&urn)?;
        if goal.kind.starts_with(builtin::PROVIDERS) {
            self.register_provider(&urn, &goal)
        } else if goal.read.is_some() || goal.kind == builtin::STACK_REFERENCE {
            self.read(&urn, &goal)
        } else {
            self.register_resource(&urn, &goal)
        }
    }

    fn resource_type(&self, token: &str) -> Result<ResourceType, String> {
        let found = self.engine.providers.resource_type(token);
        found.map_err(|error| error.to_string())
    }

    fn invoke(
        &self,
        token: &str,
        arguments: &Properties,
        goal: &Goal,
    ) -> Result<Properties, Refusal> {
        if self.engine.is_stopped() {
            return Err(Refusal::Reported);
        }
        let urn = self.stack().stack_urn();
        let goal = Goal {
            kind: token.to_owned(),
            ..goal.clone()
        };
        let reference = self.provider_of(&urn, &goal)?;
        let provider = self.engine.providers.get(&reference, token);
        let provider = provider.map_err(refused)?;
        self.engine
            .call(&urn, None, |call| provider.invoke(call, token, arguments))
            .map_err(refused)
    }

    fn function(&self, token: &str) -> Result<(), String> {
        let known = self.engine.task.registry.require(token);
        known.map_err(|error| error.to_string())
    }

    fn parallel(&self) -> usize {
        self.engine.task.parallel
    }
}

/// A provider has no such thing: the program is wrong.
pub(super) fn refused(error: ProviderError) -> Refusal {
    Refusal::Message(error.to_string())
}

fn former_urn(stack: &StackIdentity, alias: &Alias, goal: &Goal, parent: Option<&Urn>) -> Urn {
    match alias {
        Alias::Urn(urn) => urn.clone(),
        Alias::Parts {
            name,
            kind,
            stack: other,
            project,
            parent: former,
        } => {
            let identity = StackIdentity {
                organization: stack.organization.clone(),
                project: project.as_ref().unwrap_or(&stack.project).clone(),
                name: other.as_ref().unwrap_or(&stack.name).clone(),
            };
            let parent = former.as_ref().map_or(parent, Option::as_ref);
            let kind = kind.as_ref().unwrap_or(&goal.kind);
            identity.urn(parent, kind, name.as_ref().unwrap_or(&goal.name))
        }
    }
}

/// A path as states have it.
fn parts(path: &str) -> Value {
    let Ok(access) = access::parse_path(path) else {
        return json!([path]);
    };
    let part = |step: &Accessor| match step {
        Accessor::Index(index) => json!(index),
        other => json!(other.key()),
    };
    let steps = access.steps.iter().map(part);
    Value::Array([json!(access.root)].into_iter().chain(steps).collect())
}

/// The inputs with old values in the place of those whose changes do not count.
fn ignore_changes(goal: &Goal, old: &Properties) -> Result<Properties, String> {
    let mut inputs = goal.inputs.clone();
    for name in &goal.ignore_changes {
        if name == "*" {
            inputs.clone_from(old);
        } else {
            Path::parse("ignoreChanges", name)?.keep(old, &mut inputs);
        }
    }
    Ok(inputs)
}
