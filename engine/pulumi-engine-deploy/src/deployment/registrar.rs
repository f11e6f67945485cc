//! Preview and up: turns the resources that a program registers into steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::{Condvar, Mutex};
use pulumi_engine_model::{
    property::Properties,
    resource::Resource,
    urn::{STACK_TYPE, StackIdentity, Urn},
};
use pulumi_engine_providers::{ProviderError, builtin};
use pulumi_yaml::{Program, ResourceType, keys::PROVIDER_TYPE_PREFIX};

use super::{Engine, Halted, PriorState, providers::SharedProvider};
use crate::{
    plan::{Failure, Operation, Step, path::Path, snapshot::Record},
    program::evaluate::{
        self, Alias, Evaluation, EvaluationContext, Goal, Host, Invocation, Registered,
        RegistrationError,
    },
};

/// Runs a program, then deletes the resources that it no longer has.
pub(super) fn run(engine: &Engine<'_>, program: &Program, context: &EvaluationContext<'_>) {
    for warning in &program.warnings {
        engine.progress.warning(&Failure {
            urn: None,
            diagnostic: warning.clone(),
        });
    }
    let prior_state = engine.prior_state();
    let replace = &engine.task.selection.replace;
    let known = engine.check_targets(replace, |urn| prior_state.get(urn).is_some());
    if engine.is_stopped() || !known {
        return;
    }
    let registrar = Registrar {
        engine,
        prior_state,
        registrations: Mutex::default(),
        made_room: Condvar::new(),
        defaults: Mutex::default(),
    };
    registrar.register_stack();
    let Evaluation {
        outputs,
        stuck,
        errors,
    } = evaluate::evaluate(program, context, &registrar);
    let failed = !errors.is_empty();
    for diagnostic in errors {
        engine.progress.failure(&Failure {
            urn: None,
            diagnostic,
        });
    }
    // as in Pulumi, a program that waits for a failed resource never sets outputs, unless errors
    // are continued
    if !stuck || engine.task.continue_on_error {
        registrar.finish(outputs, failed);
    }
}

/// Registers resources for a program.
pub(super) struct Registrar<'r, 'a> {
    pub(super) engine: &'r Engine<'a>,
    pub(super) prior_state: PriorState,
    pub(super) registrations: Mutex<Registrations>,
    /// Notified when old resources are deleted that block new ones.
    pub(super) made_room: Condvar,
    /// References to default providers. Locked while one is registered, so each exists once.
    pub(super) defaults: Mutex<BTreeMap<(String, String, String), String>>,
}

/// What the program has registered so far.
#[derive(Default)]
pub(super) struct Registrations {
    /// URNs of the program.
    pub(super) seen: BTreeSet<Urn>,
    /// Old URNs of resources found by an alias.
    renamed: BTreeMap<Urn, Urn>,
    /// Resources that this run replaces.
    pub(super) anew: BTreeSet<Urn>,
    /// New resources that `--target` excludes.
    pub(super) skipped: BTreeSet<Urn>,
    /// What `--target` includes, with dependents.
    pub(super) targeted: BTreeSet<Urn>,
    /// Whether a resource was rejected before its provider was called.
    refused: bool,
    /// Resources deleted because a dependency is deleted before its replacement: the changed
    /// inputs, and whether the deletion is done.
    pub(super) cleared: BTreeMap<Urn, (Vec<String>, bool)>,
    /// References to the providers that the program declares.
    pub(super) declared: BTreeMap<Urn, String>,
    /// Options that children inherit.
    inherited_options: BTreeMap<Urn, InheritedOptions>,
    /// Providers that children inherit, by package.
    pub(super) inherited: BTreeMap<Urn, BTreeMap<String, String>>,
}

/// Options that children inherit unless they set their own.
#[derive(Clone)]
struct InheritedOptions {
    deleted_with: Option<Urn>,
    protect: Option<bool>,
    retain_on_delete: Option<bool>,
}

/// A resource of the program, with its provider.
pub(super) struct DesiredResource<'a> {
    pub(super) urn: &'a Urn,
    pub(super) goal: &'a Goal,
    /// Reference to its provider.
    pub(super) reference: &'a str,
    pub(super) provider: &'a SharedProvider<'a>,
    pub(super) of_type: &'a ResourceType,
}

