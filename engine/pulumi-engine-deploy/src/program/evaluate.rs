//! From a program to values and registered resources. What it needs of the outside comes through
//! [`Host`].

mod calls;
mod reach;
mod resources;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::{Mutex, RwLock};
use pulumi_engine_model::{
    property::{Properties, Property},
    urn::StackIdentity,
};
use pulumi_yaml::{
    Diagnostic, Program, ResourceType,
    access::{Access, TextPart},
    check::{self, CheckContext, ConfigValue},
    expression::{Expression, ExpressionKind},
    order::{self, PULUMI, ProgramPart},
    syntax::Position,
    text,
    types::{ResourceTypes, Type},
    version_range,
};

use super::{
    config_default,
    files::Files,
    value::{Output, Value},
};
use crate::schedule;

use self::reach::enter;
pub use super::goal::{Alias, Goal, Invocation, Refusal, Registered};

/// What an evaluation asks of the outside, from several threads.
pub trait Host: Sync {
    /// Registers a resource and says what became of it.
    fn register(&self, goal: Goal) -> Result<Registered, Refusal>;

    /// Whether there is a function of a provider; the error says what to do instead.
    fn function(&self, token: &str) -> Result<(), String>;

    /// Calls a function of a provider.
    fn invoke(&self, invocation: Invocation) -> Result<Properties, Refusal>;

    /// What a program may say of resources of a type; the error says what to do instead.
    fn resource_type(&self, token: &str) -> Result<ResourceType, String>;

    /// How many parts of a program may be evaluated at the same time.
    fn parallel(&self) -> usize {
        1
    }
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
    /// Files that the program names.
    pub files: &'a dyn Files,
}

/// What came of a program.
#[derive(Debug, Default)]
pub struct Evaluation {
    /// Outputs of the stack, as far as they could be computed; none if the program did not even begin.
    pub outputs: Option<Properties>,
    /// Whether an output had to wait for a resource and failed, or needs a resource that failed.
    pub stuck: bool,
    /// What is wrong with it.
    pub errors: Vec<Diagnostic>,
}

impl Evaluation {
    fn refused(errors: Vec<Diagnostic>) -> Self {
        Self {
            errors,
            ..Self::default()
        }
    }
}

/// What the check of a program needs of a config value.
fn config_value(property: &Property) -> ConfigValue {
    let kind = match property {
        Property::Bool(_) => Type::Bool,
        Property::Number(_) => Type::Number,
        Property::String(_) => Type::String,
        Property::Object(_) => Type::Map(Box::new(Type::Any)),
        _ => Type::Any,
    };
    let text = match property {
        Property::String(text) => Some(text.clone()),
        _ => None,
    };
    ConfigValue { kind, text }
}

