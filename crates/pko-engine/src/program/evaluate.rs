//! From a program to values and registered resources. What it needs of the outside comes through
//! [`Host`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    Diagnostic, Program, ResourceDeclaration,
    access::{Access, Accessor, Part as TextPart},
    check,
    expression::{Expression, ExpressionKind},
    function::{self, Function},
    order::{self, PULUMI, Part},
    value::{Output, ResourceValue, Value},
};
use crate::{
    property::{Properties, Property},
    provider::ResourceType,
    schedule::{self, locked},
    syntax::Place,
    text,
    urn::{StackIdentity, Urn},
};

/// What an evaluation asks of the outside, from several threads.
pub trait Host: Sync {
    /// Registers a resource and says what became of it.
    fn register(&self, goal: Goal) -> Result<Registered, Refusal>;
    /// What may be said of resources of a type; an error says why there are none.
    fn resource_type(&self, token: &str) -> Result<ResourceType, String>;
    /// Calls a function of a package; of the goal only provider and version count.
    fn invoke(
        &self,
        token: &str,
        arguments: &Properties,
        goal: &Goal,
    ) -> Result<Properties, Refusal>;
    /// Reads a file that the program names.
    fn read_file(&self, path: &str) -> Result<Vec<u8>, String>;
    /// How many parts of a program may be evaluated at the same time.
    fn parallel(&self) -> usize {
        1
    }
}

/// Why there is no resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The program is wrong.
    Message(String),
    /// It failed, and the user was told; or the run is to stop.
    Reported,
}

/// A resource to read instead of making one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadGoal {
    /// Its id; none if a preview cannot know it.
    pub id: Option<String>,
    /// What else helps to find it.
    pub state: Properties,
}

/// A resource as the program wants it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Goal {
    /// Name within the URN.
    pub name: String,
    /// Type token.
    pub kind: String,
    /// Inputs.
    pub inputs: Properties,
    /// Parent; the stack if none.
    pub parent: Option<Urn>,
    /// All resources it needs.
    pub dependencies: BTreeSet<Urn>,
    /// Which input needs which resources.
    pub property_dependencies: BTreeMap<String, BTreeSet<Urn>>,
    /// Former names.
    pub aliases: Vec<Alias>,
    /// Resource with which it goes.
    pub deleted_with: Option<Urn>,
    /// Whether it must not be deleted.
    pub protect: bool,
    /// Whether deleting only forgets it.
    pub retain_on_delete: bool,
    /// Inputs whose changes do not count.
    pub ignore_changes: Vec<String>,
    /// Inputs whose changes replace it.
    pub replace_on_changes: Vec<String>,
    /// Outputs to keep secret.
    pub additional_secret_outputs: Vec<String>,
    /// Resources whose replacement replaces it too.
    pub replace_with: Vec<Urn>,
    /// Whether a replacement deletes first; none leaves that to the type.
    pub delete_before_replace: Option<bool>,
    /// Seconds by the name of an operation.
    pub custom_timeouts: Vec<(String, f64)>,
    /// Inputs whose values are not shown when they change.
    pub hide_diffs: Vec<String>,
    /// Which part of the program it is: the state keeps the order of parts.
    pub part: usize,
    /// Reference (`urn::id`) to the provider that the program names.
    pub provider: Option<String>,
    /// References to providers for its children.
    pub providers: Vec<String>,
    /// Version of the package.
    pub version: Option<String>,
    /// Where a plugin would come from.
    pub plugin_download_url: Option<String>,
    /// Id of a resource that exists already and becomes the stack's.
    pub import: Option<String>,
    /// The resource is read, and stays who else's it is.
    pub read: Option<ReadGoal>,
}

/// A former name of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alias {
    /// The whole URN.
    Urn(Urn),
    /// What was different.
    #[expect(missing_docs, reason = "named as in Pulumi's own documentation")]
    Parts {
        name: Option<String>,
        kind: Option<String>,
        stack: Option<String>,
        project: Option<String>,
        /// `Some(None)` is a resource without a parent
        parent: Option<Option<Urn>>,
    },
}

/// What a registered resource gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    /// Its URN.
    pub urn: Urn,
    /// Its id; none if a preview cannot know it.
    pub id: Option<String>,
    /// Its outputs.
    pub outputs: Properties,
    /// Whether outputs that are not there may come when it is made: a preview does not know them.
    pub partial: bool,
}

/// The surroundings of a program.
#[derive(Debug, Clone)]
pub struct Surroundings<'a> {
    /// Stack and project.
    pub stack: &'a StackIdentity,
    /// Config values by name without the project's prefix.
    pub config: &'a BTreeMap<String, Property>,
    /// Directory of the program.
    pub working_directory: &'a str,
    /// Directory of the project file.
    pub root_directory: &'a str,
}