impl From<Halted> for RegistrationError {
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
        let old = self
            .prior_state
            .get(&urn)
            .map(|record| record.resource.clone());
        let new = Resource {
            kind: STACK_TYPE.to_owned(),
            outputs: old.as_ref().and_then(|old| old.outputs.clone()),
            urn: urn.clone(),
            ..self.with_timestamps(old.as_ref(), false)
        };
        self.registrations.lock().seen.insert(urn);
        let operation = if old.is_some() {
            Operation::Same
        } else {
            Operation::Create
        };
        self.engine.pass(&Step::new(operation, old, Some(new)), 0);
    }

    pub(super) fn with_timestamps(&self, old: Option<&Resource>, changed: bool) -> Resource {
        let now = || Some(self.engine.task.host.now());
        Resource {
            created: old.and_then(|old| old.created.clone()).or_else(now),
            modified: old
                .and_then(|old| old.modified.clone())
                .filter(|_| !changed)
                .or_else(now),
            ..Resource::default()
        }
    }

    /// Registers the URN. Waits for a pending deletion of the old resource.
    fn register_urn(&self, urn: &Urn) -> Result<(), RegistrationError> {
        let mut registrations = self.registrations.lock();
        if !registrations.seen.insert(urn.clone()) {
            return Err(RegistrationError::Message(format!(
                "duplicate resource URN {urn}; each name must be unique"
            )));
        }
        while registrations
            .cleared
            .get(urn)
            .is_some_and(|(_, gone)| !gone)
        {
            self.made_room.wait(&mut registrations);
        }
        Ok(())
    }

    /// Inherits options from the parent.
    fn inherit(&self, urn: &Urn, goal: &mut Goal) {
        let mut registrations = self.registrations.lock();
        let parent = goal.parent.as_ref();
        if let Some(parent) = parent.and_then(|parent| registrations.inherited_options.get(parent))
        {
            goal.protect = goal.protect.or(parent.protect);
            goal.retain_on_delete = goal.retain_on_delete.or(parent.retain_on_delete);
            if goal.deleted_with.is_none() {
                goal.deleted_with.clone_from(&parent.deleted_with);
            }
        }
        let options = InheritedOptions {
            deleted_with: goal.deleted_with.clone(),
            protect: goal.protect,
            retain_on_delete: goal.retain_on_delete,
        };
        registrations.inherited_options.insert(urn.clone(), options);
    }

    /// The old resource, by its URN or an alias.
    pub(super) fn find_old(&self, urn: &Urn, goal: &Goal) -> Option<Arc<Record>> {
        if let Some(old) = self.prior_state.get(urn) {
            return Some(Arc::clone(old));
        }
        let parent = goal.parent.as_ref();
        let mut aliases = goal
            .aliases
            .iter()
            .map(|alias| former_urn(self.stack(), alias, goal, parent));
        let old = aliases.find_map(|alias| self.prior_state.get(&alias).map(Arc::clone))?;
        let mut registrations = self.registrations.lock();
        registrations
            .renamed
            .insert(old.resource.urn.clone(), urn.clone());
        Some(old)
    }

    fn register_resource(&self, urn: &Urn, goal: &Goal) -> Result<Registered, RegistrationError> {
        let old = self.find_old(urn, goal);
        let old = old.as_ref().map(|record| &record.resource);
        if !self.is_included(urn, old, goal) {
            return Ok(self.skip_resource(urn, old, goal));
        }
        self.require_targets(urn, goal)?;
        let reference = self.provider_of(urn, goal);
        if let Some(fault) = fault(goal) {
            return Err(RegistrationError::Message(fault));
        }
        let provider = self.engine.providers.get(&reference, &goal.kind);
        let provider = provider.map_err(|error| registration_error(&error))?;
        let of_type = provider
            .resource_type(&goal.kind)
            .map_err(|error| registration_error(&error))?;
        let desired = DesiredResource {
            urn,
            goal,
            reference: &reference,
            provider: &provider,
            of_type: &of_type,
        };
        let (resource, new) = self.reconcile_resource(&desired, old)?;
        Ok(self.registered(resource, new))
    }

    /// The result for the program. In a preview, some outputs may be unknown.
    pub(super) fn registered(&self, resource: Resource, changed: bool) -> Registered {
        Registered {
            urn: resource.urn,
            id: Some(resource.id).filter(|id| !id.is_empty()),
            outputs: resource.outputs.unwrap_or_default(),
            partial: changed && self.engine.task.preview,
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
            .read_snapshot(|snapshot| snapshot.find(&urn).cloned());
        self.engine.progress.stack_done(stack);
    }

    /// Sets the outputs, then deletes everything that the program no longer has, unless it failed.
    /// The old outputs stay if it has none, and if a resource was rejected.
    fn finish(&self, outputs: Option<Properties>, failed: bool) {
        let stay = self.registrations.lock().refused;
        let outputs = outputs.filter(|outputs| !(stay || failed && outputs.is_empty()));
        let Some(outputs) = outputs.filter(|_| !self.engine.is_cut_off()) else {
            return self.stack_done(None);
        };
        self.stack_done(Some(&outputs));
        if failed || self.engine.is_stopped() {
            return;
        }
        let registrations = self.registrations.lock();
        let selection = self.engine.task.selection;
        let known =
            |urn: &Urn| self.prior_state.get(urn).is_some() || registrations.seen.contains(urn);
        self.engine.check_targets(&selection.targets, known);
        self.engine.delete_gone(|old| {
            let known = registrations.seen.contains(&old.urn)
                || registrations.renamed.contains_key(&old.urn);
            !known && !selection.keeps_gone && selection.includes(&old.urn)
        });
    }
}

