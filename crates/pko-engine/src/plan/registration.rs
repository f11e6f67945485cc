//! Preview and up: a program against a state. Pure but for what [`World`] answers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Action, Failure, Operation, Plan, Selection, Step, deletion, path::Path};
use crate::{
    builtin::{self, Kind},
    program::{
        Program,
        access::{self, Accessor},
        evaluate::{self, Alias, Goal, Host, Registered, Surroundings},
    },
    property::{Properties, Property, UNKNOWN},
    resource::Resource,
    urn::{STACK_TYPE, StackIdentity, Urn},
};

/// What a program may read of the outside.
pub trait World {
    /// The outputs of another stack.
    fn stack_outputs(&self, name: &str) -> Result<Properties, String>;
}

/// A run of a program.
pub struct Request<'a> {
    /// The program.
    pub program: &'a Program,
    /// Stack, config and directories.
    pub surroundings: Surroundings<'a>,
    /// The state before.
    pub old: &'a [Resource],
    /// What it is limited to.
    pub selection: &'a Selection,
    /// Whether nothing will be done: ids of new resources are not known then.
    pub preview: bool,
    /// The time to write into resources.
    pub now: String,
}

/// Plans a preview or an up.
pub fn plan(request: &Request<'_>, world: &dyn World, new_id: &mut dyn FnMut() -> String) -> Plan {
    let mut registrar = Registrar {
        request,
        world,
        new_id,
        actions: Vec::new(),
        seen: BTreeSet::new(),
        renamed: BTreeMap::new(),
        replaced: BTreeSet::new(),
        anew: BTreeSet::new(),
        skipped: BTreeSet::new(),
        provider: None,
    };
    registrar.register_stack();
    match evaluate::evaluate(request.program, &request.surroundings, &mut registrar) {
        Ok(outputs) => registrar.finish(outputs),
        Err(errors) => {
            let failures = errors.into_iter().map(|diagnostic| {
                Action::Failure(Failure {
                    urn: None,
                    diagnostic,
                })
            });
            registrar.actions.extend(failures);
            registrar.actions.push(Action::StackOutputs(None));
        }
    }
    Plan {
        actions: registrar.actions,
        warnings: request.program.warnings.clone(),
    }
}

struct Registrar<'a> {
    request: &'a Request<'a>,
    world: &'a dyn World,
    new_id: &'a mut dyn FnMut() -> String,
    actions: Vec<Action>,
    /// URNs the program has, under their new names.
    seen: BTreeSet<Urn>,
    /// Old names of resources that aliases found.
    renamed: BTreeMap<Urn, Urn>,
    /// Resources whose old incarnation must go.
    replaced: BTreeSet<Urn>,
    /// Resources that are made anew in this run.
    anew: BTreeSet<Urn>,
    /// New resources that `--target` leaves out.
    skipped: BTreeSet<Urn>,
    /// Reference to the provider, once something needed it.
    provider: Option<String>,
}