/// Outputs of the stack, or why there are none.
pub type Evaluation = Result<Properties, Vec<Diagnostic>>;

/// Evaluates all of a program; resources are registered as far as the first mistakes allow, each part once those that
/// it refers to are done.
pub fn evaluate(
    program: &Program,
    surroundings: &Surroundings<'_>,
    host: &impl Host,
) -> Evaluation {
    let prefix = format!("{}:", surroundings.stack.project);
    let names = surroundings
        .config
        .keys()
        .flat_map(|name| [name.clone(), format!("{prefix}{name}")]);
    let parts = order::order(program, &names.collect())?;
    let errors = check::check(program, &parts, &|token| host.resource_type(token));
    if !errors.is_empty() {
        return Err(errors);
    }
    let shared = Shared::new(surroundings);
    let errors = Mutex::new(BTreeMap::new());
    schedule::run(&order::needs(&parts), host.parallel(), &|number| {
        let Some(part) = parts.get(number) else {
            return;
        };
        // the stack and default providers come before all parts
        let mut evaluator = Evaluator::new(host, &shared, number + 1);
        evaluator.part(*part);
        locked(&errors).insert(number, evaluator.errors);
    });
    let mut evaluator = Evaluator::new(host, &shared, parts.len() + 1);
    let outputs = evaluator.outputs(program);
    let errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    let errors: Vec<_> = errors
        .into_values()
        .flatten()
        .chain(evaluator.errors)
        .collect();
    if errors.is_empty() {
        Ok(outputs)
    } else {
        Err(errors)
    }
}

/// What the parts of a program share while they are evaluated.
struct Shared {
    /// Values by name; `None` for what could not be computed.
    names: RwLock<BTreeMap<String, Option<Value>>>,
    /// Stacks that `fn::stackReference` has named; held while one is read, so that each is read once.
    references: Mutex<BTreeMap<String, Registered>>,
    /// Whether a part was wrong.
    wrong: AtomicBool,
}

struct Evaluator<'a, H> {
    host: &'a H,
    shared: &'a Shared,
    errors: Vec<Diagnostic>,
    /// Which part of the program this is about.
    part: usize,
}

/// Why an expression has no value.
enum Failure {
    /// It is wrong itself.
    Message(Place, String),
    /// What it needs has failed and was reported.
    Poisoned,
}

type Evaluated = Result<Value, Failure>;

trait At<T> {
    fn at(self, line: Place) -> Result<T, Failure>;
}

impl<T> At<T> for Result<T, String> {
    fn at(self, line: Place) -> Result<T, Failure> {
        self.map_err(|message| Failure::Message(line, message))
    }
}

impl<T> At<T> for Result<T, Refusal> {
    fn at(self, line: Place) -> Result<T, Failure> {
        self.map_err(|refusal| match refusal {
            Refusal::Message(message) => Failure::Message(line, message),
            Refusal::Reported => Failure::Poisoned,
        })
    }
}

impl Shared {
    fn new(surroundings: &Surroundings<'_>) -> Self {
        let mut names = BTreeMap::new();
        for (name, property) in surroundings.config {
            let value = Value::from_property(property, &BTreeSet::new());
            names.insert(
                format!("{}:{name}", surroundings.stack.project),
                Some(value.clone()),
            );
            names.insert(name.clone(), Some(value));
        }
        let pulumi = [
            ("cwd", surroundings.working_directory),
            ("organization", &surroundings.stack.organization),
            ("project", &surroundings.stack.project),
            ("rootDirectory", surroundings.root_directory),
            ("stack", &surroundings.stack.name),
        ];
        let pulumi = pulumi.map(|(key, text)| (key.to_owned(), Value::String(text.to_owned())));
        names.insert(PULUMI.to_owned(), Some(Value::Object(pulumi.into())));
        Self {
            names: RwLock::new(names),
            references: Mutex::default(),
            wrong: AtomicBool::new(false),
        }
    }
}

impl<'a, H: Host> Evaluator<'a, H> {
    fn new(host: &'a H, shared: &'a Shared, part: usize) -> Self {
        Self {
            host,
            shared,
            errors: Vec::new(),
            part,
        }
    }

    fn part(&mut self, part: Part<'_>) {
        let (name, result) = match part {
            Part::Variable(variable) => (&variable.name, self.expression(&variable.value)),
            Part::Resource(resource) => (&resource.key, self.resource(resource)),
        };
        let value = result.map_err(|failure| self.report(failure)).ok();
        let names = self.shared.names.write();
        let mut names = names.unwrap_or_else(PoisonError::into_inner);
        names.insert(name.clone(), value);
    }