/// Evaluates all of a program; resources are registered as far as the first mistakes allow, each part once those that
/// it refers to are done.
pub fn evaluate(
    program: &Program,
    surroundings: &Surroundings<'_>,
    host: &impl Host,
) -> Evaluation {
    let prefix = format!("{}:", surroundings.stack.project);
    let declared = program.config.iter().map(|declaration| &declaration.key);
    let names = surroundings
        .config
        .keys()
        .chain(declared)
        .flat_map(|name| [name.clone(), format!("{prefix}{name}")]);
    let given = |name: &str| surroundings.config.contains_key(name);
    let parts = match order::order(program, &names.collect(), &given) {
        Ok(parts) => parts,
        Err(errors) => return Evaluation::refused(errors),
    };
    let types = ResourceTypes::of(program, &|token| host.resource_type(token));
    let config = surroundings.config.iter();
    let config = config.map(|(name, property)| (name.clone(), config_value(property)));
    let context = CheckContext {
        config: &config.collect(),
        project: &surroundings.stack.project,
        types: &types,
        function: &|token| host.function(token),
    };
    let errors = check::check(program, &parts, context);
    if !errors.is_empty() {
        return Evaluation::refused(errors);
    }
    let shared = Shared::new(surroundings, &types);
    let mut before = Evaluator::new(host, &shared, 0);
    before.config(program, surroundings);
    let errors = Mutex::new(BTreeMap::from([(0, before.errors)]));
    let needs = order::needs(&parts);
    let prepared = Mutex::new(prepare(&parts, &needs, host, &shared));
    schedule::run(&needs, host.parallel(), &|number| {
        let Some(part) = parts.get(number) else {
            return;
        };
        let ready = prepared.lock().remove(&number);
        // the stack and default providers come before all parts
        let mut evaluator = Evaluator::new(host, &shared, number + 1);
        match ready {
            Some(Prepared::Done(errors)) => evaluator.errors = errors,
            Some(Prepared::Resource(goal)) => evaluator.part(*part, Some(*goal)),
            None => evaluator.part(*part, None),
        }
        errors.lock().insert(evaluator.part, evaluator.errors);
    });
    let mut after = Evaluator::new(host, &shared, parts.len() + 1);
    let mut errors = errors.into_inner();
    // another version of Pulumi might give other outputs
    let is_refused = |(part, number): (&ProgramPart<'_>, usize)| {
        matches!(part, ProgramPart::RequiredVersion(_))
            && errors.get(&number).is_some_and(|errors| !errors.is_empty())
    };
    let refused = parts.iter().zip(1..).any(is_refused);
    let (outputs, stuck) = if refused {
        (None, false)
    } else {
        after.outputs(program)
    };
    errors.insert(after.part, after.errors);
    Evaluation {
        outputs,
        stuck,
        errors: errors.into_values().flatten().collect(),
    }
}

/// A map of the program's own has no entries that are null.
fn without_nulls(property: Property) -> Property {
    match property {
        Property::Object(entries) => {
            let entries = entries.into_iter();
            let given = entries.filter(|(_, value)| *value != Property::Null);
            Property::Object(
                given
                    .map(|(key, value)| (key, without_nulls(value)))
                    .collect(),
            )
        }
        other => other,
    }
}

/// Whether a program says that a value is null, be it as a secret.
fn is_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Output(output) => {
            output.secret && output.dependencies.is_empty() && output.value == Some(Value::Null)
        }
        _ => false,
    }
}

/// A part that was evaluated before the others ran.
enum Prepared {
    /// All there is to it is done.
    Done(Vec<Diagnostic>),
    /// It is only left to register it.
    Resource(Box<Goal>),
}

/// Evaluates, in the order of the program, all that needs no resource: so that what is wrong there is known before
/// anything that comes after it is touched, and nothing depends on which thread is faster.
fn prepare<H: Host>(
    parts: &[ProgramPart<'_>],
    needs: &[Vec<usize>],
    host: &H,
    shared: &Shared<'_>,
) -> BTreeMap<usize, Prepared> {
    let mut prepared = BTreeMap::new();
    for (number, (part, needs)) in parts.iter().zip(needs).enumerate() {
        let known = |other: &usize| matches!(prepared.get(other), Some(Prepared::Done(_)));
        if !needs.iter().all(known) {
            continue;
        }
        let mut evaluator = Evaluator::new(host, shared, number + 1);
        if let ProgramPart::Resource(resource) = part
            && !evaluator.is_wrong()
        {
            match evaluator.goal(resource) {
                Ok(goal) => {
                    prepared.insert(number, Prepared::Resource(Box::new(goal)));
                    continue;
                }
                Err(failure) => {
                    evaluator.report(failure);
                    shared.name(&resource.key, None);
                }
            }
        } else {
            evaluator.part(*part, None);
        }
        prepared.insert(number, Prepared::Done(evaluator.errors));
    }
    prepared
}

/// What the parts of a program share while they are evaluated.
struct Shared<'a> {
    files: &'a dyn Files,
    types: &'a ResourceTypes,
    /// Values by name; `None` for what could not be computed.
    names: RwLock<BTreeMap<String, Option<Value>>>,
    /// Stacks that `fn::stackReference` has named; held while one is read, so that each is read once.
    references: Mutex<BTreeMap<String, Registered>>,
    /// Whether a part was wrong.
    wrong: AtomicBool,
}

