//! From a program to values and registered resources. What it needs of the outside comes through
//! [`Host`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::SignedDuration;

use super::{
    Diagnostic, Inputs, Program, ResourceDeclaration, ResourceOptions,
    access::{Access, Accessor, Part as TextPart},
    check::{self, Known},
    expression::{Expression, ExpressionKind},
    files::Files,
    function::{self, Function},
    invoke::Invoke,
    order::{self, PULUMI, Part},
    types::ResourceTypes,
    value::{Output, ResourceValue, Value},
    version_range,
};
use crate::{
    builtin,
    property::{Properties, Property},
    provider::ResourceType,
    schedule::{self, locked},
    syntax::Place,
    text,
    urn::{StackIdentity, Urn},
};

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
    let declared = program.config.iter().map(|declaration| &declaration.key);
    let names = surroundings
        .config
        .keys()
        .chain(declared)
        .flat_map(|name| [name.clone(), format!("{prefix}{name}")]);
    let parts = order::order(program, &names.collect())?;
    let types = ResourceTypes::of(program, &|token| host.resource_type(token));
    let known = Known {
        config: surroundings.config,
        project: &surroundings.stack.project,
        types: &types,
        function: &|token| host.function(token),
    };
    let errors = check::check(program, &parts, known);
    if !errors.is_empty() {
        return Err(errors);
    }
    let shared = Shared::new(surroundings, &types);
    let mut before = Evaluator::new(host, &shared, 0);
    before.config(program, surroundings);
    let errors = Mutex::new(BTreeMap::from([(0, before.errors)]));
    schedule::run(&order::needs(&parts), host.parallel(), &|number| {
        let Some(part) = parts.get(number) else {
            return;
        };
        // the stack and default providers come before all parts
        let mut evaluator = Evaluator::new(host, &shared, number + 1);
        evaluator.part(*part);
        locked(&errors).insert(evaluator.part, evaluator.errors);
    });
    let mut after = Evaluator::new(host, &shared, parts.len() + 1);
    let outputs = after.outputs(program);
    let mut errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    errors.insert(after.part, after.errors);
    let errors: Vec<_> = errors.into_values().flatten().collect();
    if errors.is_empty() {
        Ok(outputs)
    } else {
        Err(errors)
    }
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
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.contains_key(name)
    }

    fn name(&self, name: &str, value: Option<Value>) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
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
                declaration
                    .without_value(project, default)
                    .at(declaration.line)
            });
            let value = value.map_err(|failure| self.report(failure)).ok();
            let prefixed = format!("{project}:{}", declaration.key);
            self.shared.name(&prefixed, value.clone());
            self.shared.name(&declaration.key, value);
        }
    }

    fn part(&mut self, part: Part<'_>) {
        let (name, result) = match part {
            Part::RequiredVersion(range) => {
                if let Err(failure) = self.required_version(range) {
                    self.report(failure);
                }
                return;
            }
            Part::Variable(variable) => (&variable.name, self.expression(&variable.value)),
            Part::Resource(resource) => (&resource.key, self.resource(resource)),
        };
        let value = result.map_err(|failure| self.report(failure)).ok();
        // a config value that only the stack has comes before a variable, and a resource before both
        let config = matches!(part, Part::Variable(_)) && self.shared.knows(name);
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
        if version_range::contains(&text, crate::VERSION).at(range.line)? {
            return Ok(());
        }
        let version = crate::VERSION.trim_start_matches('v');
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

    fn interpolation(&mut self, parts: &[TextPart], line: Place) -> Evaluated {
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

    fn access(&mut self, access: &Access, line: Place) -> Evaluated {
        let names = self.shared.names.read();
        let names = names.unwrap_or_else(PoisonError::into_inner);
        match names.get(&access.root) {
            Some(Some(value)) => enter(value, &access.steps).at(line),
            Some(None) => Err(Failure::Poisoned),
            None => {
                let known = names.keys().map(String::as_str);
                let message = order::not_found(&access.root, known);
                Err(Failure::Message(line, message))
            }
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
                let files = self.shared.files;
                value
                    .lift(|plain| function::apply(function, plain, files))
                    .at(line)
            }
        }
    }

    /// A function of a provider. It is only called when all its arguments are known.
    fn invoke(&mut self, invoke: &Invoke, line: Place) -> Evaluated {
        let options = &invoke.options;
        let arguments = self.expression(&invoke.arguments)?;
        let one = |expression: &Option<Expression>, evaluator: &mut Self| {
            let expression = expression.as_ref();
            expression
                .map(|expression| evaluator.one_resource(expression))
                .transpose()
        };
        let (parent, provider) = (one(&options.parent, self)?, one(&options.provider, self)?);
        let needs: BTreeSet<Urn> = match &options.depends_on {
            Some(expression) => self.resources(expression)?.into_iter().collect(),
            None => BTreeSet::new(),
        };
        let flat = arguments.flatten();
        let dependencies: BTreeSet<_> = flat.dependencies.union(&needs).cloned().collect();
        let value = match flat
            .value
            .map(|value| value.to_property())
            .transpose()
            .at(line)?
        {
            Some(Property::Object(arguments)) => {
                let invocation = Invocation {
                    token: invoke.token.clone(),
                    arguments,
                    provider,
                    parent,
                    version: options.version.clone(),
                    plugin_download_url: options.plugin_download_url.clone(),
                };
                let result = self.host.invoke(invocation).at(line)?;
                Some(returned(invoke, result, &dependencies).at(line)?)
            }
            _ => None,
        };
        Ok(Value::Output(Box::new(Output {
            value,
            secret: flat.secret,
            dependencies,
        })))
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
                kind: builtin::STACK_REFERENCE.to_owned(),
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
        let kind = self
            .shared
            .types
            .get(&resource.kind)
            .map(|(kind, _)| kind.clone());
        let mut goal = Goal {
            name: resource.name.clone(),
            kind: kind.unwrap_or_else(|_| resource.kind.clone()),
            retain_on_delete: options.retain_on_delete,
            ignore_changes: options.ignore_changes.clone(),
            replace_on_changes: options.replace_on_changes.clone(),
            additional_secret_outputs: options.additional_secret_outputs.clone(),
            delete_before_replace: options.delete_before_replace.then_some(true),
            part: self.part,
            hide_diffs: options.hide_diffs.clone(),
            import: options.import.clone(),
            version: options.version.clone(),
            plugin_download_url: options.plugin_download_url.clone(),
            ..Goal::default()
        };
        self.inputs(&mut goal, resource)?;
        self.options(&mut goal, options)?;
        Ok(goal)
    }

    fn inputs(&mut self, goal: &mut Goal, resource: &ResourceDeclaration) -> Result<(), Failure> {
        let named = match &resource.get {
            Some(get) => {
                let id = self.expression(&get.id)?;
                goal.dependencies.extend(id.dependencies());
                goal.read = Some(id.to_property().at(get.id.line)?);
                &get.state
            }
            None => match &resource.properties {
                Inputs::Named(properties) => properties,
                Inputs::Whole(expression) => {
                    let value = self.expression(expression)?;
                    return whole_inputs(goal, &value).at(expression.line);
                }
            },
        };
        for property in named {
            let value = self.expression(&property.value)?;
            add_input(goal, &property.name, &value).at(property.line)?;
        }
        if goal.kind == builtin::STACK_REFERENCE && !goal.inputs.contains_key("name") {
            let name = Value::String(resource.key.clone());
            add_input(goal, "name", &name).at(resource.line)?;
        }
        if let Ok((_, kind)) = self.shared.types.get(&resource.kind)
            && goal.read.is_none()
            && let Some(missing) = kind
                .required
                .iter()
                .find(|name| !goal.inputs.contains_key(**name))
        {
            let message = format!(
                "resource {:?} is missing required property {missing:?}",
                resource.key
            );
            return Err(Failure::Message(resource.line, message));
        }
        Ok(())
    }

    fn options(&mut self, goal: &mut Goal, options: &ResourceOptions) -> Result<(), Failure> {
        if let Some(expression) = &options.depends_on {
            goal.dependencies.extend(self.resources(expression)?);
        }
        if let Some(expression) = &options.replace_with {
            goal.replace_with = self.resources(expression)?;
        }
        if let Some(expression) = &options.parent {
            goal.parent = Some(self.one_resource(expression)?);
        }
        if let Some(expression) = &options.provider {
            goal.provider = Some(self.provider(expression)?);
        }
        if let Some(expression) = &options.providers {
            goal.providers = self.resources(expression)?;
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
        if let Some(expression) = &options.replacement_trigger {
            let value = self.expression(expression)?;
            goal.replacement_trigger = Some(value.to_property().at(expression.line)?);
        }
        if let Some(expression) = &options.env_var_mappings {
            goal.env_var_mappings = self.mappings(expression)?;
        }
        for (name, expression) in &options.custom_timeouts {
            let seconds = self.timeout(name, expression)?;
            goal.custom_timeouts.push((name.clone(), seconds));
        }
        Ok(())
    }

    fn provider(&mut self, expression: &Expression) -> Result<Urn, Failure> {
        let urn = self.one_resource(expression)?;
        let kind = urn.qualified_type().rsplit('$').next().unwrap_or_default();
        if kind.starts_with("pulumi:providers:") {
            return Ok(urn);
        }
        let message = format!("resource passed as provider is no provider: {}", urn.name());
        Err(Failure::Message(expression.line, message))
    }

    fn mappings(&mut self, expression: &Expression) -> Result<BTreeMap<String, String>, Failure> {
        let wrong = || {
            let message = "envVarMappings must be an object with string values".to_owned();
            Failure::Message(expression.line, message)
        };
        let Value::Object(entries) = self.expression(expression)? else {
            return Err(wrong());
        };
        entries
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(text) => Ok((key, text)),
                _ => Err(wrong()),
            })
            .collect()
    }

    /// How long an operation may take, in seconds.
    fn timeout(&mut self, name: &str, expression: &Expression) -> Result<f64, Failure> {
        let duration = match self.expression(expression)?.flatten().value {
            Some(Value::String(text)) => text.parse::<SignedDuration>().ok(),
            _ => None,
        };
        duration
            .map(|duration| duration.as_secs_f64())
            .ok_or_else(|| {
                let message =
                    format!("{name:?} of customTimeouts must be a duration such as \"10m\"");
                Failure::Message(expression.line, message)
            })
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

/// What a call gives: all of its result, or the property that is wanted.
fn returned(
    invoke: &Invoke,
    result: Properties,
    dependencies: &BTreeSet<Urn>,
) -> Result<Value, String> {
    let property = match &invoke.returns {
        None => Property::Object(result),
        Some(name) => result.get(name).cloned().ok_or_else(|| {
            format!(
                "the result of {:?} has no property {name:?}{}",
                invoke.token,
                text::did_you_mean(name, result.keys().map(String::as_str))
            )
        })?,
    };
    Ok(Value::from_property(&property, dependencies))
}

/// An input; null is none.
fn add_input(goal: &mut Goal, name: &str, value: &Value) -> Result<(), String> {
    let needs = value.dependencies();
    let property = value.to_property()?;
    goal.dependencies.extend(needs.iter().cloned());
    if property != Property::Null {
        goal.property_dependencies.insert(name.to_owned(), needs);
        goal.inputs.insert(name.to_owned(), property);
    }
    Ok(())
}

/// All inputs from one value, whose history each of them has.
fn whole_inputs(goal: &mut Goal, value: &Value) -> Result<(), String> {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                add_input(goal, name, value)?;
            }
            Ok(())
        }
        Value::Output(output) => match &output.value {
            Some(Value::Object(entries)) => {
                for (name, value) in entries {
                    let value = Output {
                        value: Some(value.clone()),
                        ..(**output).clone()
                    };
                    add_input(goal, name, &Value::Output(Box::new(value)))?;
                }
                Ok(())
            }
            Some(inner) => whole_inputs(goal, inner),
            None => Err("properties that only the real run knows are not supported by pulumi-engine; name them one by one".to_owned()),
        },
        other => Err(format!("properties must be a map, not {}", other.describe())),
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
            ("parent", Value::String(urn)) => parent = Some(Some(Urn::new(urn))),
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
            // nothing in a list has nothing in it, where nothing in a map is a mistake
            match element {
                Value::Null => Ok(Value::Null),
                element => enter(element, rest),
            }
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
