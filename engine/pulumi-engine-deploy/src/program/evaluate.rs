//! Evaluates a program to values and registered resources. I/O goes through [`Host`].

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
pub use super::goal::{Alias, Goal, Invocation, Registered, RegistrationError};

/// What an evaluation needs. Several threads call it.
pub trait Host: Sync {
    /// Registers a resource, and returns its outputs.
    fn register(&self, goal: Goal) -> Result<Registered, RegistrationError>;

    /// Checks that a provider has a function. The error tells the user what to do instead.
    fn function(&self, token: &str) -> Result<(), String>;

    /// Calls a function of a provider.
    fn invoke(&self, invocation: Invocation) -> Result<Properties, RegistrationError>;

    /// The schema of a resource type. The error tells the user what to do instead.
    fn resource_type(&self, token: &str) -> Result<ResourceType, String>;

    /// How many parts of a program are evaluated at the same time.
    fn parallel(&self) -> usize {
        1
    }
}

/// The values that a program can refer to, and its files.
#[derive(Debug, Clone)]
pub struct EvaluationContext<'a> {
    /// Stack and project.
    pub stack: &'a StackIdentity,
    /// Config values by name without the project's prefix.
    pub config: &'a BTreeMap<String, Property>,
    /// Directory of the program.
    pub working_directory: &'a str,
    /// Directory of the project file.
    pub root_directory: &'a str,
    pub files: &'a dyn Files,
}

/// The result of a program.
#[derive(Debug, Default)]
pub struct Evaluation {
    /// Outputs of the stack, as far as they could be computed; none if nothing was evaluated.
    pub outputs: Option<Properties>,
    /// Whether an output failed after waiting for a resource, or needs a failed resource.
    pub stuck: bool,
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

/// Evaluates a program. Each part follows its dependencies. After an error no further resource is
/// registered.
pub fn evaluate(
    program: &Program,
    context: &EvaluationContext<'_>,
    host: &impl Host,
) -> Evaluation {
    let prefix = format!("{}:", context.stack.project);
    let declared = program.config.iter().map(|declaration| &declaration.key);
    let names = context
        .config
        .keys()
        .chain(declared)
        .flat_map(|name| [name.clone(), format!("{prefix}{name}")]);
    let given = |name: &str| context.config.contains_key(name);
    let parts = match order::order(program, &names.collect(), &given) {
        Ok(parts) => parts,
        Err(errors) => return Evaluation::refused(errors),
    };
    let types = ResourceTypes::of(program, &|token| host.resource_type(token));
    let config = context.config.iter();
    let config = config.map(|(name, property)| (name.clone(), config_value(property)));
    let check_context = CheckContext {
        config: &config.collect(),
        project: &context.stack.project,
        types: &types,
        function: &|token| host.function(token),
    };
    let errors = check::check(program, &parts, check_context);
    if !errors.is_empty() {
        return Evaluation::refused(errors);
    }
    let shared = EvaluationState::new(context, &types);
    let mut before = Evaluator::new(host, &shared, 0);
    before.config(program, context);
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
    // outputs could differ with another version of Pulumi
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

/// Drops null entries of a literal map.
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

/// Whether an expression is a literal null, or a secret of one.
fn is_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Output(output) => {
            output.secret && output.dependencies.is_empty() && output.value == Some(Value::Null)
        }
        _ => false,
    }
}

/// A part that was evaluated before the threads start.
enum Prepared {
    /// Evaluated, with these errors.
    Done(Vec<Diagnostic>),
    /// A resource that only needs to be registered.
    Resource(Box<Goal>),
}

/// Evaluates all parts that need no resource, in program order. Their errors are then found before
/// any resource changes, and do not depend on the timing of threads.
fn prepare<H: Host>(
    parts: &[ProgramPart<'_>],
    needs: &[Vec<usize>],
    host: &H,
    shared: &EvaluationState<'_>,
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

/// The shared state of an evaluation.
struct EvaluationState<'a> {
    files: &'a dyn Files,
    types: &'a ResourceTypes,
    /// Values by name; `None` for those that failed.
    names: RwLock<BTreeMap<String, Option<Value>>>,
    /// Stacks of `fn::stackReference`. Locked while one is read, so each is read once.
    references: Mutex<BTreeMap<String, Registered>>,
    /// Whether a part failed.
    wrong: AtomicBool,
}

struct Evaluator<'a, H> {
    host: &'a H,
    shared: &'a EvaluationState<'a>,
    errors: Vec<Diagnostic>,
    /// The part of the program.
    part: usize,
}

/// An expression that has no value.
enum EvaluationError {
    /// An error of the expression.
    Message(Position, String),
    /// A dependency failed, which was reported.
    Poisoned,
}

type EvaluationResult = Result<Value, EvaluationError>;

trait AtPosition<T> {
    fn at(self, line: Position) -> Result<T, EvaluationError>;
}