struct Evaluator<'a, H> {
    host: &'a H,
    shared: &'a Shared<'a>,
    errors: Vec<Diagnostic>,
    /// Which part of the program this is about.
    part: usize,
}

/// Why an expression has no value.
enum Failure {
    /// It is wrong itself.
    Message(Position, String),
    /// What it needs has failed and was reported.
    Poisoned,
}

type Evaluated = Result<Value, Failure>;

trait At<T> {
    fn at(self, line: Position) -> Result<T, Failure>;
}

impl<T> At<T> for Result<T, String> {
    fn at(self, line: Position) -> Result<T, Failure> {
        self.map_err(|message| Failure::Message(line, message))
    }
}

impl<T> At<T> for Result<T, Refusal> {
    fn at(self, line: Position) -> Result<T, Failure> {
        self.map_err(|refusal| match refusal {
            Refusal::Message(message) => Failure::Message(line, message),
            Refusal::Reported => Failure::Poisoned,
        })
    }
}

impl<'a> Shared<'a> {
    fn new(surroundings: &Surroundings<'a>, types: &'a ResourceTypes) -> Self {
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
            files: surroundings.files,
            types,
            names: RwLock::new(names),
            references: Mutex::default(),
            wrong: AtomicBool::new(false),
        }
    }

    fn knows(&self, name: &str) -> bool {
        let names = self.names.read();
        names.contains_key(name)
    }

    fn name(&self, name: &str, value: Option<Value>) {
        let mut names = self.names.write();
        names.insert(name.to_owned(), value);
    }
}

impl<'a, H: Host> Evaluator<'a, H> {
    fn new(host: &'a H, shared: &'a Shared<'a>, part: usize) -> Self {
        Self {
            host,
            shared,
            errors: Vec::new(),
            part,
        }
    }

    /// Config values that the program declares and the stack does not have.
    fn config(&mut self, program: &Program, surroundings: &Surroundings<'_>) {
        let project = &surroundings.stack.project;
        for declaration in &program.config {
            if self.shared.knows(&declaration.key) {
                continue;
            }
            let default = declaration.default.as_ref();
            let default = default.map(|default| self.expression(default)).transpose();
            let value = default.and_then(|default| {
                config_default::resolve_default(declaration, project, default).at(declaration.line)
            });
            let value = value.map_err(|failure| self.report(failure)).ok();
            let prefixed = format!("{project}:{}", declaration.key);
            self.shared.name(&prefixed, value.clone());
            self.shared.name(&declaration.key, value);
        }
    }

    fn is_wrong(&self) -> bool {
        self.shared.wrong.load(Ordering::SeqCst)
    }

    fn part(&mut self, part: ProgramPart<'_>, goal: Option<Goal>) {
        let (name, result) = match part {
            ProgramPart::RequiredVersion(range) => {
                if let Err(failure) = self.required_version(range) {
                    self.report(failure);
                }
                return;
            }
            ProgramPart::Variable(variable) => (&variable.name, self.expression(&variable.value)),
            ProgramPart::Resource(resource) => (&resource.key, self.resource(resource, goal)),
        };
        let value = result.map_err(|failure| self.report(failure)).ok();
        // a config value that only the stack has comes before a variable, and a resource before both
        let config = matches!(part, ProgramPart::Variable(_)) && self.shared.knows(name);
        if !config {
            self.shared.name(name, value);
        }
    }

    fn required_version(&mut self, range: &Expression) -> Result<(), Failure> {
        let value = self.expression(range)?;
        let Value::String(text) = value else {
            let message = "version range must evaluate to a string".to_owned();
            return Err(Failure::Message(range.line, message));
        };
        if version_range::contains(&text, pulumi_engine_model::VERSION).at(range.line)? {
            return Ok(());
        }
        let version = pulumi_engine_model::VERSION.trim_start_matches('v');
        Err(Failure::Message(
            range.line,
            format!("Pulumi CLI version {version} does not satisfy the version range {text:?}"),
        ))
    }

    fn report(&mut self, failure: Failure) {
        if let Failure::Message(line, message) = failure {
            self.errors.push(Diagnostic::error(line, message));
            self.shared.wrong.store(true, Ordering::SeqCst);
        }
    }

