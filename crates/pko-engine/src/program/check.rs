//! What can be said about a program before it runs: types of references, properties of resources.
//! Pure.

use std::collections::BTreeMap;

use super::{
    Diagnostic, Program, ResourceDeclaration,
    access::{Access, Accessor},
    expression::{Expression, ExpressionKind},
    function::Function,
    order::{PULUMI, Part},
};
use crate::{provider::ResourceType, syntax::Place, text::did_you_mean};

/// Tells what may be said of resources of a type.
pub type Types<'a> = &'a dyn Fn(&str) -> Result<ResourceType, String>;

/// What is known of a value without computing it.
#[derive(Debug, Clone, PartialEq)]
enum Type {
    Any,
    Scalar(&'static str),
    List(Box<Type>),
    Object(BTreeMap<String, Type>),
    Resource(ResourceType),
}

/// Checks the parts, in order, and the outputs.
#[must_use]
pub fn check(program: &Program, parts: &[Part<'_>], types: Types<'_>) -> Vec<Diagnostic> {
    let mut checker = Checker {
        types,
        names: BTreeMap::new(),
        errors: program.errors.clone(),
    };
    checker.names.insert(PULUMI, pulumi());
    for part in parts {
        match part {
            Part::Variable(variable) => {
                let kind = checker.infer(&variable.value);
                checker.names.insert(&variable.name, kind);
            }
            Part::Resource(resource) => checker.resource(resource),
        }
    }
    for output in &program.outputs {
        checker.infer(&output.value);
    }
    checker.errors
}

fn pulumi() -> Type {
    let names = ["cwd", "organization", "project", "rootDirectory", "stack"];
    Type::Object(
        names
            .map(|name| (name.to_owned(), Type::Scalar("string")))
            .into(),
    )
}

struct Checker<'a, 't> {
    types: Types<'t>,
    names: BTreeMap<&'a str, Type>,
    errors: Vec<Diagnostic>,
}

impl<'a> Checker<'a, '_> {
    fn resource(&mut self, resource: &'a ResourceDeclaration) {
        let of_type = match (self.types)(&resource.kind) {
            Ok(of_type) => of_type,
            Err(reason) => {
                let message = format!("resource {:?}: {reason}", resource.key);
                self.errors.push(Diagnostic::error(resource.line, message));
                self.names.insert(&resource.key, Type::Any);
                return;
            }
        };
        for property in &resource.properties {
            if let Some(inputs) = &of_type.inputs
                && !inputs.contains(&property.name.as_str())
            {
                let message = format!(
                    "property {:?} does not exist on type {:?}{}",
                    property.name,
                    resource.kind,
                    did_you_mean(&property.name, inputs.iter().copied())
                );
                self.errors.push(Diagnostic::error(property.line, message));
            }
            self.infer(&property.value);
        }
        for required in &of_type.required {
            let mut given = resource.properties.iter();
            if !given.any(|property| property.name == *required) {
                let message = format!(
                    "resource {:?} is missing required property {required:?}",
                    resource.key
                );
                self.errors.push(Diagnostic::error(resource.line, message));
            }
        }
        self.names.insert(&resource.key, Type::Resource(of_type));
    }

    fn infer(&mut self, expression: &Expression) -> Type {
        match &expression.kind {
            ExpressionKind::Null => Type::Any,
            ExpressionKind::Bool(_) => Type::Scalar("boolean"),
            ExpressionKind::Number(_) => Type::Scalar("number"),
            ExpressionKind::String(_) | ExpressionKind::Interpolation(_) => Type::Scalar("string"),
            ExpressionKind::List(values) => self.infer_list(values),
            ExpressionKind::Object(entries) => self.infer_object(entries),
            ExpressionKind::Reference(access) => self.infer_access(access, expression.line),
            ExpressionKind::Call(function, argument) => {
                let argument = self.infer(argument);
                match function {
                    Function::Secret | Function::Unsecret => argument,
                    Function::Split => Type::List(Box::new(Type::Scalar("string"))),
                    Function::ToJson | Function::Join => Type::Scalar("string"),
                    _ => Type::Any,
                }
            }
        }
    }

    fn infer_list(&mut self, values: &[Expression]) -> Type {
        let mut kinds: Vec<_> = values.iter().map(|value| self.infer(value)).collect();
        kinds.dedup();
        match <[Type; 1]>::try_from(kinds) {
            Ok([kind]) => Type::List(Box::new(kind)),
            Err(_) => Type::List(Box::new(Type::Any)),
        }
    }

    fn infer_object(&mut self, entries: &[(Expression, Expression)]) -> Type {
        let mut kinds = BTreeMap::new();
        let mut literal = true;
        for (key, value) in entries {
            let kind = self.infer(value);
            match &key.kind {
                ExpressionKind::String(key) => _ = kinds.insert(key.clone(), kind),
                _ => literal = false,
            }
        }
        if literal {
            Type::Object(kinds)
        } else {
            Type::Any
        }
    }

    fn infer_access(&mut self, access: &Access, line: Place) -> Type {
        let mut kind = self
            .names
            .get(access.root.as_str())
            .cloned()
            .unwrap_or(Type::Any);
        let mut path = access.root.clone();
        for step in &access.steps {
            match enter(&kind, step, &path) {
                Ok(inner) => kind = inner,
                Err(message) => {
                    self.errors.push(Diagnostic::error(line, message));
                    return Type::Any;
                }
            }
            path.push_str(&step.to_string());
        }
        kind
    }
}

/// One step into a value of a type.
fn enter(kind: &Type, step: &Accessor, path: &str) -> Result<Type, String> {
    let named = |properties: Vec<&str>, name: &str| {
        format!(
            "{name:?} does not exist on {path}; it has {}",
            properties.join(", ")
        )
    };
    match (kind, step) {
        (Type::Any, _) => Ok(Type::Any),
        (Type::Object(properties), Accessor::Name(name)) => properties
            .get(name)
            .cloned()
            .ok_or_else(|| named(properties.keys().map(String::as_str).collect(), name)),
        (Type::Resource(of_type), Accessor::Name(name)) => match &of_type.outputs {
            Some(outputs) if !outputs.contains(&name.as_str()) && name != "id" && name != "urn" => {
                Err(named(outputs.clone(), name))
            }
            _ => Ok(Type::Any),
        },
        (Type::List(element), Accessor::Index(_)) => Ok((**element).clone()),
        (Type::List(_), _) => Err(format!(
            "a list element of {path} needs a number in brackets"
        )),
        // Pulumi's own checker has it so: brackets are for lists and maps, not for literal objects
        (Type::Object(_) | Type::Resource(_), _) => Err(format!(
            "cannot index into {path}: write a name after a dot instead of {step}"
        )),
        (Type::Scalar(name), _) => Err(format!("cannot look into {path}: it is a {name}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        program::{order, parse},
        property::Properties,
        provider::{
            Provider as _,
            builtin::{Answers, Builtin},
            registry::Registry,
        },
        syntax,
    };

    struct Nowhere;

    impl Answers for Nowhere {
        fn stack_outputs(&self, name: &str) -> Result<Properties, String> {
            Err(format!("no stack named '{name}' found"))
        }
    }

    fn of_type(token: &str) -> Result<ResourceType, String> {
        let known = Registry::new(&[]).require(token);
        known
            .and_then(|()| Builtin::new(&Nowhere).resource_type(token))
            .map_err(|error| error.to_string())
    }

    fn errors(text: &str) -> Vec<String> {
        let program = parse::parse(&syntax::parse(text).unwrap()).unwrap();
        let parts = order::order(&program, &BTreeSet::new()).unwrap();
        check(&program, &parts, &of_type)
            .into_iter()
            .map(|error| error.message)
            .collect()
    }

    #[test]
    fn mistakes_are_found_before_anything_runs() {
        let stash = "resources: {a: {type: 'pulumi:index:Stash', properties: {input: 1}}}\n";
        for (text, expected) in [
            (
                "variables: {m: {k: v}}\noutputs: {q: '${m[\"k\"]}'}".to_owned(),
                "cannot index into m",
            ),
            (
                "variables: {m: {k: v}}\noutputs: {q: '${m.x}'}".to_owned(),
                "\"x\" does not exist on m; it has k",
            ),
            (
                "variables: {n: 1}\noutputs: {q: '${n.x}'}".to_owned(),
                "cannot look into n: it is a number",
            ),
            (
                "variables: {l: [1]}\noutputs: {q: '${l.x}'}".to_owned(),
                "a list element of l",
            ),
            (
                format!("{stash}outputs: {{q: '${{a.nosuch}}'}}"),
                "\"nosuch\" does not exist on a",
            ),
            (
                "resources: {a: {type: 'pulumi:index:Stash', properties: {input: 1, nosuch: 2}}}"
                    .to_owned(),
                "\"nosuch\" does not exist on type",
            ),
            (
                "resources: {a: {type: 'pulumi:index:Stash'}}".to_owned(),
                "missing required property \"input\"",
            ),
            (
                "resources: {a: {type: 'aws:s3:Bucket'}}".to_owned(),
                "type \"aws:s3:Bucket\" needs a provider plugin",
            ),
        ] {
            let errors = errors(&text);
            assert!(
                errors.len() == 1 && errors[0].contains(expected),
                "{text}: {errors:?}"
            );
        }
    }

    #[test]
    fn what_is_right_passes() {
        for text in [
            "variables: {m: {k: [{x: 1}]}}\noutputs: {q: '${m.k[0].x}'}",
            "resources: {a: {type: 'pulumi:index:Stash', properties: {input: 1}}}\noutputs: {q: '${a.output.deep[0]}', i: '${a.id}'}",
            "outputs: {s: '${pulumi.stack}'}",
        ] {
            assert!(errors(text).is_empty(), "{text}");
        }
    }
}