    fn report(&mut self, failure: Failure) {
        if let Failure::Message(line, message) = failure {
            self.errors.push(Diagnostic::error(line, message));
            self.shared.wrong.store(true, Ordering::SeqCst);
        }
    }

    /// An output with a secret in it is secret as a whole; one that is null is none.
    fn outputs(&mut self, program: &Program) -> Properties {
        let mut outputs = Properties::new();
        for output in &program.outputs {
            let result = self
                .expression(&output.value)
                .and_then(|value| value.to_property().at(output.value.line));
            match result {
                Ok(Property::Null) => {}
                Ok(property) => {
                    let (open, secret) = property.opened();
                    let value = if secret { open.into_secret() } else { open };
                    outputs.insert(output.name.clone(), value);
                }
                Err(failure) => self.report(failure),
            }
        }
        outputs
    }

    fn expression(&mut self, expression: &Expression) -> Evaluated {
        Ok(match &expression.kind {
            ExpressionKind::Null => Value::Null,
            ExpressionKind::Bool(value) => Value::Bool(*value),
            ExpressionKind::Number(value) => Value::Number(value.clone()),
            ExpressionKind::String(value) => Value::String(value.clone()),
            ExpressionKind::List(values) => Value::List(
                values
                    .iter()
                    .map(|value| self.expression(value))
                    .collect::<Result<_, _>>()?,
            ),
            ExpressionKind::Object(entries) => self.object(entries)?,
            ExpressionKind::Interpolation(parts) => self.interpolation(parts, expression.line)?,
            ExpressionKind::Reference(access) => self.access(access, expression.line)?,
            ExpressionKind::Call(function, argument) => self.call(*function, argument)?,
        })
    }

    fn object(&mut self, entries: &[(Expression, Expression)]) -> Evaluated {
        let mut object = BTreeMap::new();
        for (key, value) in entries {
            let name = match self.expression(key)? {
                Value::String(name) => name,
                Value::Null => "null".to_owned(),
                other => {
                    let message = format!(
                        "object key must evaluate to a string, not {}",
                        other.describe()
                    );
                    return Err(Failure::Message(key.line, message));
                }
            };
            object.insert(name, self.expression(value)?);
        }
        Ok(Value::Object(object))
    }

    fn interpolation(&mut self, parts: &[TextPart], line: Place) -> Evaluated {
        let mut values = Vec::new();
        for part in parts {
            values.push(match part {
                TextPart::Text(text) => Value::String(text.clone()),
                TextPart::Access(access) => self.access(access, line)?,
            });
        }
        let joined = Value::List(values).lift(|values| match values {
            Value::List(values) => Ok(Value::String(
                values
                    .iter()
                    .map(|value| text::interpolated(&value.plain_json()))
                    .collect(),
            )),
            other => Ok(other),
        });
        joined.at(line)
    }

    fn access(&mut self, access: &Access, line: Place) -> Evaluated {
        let names = self.shared.names.read();
        let names = names.unwrap_or_else(PoisonError::into_inner);
        match names.get(&access.root) {
            Some(Some(value)) => enter(value, &access.steps).at(line),
            Some(None) => Err(Failure::Poisoned),
            None => Err(Failure::Message(
                line,
                format!(
                    "resource, variable, or config value {:?} not found",
                    access.root
                ),
            )),
        }
    }

    fn call(&mut self, function: Function, argument: &Expression) -> Evaluated {
        if function == Function::StackReference {
            return self.stack_reference(argument);
        }
        let value = self.expression(argument)?;
        let line = argument.line;
        match (function, value) {
            (Function::Secret, value) => Ok(secret(&value, true)),
            (Function::Unsecret, value) => Ok(secret(&value, false)),
            (Function::ResourceName, Value::Resource(resource)) => Ok(Value::String(resource.name)),
            (Function::ResourceType, Value::Resource(resource)) => Ok(Value::String(resource.kind)),
            (Function::ResourceName | Function::ResourceType, other) => Err(Failure::Message(
                line,
                format!("a resource is needed here, not {}", other.describe()),
            )),
            (function, value) => {
                let host = self.host;
                value
                    .lift(|plain| function::apply(function, plain, &|path| host.read_file(path)))
                    .at(line)
            }
        }
    }