    /// An output with a secret in it is secret as a whole; one that the program says is null is none, but not one that
    /// turns out to be. As with Pulumi's language host there are none at all if one fails for what it had to wait for.
    /// The second value is [`Evaluation::stuck`].
    fn outputs(&mut self, program: &Program) -> (Option<Properties>, bool) {
        let mut outputs = Properties::new();
        let (mut abandoned, mut poisoned) = (false, false);
        for output in &program.outputs {
            let value = self.expression(&output.value);
            if value.as_ref().is_ok_and(is_null) {
                continue;
            }
            let result = value.and_then(|value| {
                let property = value.to_property().at(output.value.line)?;
                Ok(match value {
                    Value::Object(_) => without_nulls(property),
                    _ => property,
                })
            });
            match result {
                Ok(property) => {
                    let (open, secret) = property.opened();
                    let value = if secret { open.into_secret() } else { open };
                    outputs.insert(output.name.clone(), value);
                }
                Err(failure) => {
                    match failure {
                        Failure::Message(..) => abandoned |= self.waits(&output.value),
                        Failure::Poisoned => poisoned |= !self.is_wrong(),
                    }
                    self.report(failure);
                }
            }
        }
        ((!abandoned).then_some(outputs), abandoned || poisoned)
    }

    /// Whether an expression needs what only a run can tell: something of a resource, or a secret.
    fn waits(&self, expression: &Expression) -> bool {
        let names = self.shared.names.read();
        let mut any = false;
        expression.each_access(&mut |access, _| {
            any |= match names.get(&access.root) {
                Some(Some(Value::Resource(_))) => true,
                Some(Some(value)) => value.flatten().lifted,
                _ => false,
            };
        });
        any
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
            ExpressionKind::Invoke(invoke) => self.invoke(invoke, expression.line)?,
        })
    }

    /// The values of a map keep their histories; those of its keys become its own.
    fn object(&mut self, entries: &[(Expression, Expression)]) -> Evaluated {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            keys.push(self.expression(key)?);
            values.push(self.expression(value)?);
        }
        let line = entries.first().map(|(key, _)| key.line).unwrap_or_default();
        Value::List(keys)
            .lift(|keys| match keys {
                Value::List(keys) => named(keys, values),
                other => Ok(other),
            })
            .at(line)
    }

    fn interpolation(&mut self, parts: &[TextPart], line: Position) -> Evaluated {
        let mut values = Vec::new();
        for part in parts {
            values.push(match part {
                TextPart::Text(text) => Value::String(text.clone()),
                TextPart::Access(access) => self.access(access, line)?,
            });
        }
        let joined = Value::List(values).lift(|values| match values {
            Value::List(values) => values
                .iter()
                .map(|value| match value {
                    Value::Resource(resource) => Err(format!(
                        "resource {:?} is no text; name one of its properties",
                        resource.name
                    )),
                    value => Ok(text::interpolated(&value.plain_json())),
                })
                .collect::<Result<String, _>>()
                .map(Value::String),
            other => Ok(other),
        });
        joined.at(line)
    }

    fn access(&mut self, access: &Access, line: Position) -> Evaluated {
        let names = self.shared.names.read();
        match names.get(&access.root) {
            Some(Some(value)) => enter(value, &access.steps).at(line),
            Some(None) => Err(Failure::Poisoned),
            None => {
                let known = names.keys().map(String::as_str);
                let message = order::undefined_name_message(&access.root, known);
                Err(Failure::Message(line, message))
            }
        }
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

/// A map from its keys and values.
fn named(keys: Vec<Value>, values: Vec<Value>) -> Result<Value, String> {
    let mut object = BTreeMap::new();
    for (key, value) in keys.into_iter().zip(values) {
        let name = match key {
            Value::String(name) => name,
            Value::Null => "null".to_owned(),
            other => {
                return Err(format!(
                    "object key must evaluate to a string, not {}",
                    other.describe()
                ));
            }
        };
        object.insert(name, value);
    }
    Ok(Value::Object(object))
}
