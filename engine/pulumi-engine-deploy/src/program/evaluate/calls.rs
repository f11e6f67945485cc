//! Calls of built-in functions, provider functions and stack references.

use std::collections::BTreeSet;

use pulumi_engine_model::{
    property::{Properties, Property},
    urn::Urn,
};
use pulumi_engine_providers::builtin;
use pulumi_yaml::{
    Invoke,
    expression::{Expression, ExpressionKind},
    function::Function,
    syntax::Position,
    text,
};

use super::{
    AtPosition as _, EvaluationError, EvaluationResult, Evaluator, Goal, Host, Invocation, secret,
};
use crate::program::{
    function_call,
    value::{Output, Value},
};

impl<H: Host> Evaluator<'_, H> {
    pub(super) fn call(&mut self, function: Function, argument: &Expression) -> EvaluationResult {
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
            (Function::ResourceName | Function::ResourceType, other) => {
                Err(EvaluationError::Message(
                    line,
                    format!("a resource is needed here, not {}", other.describe()),
                ))
            }
            (Function::ReadFile, value) => self.read_file(&value, line),
            (function, value) => {
                let files = self.shared.files;
                value
                    .lift(|plain| function_call::apply(function, plain, files))
                    .at(line)
            }
        }
    }

    /// Reads a file. As in Pulumi's language host, an unreadable file is reported and becomes an
    /// empty string, so that further errors are found.
    fn read_file(&mut self, path: &Value, line: Position) -> EvaluationResult {
        let files = self.shared.files;
        let mut unreadable = None;
        let text = path.lift(|path| {
            let is_path = matches!(path, Value::String(_));
            function_call::apply(Function::ReadFile, path, files).or_else(|message| {
                if !is_path {
                    return Err(message);
                }
                unreadable = Some(EvaluationError::Message(line, message));
                Ok(Value::String(String::new()))
            })
        });
        if let Some(failure) = unreadable {
            self.report(failure);
        }
        text.at(line)
    }

    /// Calls a provider's function once all its arguments are known.
    pub(super) fn invoke(&mut self, invoke: &Invoke, line: Position) -> EvaluationResult {
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
            Some(expression) => {
                let needed = self.resource_list("dependsOn", expression)?;
                needed.into_iter().collect()
            }
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

    /// One output of another stack. The reference is a resource, registered once for each stack.
    fn stack_reference(&mut self, argument: &Expression) -> EvaluationResult {
        let wrong = "fn::stackReference needs the name of a stack, as plain text, and the name of an output";
        let wrong =
            |expression: &Expression| EvaluationError::Message(expression.line, wrong.to_owned());
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
        let mut references = self.shared.references.lock();
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
}

/// The result of a call, or the property of it that `return` names.
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
