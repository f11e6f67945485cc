//! Functions: those of the language, those of providers, and outputs of other stacks. Pure.

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

use super::{At as _, Evaluated, Evaluator, Failure, Goal, Host, Invocation, secret};
use crate::program::{
    function_call,
    value::{Output, Value},
};

impl<H: Host> Evaluator<'_, H> {
    pub(super) fn call(&mut self, function: Function, argument: &Expression) -> Evaluated {
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
            (Function::ReadFile, value) => self.read_file(&value, line),
            (function, value) => {
                let files = self.shared.files;
                value
                    .lift(|plain| function_call::apply(function, plain, files))
                    .at(line)
            }
        }
    }

    /// A file that cannot be read is reported, and stands for an empty text, as with Pulumi's language host: what else
    /// is wrong is then told as well.
    fn read_file(&mut self, path: &Value, line: Position) -> Evaluated {
        let files = self.shared.files;
        let mut unreadable = None;
        let text = path.lift(|path| {
            let is_path = matches!(path, Value::String(_));
            function_call::apply(Function::ReadFile, path, files).or_else(|message| {
                if !is_path {
                    return Err(message);
                }
                unreadable = Some(Failure::Message(line, message));
                Ok(Value::String(String::new()))
            })
        });
        if let Some(failure) = unreadable {
            self.report(failure);
        }
        text.at(line)
    }

    /// A function of a provider. It is only called when all its arguments are known.
    pub(super) fn invoke(&mut self, invoke: &Invoke, line: Position) -> Evaluated {
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