impl Registrar<'_> {
    fn stack(&self) -> &StackIdentity {
        self.request.surroundings.stack
    }

    fn old(&self, urn: &Urn) -> Option<Resource> {
        self.request
            .old
            .iter()
            .find(|old| old.urn == *urn && !old.delete)
            .cloned()
    }

    fn step(&mut self, step: Step) {
        self.actions.push(Action::Step(Box::new(step)));
    }

    fn register_stack(&mut self) {
        let urn = self.stack().stack_urn();
        let old = self.old(&urn);
        let new = Resource {
            kind: STACK_TYPE.to_owned(),
            outputs: old.as_ref().and_then(|old| old.outputs.clone()),
            urn: urn.clone(),
            ..self.dated(old.as_ref(), false)
        };
        self.seen.insert(urn);
        let operation = if old.is_some() {
            Operation::Same
        } else {
            Operation::Create
        };
        self.step(Step::new(operation, old, Some(new)));
    }

    /// The provider of the built-in types is there as soon as one of them is.
    fn register_provider(&mut self) -> String {
        if let Some(provider) = &self.provider {
            return provider.clone();
        }
        let urn = self.stack().urn(None, builtin::PROVIDER, "default");
        let old = self.old(&urn);
        let id = match &old {
            Some(old) => old.id.clone(),
            None if self.request.preview => UNKNOWN.to_owned(),
            None => (self.new_id)(),
        };
        let new = Resource {
            kind: builtin::PROVIDER.to_owned(),
            custom: true,
            id: id.clone(),
            urn: urn.clone(),
            ..self.dated(old.as_ref(), false)
        };
        let operation = if old.is_some() {
            Operation::Same
        } else {
            Operation::Create
        };
        self.step(Step::new(operation, old, Some(new)));
        let provider = format!("{urn}::{id}");
        self.seen.insert(urn);
        self.provider = Some(provider.clone());
        provider
    }

    fn dated(&self, old: Option<&Resource>, changed: bool) -> Resource {
        let now = || Some(self.request.now.clone());
        Resource {
            created: old.and_then(|old| old.created.clone()).or_else(now),
            modified: old
                .and_then(|old| old.modified.clone())
                .filter(|_| !changed)
                .or_else(now),
            ..Resource::default()
        }
    }

    /// The resource before, under its own name or a former one.
    fn find_old(&mut self, urn: &Urn, goal: &Goal) -> Option<Resource> {
        if let Some(old) = self.old(urn) {
            return Some(old);
        }
        let parent = goal.parent.as_ref();
        let aliases: Vec<_> = goal
            .aliases
            .iter()
            .map(|alias| former_urn(self.stack(), alias, goal, parent))
            .collect();
        let old = aliases.iter().find_map(|alias| self.old(alias))?;
        self.renamed.insert(old.urn.clone(), urn.clone());
        Some(old)
    }

    fn register_stash(&mut self, urn: &Urn, goal: Goal) -> Result<Resource, String> {
        let old = self.find_old(urn, &goal);
        let included = self.request.selection.includes(urn)
            || old
                .as_ref()
                .is_some_and(|old| self.request.selection.includes(&old.urn));
        if !included {
            return Ok(self.leave(urn, old, &goal));
        }
        if let Some(missing) = goal
            .dependencies
            .iter()
            .find(|urn| self.skipped.contains(urn))
        {
            return Err(format!(
                "resource {urn} depends on {missing}, which was not specified in --target list"
            ));
        }
        let provider = self.register_provider();
        match old {
            None => {
                let new = self.created(urn, goal, provider);
                self.step(Step::new(Operation::Create, None, Some(new.clone())));
                Ok(new)
            }
            Some(old) => self.change(urn, old, goal, provider),
        }
    }

    /// A resource that `--target` leaves as it is, or as it is not.
    fn leave(&mut self, urn: &Urn, old: Option<Resource>, goal: &Goal) -> Resource {
        if let Some(old) = old {
            if !old.provider.is_empty() {
                self.register_provider();
            }
            let new = Resource {
                urn: urn.clone(),
                ..old.clone()
            };
            self.step(Step::new(Operation::Same, Some(old), Some(new.clone())));
            return new;
        }
        self.skipped.insert(urn.clone());
        let outputs = goal
            .inputs
            .keys()
            .map(|key| (key.clone(), Property::Unknown));
        let unknown = [("output".to_owned(), Property::Unknown)];
        Resource {
            urn: urn.clone(),
            outputs: Some(outputs.chain(unknown).collect()),
            ..Resource::default()
        }
    }

    fn created(&mut self, urn: &Urn, goal: Goal, provider: String) -> Resource {
        let id = if self.request.preview {
            String::new()
        } else {
            (self.new_id)()
        };
        let outputs = builtin::created_stash(&goal.inputs);
        let dated = self.dated(None, true);
        self.resource(
            urn,
            goal,
            provider,
            Resource {
                id,
                outputs: Some(outputs),
                ..dated
            },
        )
    }

    /// Same, update or replace.
    fn change(
        &mut self,
        urn: &Urn,
        old: Resource,
        mut goal: Goal,
        provider: String,
    ) -> Result<Resource, String> {
        let old_inputs = old.inputs.clone().unwrap_or_default();
        ignore_changes(&mut goal, &old_inputs)?;
        let differences = differences(&old_inputs, &goal.inputs);
        let replace_keys = self.replace_keys(urn, &goal, &old_inputs, &differences)?;
        if !replace_keys.is_empty() || old.pending_replacement {
            if old.protect && goal.protect {
                return Err(format!(
                    "unable to replace resource {:?}\nas it is currently marked for protection. To unprotect the resource, \
                     remove the `protect` flag from the resource in your Pulumi program and run `pulumi up`",
                    urn.as_str()
                ));
            }
            return Ok(self.replace(urn, old, goal, provider, &differences, &replace_keys));
        }
        let (operation, outputs) = if differences.is_empty() {
            (Operation::Same, old.outputs.clone().unwrap_or_default())
        } else {
            let old_outputs = old.outputs.clone().unwrap_or_default();
            (
                Operation::Update,
                builtin::updated_stash(&goal.inputs, &old_outputs),
            )
        };
        let kept = Resource {
            id: old.id.clone(),
            outputs: Some(outputs),
            ..self.dated(Some(&old), operation == Operation::Update)
        };
        let new = self.resource(urn, goal, provider, kept);
        self.step(Step {
            differences,
            ..Step::new(operation, Some(old), Some(new.clone()))
        });
        Ok(new)
    }

    fn replace_keys(
        &self,
        urn: &Urn,
        goal: &Goal,
        old: &Properties,
        differences: &[String],
    ) -> Result<Vec<String>, String> {
        if self.request.selection.replaces(urn) {
            return Ok(vec!["id".to_owned()]);
        }
        if goal.replace_with.iter().any(|urn| self.anew.contains(urn)) {
            return Ok(vec!["replaceWith".to_owned()]);
        }
        let mut keys = BTreeSet::new();
        for name in &goal.replace_on_changes {
            if name == "*" {
                keys.extend(differences.iter().cloned());
                continue;
            }
            let path = Path::parse("replaceOnChanges", name)?;
            if path.find(old) != path.find(&goal.inputs) {
                keys.insert(path.root().to_owned());
            }
        }
        Ok(keys.into_iter().collect())
    }

    fn replace(
        &mut self,
        urn: &Urn,
        old: Resource,
        goal: Goal,
        provider: String,
        differences: &[String],
        replace_keys: &[String],
    ) -> Resource {
        let first = goal.delete_before_replace;
        self.anew.insert(urn.clone());
        let new = self.created(urn, goal, provider);
        let order = if first {
            [Operation::Replace, Operation::CreateReplacement]
        } else {
            [Operation::CreateReplacement, Operation::Replace]
        };
        if first && !old.pending_replacement {
            self.step(Step {
                makes_room: true,
                ..Step::new(Operation::DeleteReplaced, Some(old.clone()), None)
            });
        }
        for operation in order {
            self.step(Step {
                differences: differences.to_vec(),
                replace_keys: replace_keys.to_vec(),
                ..Step::new(operation, Some(old.clone()), Some(new.clone()))
            });
        }
        if !first && !old.pending_replacement {
            self.replaced.insert(old.urn);
        }
        new
    }

    /// A resource from what the program wants and what it keeps.
    fn resource(&self, urn: &Urn, goal: Goal, provider: String, kept: Resource) -> Resource {
        let mut outputs = kept.outputs.unwrap_or_default();
        for name in &goal.additional_secret_outputs {
            if let Some(value) = outputs.remove(name) {
                outputs.insert(name.clone(), value.into_secret());
            }
        }
        let dependencies = goal.property_dependencies.into_iter();
        Resource {
            urn: urn.clone(),
            custom: true,
            kind: goal.kind,
            inputs: Some(goal.inputs),
            outputs: Some(outputs),
            parent: Some(goal.parent.unwrap_or_else(|| self.stack().stack_urn())),
            protect: goal.protect,
            dependencies: goal.dependencies.into_iter().collect(),
            provider,
            property_dependencies: dependencies
                .map(|(name, urns)| (name, Some(urns.into_iter().collect())))
                .collect(),
            additional_secret_outputs: goal.additional_secret_outputs,
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

    /// A reference to another stack is read each time, and belongs to nobody.
    fn register_reference(&mut self, urn: &Urn, goal: Goal) -> Result<Resource, String> {
        let old = self.find_old(urn, &goal);
        let name = goal.inputs.get("name").cloned().unwrap_or(Property::Null);
        let (Property::String(id), _) = name.opened() else {
            return Err("the name of a stack reference must be known text".to_owned());
        };
        let provider = self.register_provider();
        let outputs = builtin::stack_reference(&name, self.world.stack_outputs(&id)?);
        let new = Resource {
            urn: urn.clone(),
            custom: true,
            external: true,
            id,
            kind: goal.kind,
            inputs: Some(goal.inputs),
            outputs: Some(outputs),
            parent: Some(goal.parent.unwrap_or_else(|| self.stack().stack_urn())),
            provider,
            ..self.dated(old.as_ref(), false)
        };
        self.step(Step::new(Operation::Read, old, Some(new.clone())));
        Ok(new)
    }

    /// Outputs, then everything the program no longer has.
    fn finish(&mut self, mut outputs: Properties) {
        if !self.request.preview {
            // only what `--target` left out can be unknown here
            outputs.retain(|_, value| *value != Property::Unknown);
        }
        self.actions.push(Action::StackOutputs(Some(outputs)));
        let gone: Vec<_> = self
            .request
            .old
            .iter()
            .filter(|old| {
                old.delete
                    || self.replaced.contains(&old.urn)
                    || !(self.seen.contains(&old.urn) || self.renamed.contains_key(&old.urn))
            })
            .collect();
        let gone = gone.into_iter().filter(|old| {
            old.delete
                || self.replaced.contains(&old.urn)
                || self.request.selection.includes(&old.urn)
        });
        let mut steps = deletion::steps(gone, &self.replaced);
        self.actions.append(&mut steps);
    }
}

impl Host for Registrar<'_> {
    fn register(&mut self, goal: Goal) -> Result<Registered, String> {
        let urn = self
            .stack()
            .urn(goal.parent.as_ref(), &goal.kind, &goal.name);
        if !self.seen.insert(urn.clone()) {
            return Err(format!(
                "duplicate resource URN {urn}; each name must be unique"
            ));
        }
        let resource = match Kind::of(&goal.kind) {
            Some(Kind::Stash) => self.register_stash(&urn, goal)?,
            Some(Kind::StackReference) => self.register_reference(&urn, goal)?,
            None => {
                return Err(format!(
                    "type {:?} is not supported by pulumi-engine",
                    goal.kind
                ));
            }
        };
        Ok(Registered {
            urn,
            id: Some(resource.id).filter(|id| !id.is_empty()),
            outputs: resource.outputs.unwrap_or_default(),
        })
    }
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

fn ignore_changes(goal: &mut Goal, old: &Properties) -> Result<(), String> {
    for name in &goal.ignore_changes {
        if name == "*" {
            goal.inputs.clone_from(old);
        } else {
            Path::parse("ignoreChanges", name)?.keep(old, &mut goal.inputs);
        }
    }
    Ok(())
}

fn differences(old: &Properties, new: &Properties) -> Vec<String> {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    keys.into_iter()
        .filter(|key| old.get(*key) != new.get(*key))
        .cloned()
        .collect()
}