    /// One output of another stack; the reference itself is a resource, once for each stack.
    fn stack_reference(&mut self, argument: &Expression) -> Evaluated {
        let wrong = "fn::stackReference needs the name of a stack, as plain text, and the name of an output";
        let wrong = |expression: &Expression| Failure::Message(expression.line, wrong.to_owned());
        let ExpressionKind::List(values) = &argument.kind else {
            return Err(wrong(argument));
        };
        let [stack, output] = values.as_slice() else {
            return Err(wrong(argument));
        };
        let ExpressionKind::String(name) = &stack.kind else {
            return Err(wrong(stack));
        };
        let output_name = self.expression(output)?.flatten().value;
        let Some(Value::String(output_name)) = output_name else {
            return Err(wrong(output));
        };
        let mut references = locked(&self.shared.references);
        let registered = if let Some(known) = references.get(name) {
            known.clone()
        } else {
            let input = Property::String(name.clone());
            let goal = Goal {
                name: name.clone(),
                kind: crate::builtin::STACK_REFERENCE.to_owned(),
                inputs: Properties::from([("name".to_owned(), input)]),
                part: self.part,
                ..Goal::default()
            };
            let registered = self.host.register(goal).at(stack.line)?;
            references.insert(name.clone(), registered.clone());
            registered
        };
        drop(references);
        let outputs = match registered.outputs.get("outputs") {
            Some(Property::Object(outputs)) => outputs.get(&output_name),
            _ => None,
        };
        let needs = BTreeSet::from([registered.urn]);
        let value = Value::from_property(outputs.unwrap_or(&Property::Null), &needs);
        Ok(Value::Output(Box::new(Output {
            value: Some(value),
            secret: false,
            dependencies: needs,
        })))
    }

    /// Once something is wrong no further resource is touched; the rest is only looked through.
    fn resource(&mut self, resource: &ResourceDeclaration) -> Evaluated {
        if self.shared.wrong.load(Ordering::SeqCst) {
            return Err(Failure::Poisoned);
        }
        let goal = self.goal(resource)?;
        let (name, kind) = (goal.name.clone(), goal.kind.clone());
        let registered = self.host.register(goal).at(resource.line)?;
        Ok(Value::Resource(Box::new(ResourceValue {
            urn: registered.urn,
            id: registered.id,
            name,
            kind,
            outputs: registered.outputs,
            partial: registered.partial,
        })))
    }

    fn goal(&mut self, resource: &ResourceDeclaration) -> Result<Goal, Failure> {
        let options = &resource.options;
        let mut goal = Goal {
            name: resource.name.clone(),
            kind: resource.kind.clone(),
            retain_on_delete: options.retain_on_delete,
            ignore_changes: options.ignore_changes.clone(),
            replace_on_changes: options.replace_on_changes.clone(),
            additional_secret_outputs: options.additional_secret_outputs.clone(),
            delete_before_replace: options.delete_before_replace.then_some(true),
            part: self.part,
            custom_timeouts: options.custom_timeouts.clone(),
            hide_diffs: options.hide_diffs.clone(),
            ..Goal::default()
        };
        for property in &resource.properties {
            let value = self.expression(&property.value)?;
            let needs = value.dependencies();
            let value = value.to_property().at(property.line)?;
            if value == Property::Null {
                let of_type = self.host.resource_type(&resource.kind).unwrap_or_default();
                if !of_type.required.contains(&property.name.as_str()) {
                    continue;
                }
                let message = format!(
                    "resource {:?} is missing required property {:?}",
                    resource.key, property.name
                );
                return Err(Failure::Message(property.line, message));
            }
            goal.dependencies.extend(needs.iter().cloned());
            goal.property_dependencies
                .insert(property.name.clone(), needs);
            goal.inputs.insert(property.name.clone(), value);
        }
        if let Some(expression) = &options.depends_on {
            goal.dependencies.extend(self.resources(expression)?);
        }
        if let Some(expression) = &options.replace_with {
            goal.replace_with = self.resources(expression)?;
        }
        if let Some(expression) = &options.parent {
            goal.parent = Some(self.one_resource(expression)?);
        }
        if let Some(expression) = &options.deleted_with {
            goal.deleted_with = Some(self.one_resource(expression)?);
        }
        if let Some(expression) = &options.protect {
            goal.protect = self.protect(expression)?;
        }
        if let Some(expression) = &options.aliases {
            goal.aliases = self.aliases(expression)?;
        }
        Ok(goal)
    }

    fn protect(&mut self, expression: &Expression) -> Result<bool, Failure> {
        match self.expression(expression)?.flatten().value {
            Some(Value::Bool(value)) => Ok(value),
            _ => Err(Failure::Message(
                expression.line,
                "protect must be true or false".to_owned(),
            )),
        }
    }