impl<T> AtPosition<T> for Result<T, String> {
    fn at(self, line: Position) -> Result<T, EvaluationError> {
        self.map_err(|message| EvaluationError::Message(line, message))
    }
}

impl<T> AtPosition<T> for Result<T, RegistrationError> {
    fn at(self, line: Position) -> Result<T, EvaluationError> {
        self.map_err(|refusal| match refusal {
            RegistrationError::Message(message) => EvaluationError::Message(line, message),
            RegistrationError::Reported => EvaluationError::Poisoned,
        })
    }
}

impl<'a> EvaluationState<'a> {
    fn new(context: &EvaluationContext<'a>, types: &'a ResourceTypes) -> Self {
        let mut names = BTreeMap::new();
        for (name, property) in context.config {
            let value = Value::from_property(property, &BTreeSet::new());
            names.insert(
                format!("{}:{name}", context.stack.project),
                Some(value.clone()),
            );
            names.insert(name.clone(), Some(value));
        }
        let pulumi = [
            ("cwd", context.working_directory),
            ("organization", &context.stack.organization),
            ("project", &context.stack.project),
            ("rootDirectory", context.root_directory),
            ("stack", &context.stack.name),
        ];
        let pulumi = pulumi.map(|(key, text)| (key.to_owned(), Value::String(text.to_owned())));
        names.insert(PULUMI.to_owned(), Some(Value::Object(pulumi.into())));
        Self {
            files: context.files,
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
    fn new(host: &'a H, shared: &'a EvaluationState<'a>, part: usize) -> Self {
        Self {
            host,
            shared,
            errors: Vec::new(),
            part,
        }
    }

    /// Sets config variables that the stack does not set to their defaults.
    fn config(&mut self, program: &Program, context: &EvaluationContext<'_>) {
        let project = &context.stack.project;
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
        // a config value that only the stack has hides a variable, and a resource hides both
        let config = matches!(part, ProgramPart::Variable(_)) && self.shared.knows(name);
        if !config {
            self.shared.name(name, value);
        }
    }

    fn required_version(&mut self, range: &Expression) -> Result<(), EvaluationError> {
        let value = self.expression(range)?;
        let Value::String(text) = value else {
            let message = "version range must evaluate to a string".to_owned();
            return Err(EvaluationError::Message(range.line, message));
        };
        if version_range::contains(&text, pulumi_engine_model::VERSION).at(range.line)? {
            return Ok(());
        }
        let version = pulumi_engine_model::VERSION.trim_start_matches('v');
        Err(EvaluationError::Message(
            range.line,
            format!("Pulumi CLI version {version} does not satisfy the version range {text:?}"),
        ))
    }

    fn report(&mut self, failure: EvaluationError) {
        if let EvaluationError::Message(line, message) = failure {
            self.errors.push(Diagnostic::error(line, message));
            self.shared.wrong.store(true, Ordering::SeqCst);
        }
    }

    /// Evaluates the outputs. One that contains a secret is secret as a whole. Literal nulls are
    /// dropped, computed ones are not. As in Pulumi's language host, there are no outputs at all if
    /// one fails after waiting for a resource. The second value is [`Evaluation::stuck`].
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
                        EvaluationError::Message(..) => {
                            abandoned |= self.depends_on_run(&output.value);
                        }
                        EvaluationError::Poisoned => poisoned |= !self.is_wrong(),
                    }
                    self.report(failure);
                }
            }
        }
        ((!abandoned).then_some(outputs), abandoned || poisoned)
    }

    /// Whether an expression depends on a resource or a secret.
    fn depends_on_run(&self, expression: &Expression) -> bool {
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

    fn expression(&mut self, expression: &Expression) -> EvaluationResult {
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

    /// Evaluates a map. Values keep their dependencies; those of keys become the map's own.
    fn object(&mut self, entries: &[(Expression, Expression)]) -> EvaluationResult {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            keys.push(self.expression(key)?);
            values.push(self.expression(value)?);
        }
        let line = entries.first().map(|(key, _)| key.line).unwrap_or_default();
        Value::List(keys)
            .lift(|keys| match keys {
                Value::List(keys) => object_from(keys, values),
                other => Ok(other),
            })
            .at(line)
    }

    fn interpolation(&mut self, parts: &[TextPart], line: Position) -> EvaluationResult {
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
                    value => Ok(text::format_interpolated(&value.plain_json())),
                })
                .collect::<Result<String, _>>()
                .map(Value::String),
            other => Ok(other),
        });
        joined.at(line)
    }

    fn access(&mut self, access: &Access, line: Position) -> EvaluationResult {
        let names = self.shared.names.read();
        match names.get(&access.root) {
            Some(Some(value)) => enter(value, &access.steps).at(line),
            Some(None) => Err(EvaluationError::Poisoned),
            None => {
                let known = names.keys().map(String::as_str);
                let message = order::undefined_name_message(&access.root, known);
                Err(EvaluationError::Message(line, message))
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
fn object_from(keys: Vec<Value>, values: Vec<Value>) -> Result<Value, String> {
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