impl Host for Registrar<'_, '_> {
    fn register(&self, mut goal: Goal) -> Result<Registered, RegistrationError> {
        if self.engine.is_stopped() {
            return Err(RegistrationError::Reported);
        }
        if let Ok(ResourceType {
            canonical: Some(token),
            ..
        }) = self.engine.providers.resource_type(&goal.kind)
        {
            token.clone_into(&mut goal.kind);
        }
        let urn = self
            .stack()
            .urn(goal.parent.as_ref(), &goal.kind, &goal.name);
        self.register_urn(&urn)?;
        self.inherit(&urn, &mut goal);
        if !goal.env_var_mappings.is_empty() && !goal.kind.starts_with(PROVIDER_TYPE_PREFIX) {
            return Err(RegistrationError::Message(
                "envVarMappings can only be used with provider resources".to_owned(),
            ));
        }
        if goal.kind.starts_with(PROVIDER_TYPE_PREFIX) {
            self.register_provider(&urn, &goal)
        } else if goal.read.is_some() || goal.kind == builtin::STACK_REFERENCE {
            self.read(&urn, &goal)
        } else {
            let registered = self.register_resource(&urn, &goal);
            let refused = matches!(registered, Err(RegistrationError::Message(_)));
            self.registrations.lock().refused |= refused;
            registered
        }
    }

    fn resource_type(&self, token: &str) -> Result<ResourceType, String> {
        let found = self.engine.providers.resource_type(token);
        found.map_err(|error| error.to_string())
    }

    fn function(&self, token: &str) -> Result<(), String> {
        let known = self.engine.task.registry.require_function(token);
        known.map_err(|error| error.to_string())
    }

    fn invoke(&self, invocation: Invocation) -> Result<Properties, RegistrationError> {
        if self.engine.is_stopped() {
            return Err(RegistrationError::Reported);
        }
        let urn = self.stack().stack_urn();
        let token = &invocation.token;
        let goal = Goal {
            kind: token.clone(),
            provider: invocation.provider,
            parent: invocation.parent,
            version: invocation.version,
            plugin_download_url: invocation.plugin_download_url,
            ..Goal::default()
        };
        let reference = self.choose_provider(&goal);
        let provider = self.engine.providers.get(&reference, token);
        let provider = provider.map_err(|error| registration_error(&error))?;
        self.engine
            .call(&urn, None, |call| {
                provider.invoke(call, token, &invocation.arguments)
            })
            .map_err(|error| registration_error(&error))
    }

    fn parallel(&self) -> usize {
        self.engine.task.parallel
    }
}

/// An error of the program: its provider lacks the type or function.
pub(super) fn registration_error(error: &ProviderError) -> RegistrationError {
    RegistrationError::Message(error.to_string())
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

/// An error of a goal that the evaluation does not detect.
fn fault(goal: &Goal) -> Option<String> {
    let mut paths = goal.hide_diffs.iter();
    let unreadable = || paths.find_map(|path| Path::parse("hideDiffs", path).err());
    goal.fault.clone().or_else(unreadable)
}