    fn one_resource(&mut self, expression: &Expression) -> Result<Urn, Failure> {
        match <[Urn; 1]>::try_from(self.resources(expression)?) {
            Ok([urn]) => Ok(urn),
            Err(_) => Err(Failure::Message(
                expression.line,
                "one resource is needed here".to_owned(),
            )),
        }
    }

    fn resources(&mut self, expression: &Expression) -> Result<Vec<Urn>, Failure> {
        let values = match self.expression(expression)? {
            Value::List(values) => values,
            value => vec![value],
        };
        values
            .into_iter()
            .map(|value| match value {
                Value::Resource(resource) => Ok(resource.urn),
                other => Err(Failure::Message(
                    expression.line,
                    format!("a resource is needed here, not {}", other.describe()),
                )),
            })
            .collect()
    }

    fn aliases(&mut self, expression: &Expression) -> Result<Vec<Alias>, Failure> {
        let line = expression.line;
        let Value::List(values) = self.expression(expression)? else {
            return Err(Failure::Message(line, "aliases must be a list".to_owned()));
        };
        values
            .into_iter()
            .map(|value| alias(value).at(line))
            .collect()
    }
}

/// Marks a value secret or open, as a whole.
fn secret(value: &Value, secret: bool) -> Value {
    let flat = value.flatten();
    Value::Output(Box::new(Output {
        value: flat.value,
        secret,
        dependencies: flat.dependencies,
    }))
}

fn alias(value: Value) -> Result<Alias, String> {
    let entries = match value {
        Value::String(urn) => return Ok(Alias::Urn(Urn::new(urn))),
        Value::Object(entries) => entries,
        other => {
            return Err(format!(
                "an alias must be a URN or a map, not {}",
                other.describe()
            ));
        }
    };
    let (mut name, mut kind, mut stack, mut project, mut parent) = (None, None, None, None, None);
    for (key, value) in entries {
        match (key.as_str(), value) {
            ("urn", Value::String(urn)) => return Ok(Alias::Urn(Urn::new(urn))),
            ("name", Value::String(text)) => name = Some(text),
            ("type", Value::String(text)) => kind = Some(text),
            ("stack", Value::String(text)) => stack = Some(text),
            ("project", Value::String(text)) => project = Some(text),
            ("parent", Value::Resource(resource)) => parent = Some(Some(resource.urn)),
            ("noParent", Value::Bool(true)) => parent = Some(None),
            ("noParent", Value::Bool(false)) => {}
            (key, value) => {
                return Err(format!(
                    "alias field {key:?} cannot be {}",
                    value.describe()
                ));
            }
        }
    }
    Ok(Alias::Parts {
        name,
        kind,
        stack,
        project,
        parent,
    })
}

/// Follows accessors into a value; histories on the way are kept.
fn enter(value: &Value, steps: &[Accessor]) -> Result<Value, String> {
    let Some((step, rest)) = steps.split_first() else {
        return Ok(value.clone());
    };
    match value {
        Value::Null => Ok(Value::Null),
        Value::Object(entries) => {
            let key = step
                .key()
                .ok_or("cannot access an object property using an integer index")?;
            enter(entries.get(key).unwrap_or(&Value::Null), rest)
        }
        Value::List(values) => {
            let Accessor::Index(index) = step else {
                return Err("cannot access a list element using a property name".to_owned());
            };
            let element = values.get(*index).ok_or_else(|| {
                format!(
                    "list index {index} out-of-bounds for list of length {}",
                    values.len()
                )
            })?;
            enter(element, rest)
        }
        Value::Output(output) => {
            let inner = output
                .value
                .as_ref()
                .map(|value| enter(value, steps))
                .transpose()?;
            Ok(Value::Output(Box::new(Output {
                value: inner,
                ..(**output).clone()
            })))
        }
        Value::Resource(resource) => enter(&resource_property(resource, step), rest),
        other => Err(format!(
            "receiver must be a list or object, not {}",
            other.describe()
        )),
    }
}

fn resource_property(resource: &ResourceValue, step: &Accessor) -> Value {
    let dependencies = BTreeSet::from([resource.urn.clone()]);
    let inner = match step.key().unwrap_or_default() {
        "urn" => Some(Value::String(resource.urn.to_string())),
        "id" => resource.id.clone().map(Value::String),
        name => match resource.outputs.get(name) {
            Some(property) => Some(Value::from_property(property, &dependencies)),
            None if resource.partial => None,
            None => Some(Value::Null),
        },
    };
    Value::Output(Box::new(Output {
        value: inner,
        secret: false,
        dependencies,
    }))
}
