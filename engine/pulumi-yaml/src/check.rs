//! Static checks: the types of references, the properties of resources.

use std::collections::BTreeMap;

use crate::{
    Diagnostic, Get, Inputs, Program, ResourceDeclaration, ResourceType, Variable,
    access::Access,
    expression::{Expression, ExpressionKind},
    function::Function,
    order::{PULUMI, ProgramPart},
    syntax::Position,
    text,
    types::{ResourceTypes, Type},
};

/// What the check needs besides the program.
#[derive(Clone, Copy)]
pub struct CheckContext<'a> {
    /// Config values of the stack by name without the project's prefix.
    pub config: &'a BTreeMap<String, ConfigValue>,
    /// The project: `project:name` is the config value `name`.
    pub project: &'a str,
    /// The resource types of the program.
    pub types: &'a ResourceTypes,
    /// Looks up a provider's function. The error tells the user what to do instead.
    pub function: &'a dyn Fn(&str) -> Result<(), String>,
}

/// What the check needs of a config value.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigValue {
    /// Its type.
    pub kind: Type,
    /// The value itself, if it is a string that may stand for a number or boolean.
    pub text: Option<String>,
}

/// Checks the parts, in order, and the outputs.
#[must_use]
pub fn check(
    program: &Program,
    parts: &[ProgramPart<'_>],
    context: CheckContext<'_>,
) -> Vec<Diagnostic> {
    let mut checker = Checker {
        context,
        names: BTreeMap::from([(PULUMI.to_owned(), pulumi())]),
        errors: program.errors.clone(),
    };
    checker.config(program);
    for part in parts {
        match part {
            ProgramPart::RequiredVersion(expression) => _ = checker.infer(expression),
            ProgramPart::Variable(variable) => {
                let kind = checker.infer(&variable.value);
                checker.names.entry(variable.name.clone()).or_insert(kind);
            }
            ProgramPart::Resource(resource) => checker.resource(resource),
        }
    }
    for output in &program.outputs {
        checker.infer(&output.value);
    }
    checker.errors
}

fn pulumi() -> Type {
    let names = ["cwd", "organization", "project", "rootDirectory", "stack"];
    Type::Object(names.map(|name| (name.to_owned(), Type::String)).into())
}

struct Checker<'a> {
    context: CheckContext<'a>,
    names: BTreeMap<String, Type>,
    errors: Vec<Diagnostic>,
}

impl Checker<'_> {
    fn config(&mut self, program: &Program) {
        for (name, value) in self.context.config {
            self.name_config(name, value.kind.clone());
        }
        for declaration in &program.config {
            let key = declaration.key.as_str();
            if let Some(value) = self.context.config.get(key)
                && let Some(message) = declaration.conflict(&value.kind, value.text.as_deref())
            {
                self.errors
                    .push(Diagnostic::error(declaration.line, message));
            }
            self.name_config(key, declaration.type_of());
        }
    }

    fn name_config(&mut self, name: &str, kind: Type) {
        let prefixed = format!("{}:{name}", self.context.project);
        self.names.insert(prefixed, kind.clone());
        self.names.insert(name.to_owned(), kind);
    }

    fn resource(&mut self, resource: &ResourceDeclaration) {
        for expression in resource.options.expressions() {
            self.infer(expression);
        }
        let kind = match self.context.types.get(&resource.kind) {
            Ok((_, kind)) => {
                self.inputs(resource, kind);
                Type::Resource(kind.outputs.clone())
            }
            Err(message) => {
                let message = format!("resource {:?}: {message}", resource.key);
                self.errors.push(Diagnostic::error(resource.line, message));
                Type::Any
            }
        };
        self.names.insert(resource.key.clone(), kind);
    }

    fn inputs(&mut self, resource: &ResourceDeclaration, kind: &ResourceType) {
        if let Some(Get { id, state }) = &resource.get {
            if !self.infer(id).fits(&Type::String) {
                let message = format!("resource {:?}: get.id must be a string", resource.key);
                self.errors.push(Diagnostic::error(id.line, message));
            }
            return self.check_properties(&resource.kind, state, kind.outputs.as_deref());
        }
        match &resource.properties {
            Inputs::Absent => {}
            Inputs::Whole(expression) => match self.infer(expression) {
                Type::Object(entries) => {
                    let given: Vec<_> = entries.keys().map(String::as_str).collect();
                    for name in &given {
                        let known = kind.inputs.as_deref();
                        self.exists(&resource.kind, name, expression.line, known);
                    }
                    self.required(resource, &given, kind);
                }
                Type::Any | Type::Map(_) | Type::Union(_) => {}
                other => {
                    let message = format!("properties must be a map, not a {other}");
                    self.errors
                        .push(Diagnostic::error(expression.line, message));
                }
            },
            Inputs::Named(properties) => {
                self.check_properties(&resource.kind, properties, kind.inputs.as_deref());
                let names = properties.iter().map(|property| property.name.as_str());
                self.required(resource, &names.collect::<Vec<_>>(), kind);
            }
        }
    }

    fn check_properties(&mut self, kind: &str, properties: &[Variable], known: Option<&[&str]>) {
        for property in properties {
            self.exists(kind, &property.name, property.line, known);
            self.infer(&property.value);
        }
    }

    fn exists(&mut self, kind: &str, name: &str, line: Position, known: Option<&[&str]>) {
        let Some(known) = known.filter(|known| !known.contains(&name)) else {
            return;
        };
        let message = format!(
            "property {name:?} does not exist on type {kind:?}{}",
            text::did_you_mean(name, known.iter().copied())
        );
        self.errors.push(Diagnostic::error(line, message));
    }

    fn required(&mut self, resource: &ResourceDeclaration, given: &[&str], kind: &ResourceType) {
        for name in &kind.required {
            if !given.contains(name) {
                let message = format!(
                    "resource {:?} is missing required property {name:?}",
                    resource.key
                );
                self.errors.push(Diagnostic::error(resource.line, message));
            }
        }
    }

    fn infer(&mut self, expression: &Expression) -> Type {
        match &expression.kind {
            ExpressionKind::Null => Type::Any,
            ExpressionKind::Bool(_) => Type::Bool,
            ExpressionKind::Number(_) => Type::Number,
            ExpressionKind::String(_) | ExpressionKind::Interpolation(_) => Type::String,
            ExpressionKind::List(values) => {
                let types = values.iter().map(|value| self.infer(value)).collect();
                Type::List(Box::new(Type::union_of(types)))
            }
            ExpressionKind::Object(entries) => self.infer_object(entries),
            ExpressionKind::Reference(access) => self.infer_access(access, expression.line),
            ExpressionKind::Call(function, argument) => self.infer_call(*function, argument),
            ExpressionKind::Invoke(invoke) => {
                if let Err(message) = (self.context.function)(&invoke.token) {
                    let error = Diagnostic::error(expression.line, message);
                    self.errors.push(error);
                }
                for expression in invoke.expressions() {
                    self.infer(expression);
                }
                Type::Any
            }
        }
    }

    fn infer_call(&mut self, function: Function, argument: &Expression) -> Type {
        let kind = self.infer(argument);
        match function {
            Function::Secret | Function::Unsecret => kind,
            Function::ToJson => Type::String,
            Function::Join => {
                self.expect(function, argument, 0, &Type::String);
                Type::String
            }
            Function::Split => {
                self.expect(function, argument, 0, &Type::String);
                self.expect(function, argument, 1, &Type::String);
                Type::List(Box::new(Type::String))
            }
            Function::Select => {
                self.expect(function, argument, 0, &Type::Integer);
                let any = Type::List(Box::new(Type::Any));
                match self.expect(function, argument, 1, &any) {
                    Type::List(element) => *element,
                    _ => Type::Any,
                }
            }
            Function::FileAsset | Function::RemoteAsset | Function::StringAsset => Type::Asset,
            Function::AssetArchive | Function::FileArchive | Function::RemoteArchive => {
                Type::Archive
            }
            _ => Type::Any,
        }
    }

    /// Reports an argument of a two-valued list that does not have this type.
    fn expect(
        &mut self,
        function: Function,
        argument: &Expression,
        index: usize,
        expected: &Type,
    ) -> Type {
        let ExpressionKind::List(values) = &argument.kind else {
            return Type::Any;
        };
        let Some(value) = values.get(index) else {
            return Type::Any;
        };
        // errors inside of it were reported with the whole argument
        let reported = self.errors.len();
        let kind = self.infer(value);
        self.errors.truncate(reported);
        if !kind.fits(expected) {
            let message = format!("{} needs a {expected} here, not a {kind}", function.name());
            self.errors.push(Diagnostic::error(value.line, message));
        }
        kind
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

    fn infer_access(&mut self, access: &Access, line: Position) -> Type {
        let mut kind = self
            .names
            .get(access.root.as_str())
            .cloned()
            .unwrap_or(Type::Any);
        let mut path = access.root.clone();
        for step in &access.steps {
            match kind.enter(step, &path) {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{order, parse, syntax};

    fn stash(token: &str) -> Result<ResourceType, String> {
        if token != "pulumi:index:Stash" {
            return Err(format!("type {token:?} needs a provider plugin"));
        }
        Ok(ResourceType {
            inputs: Some(vec!["input"]),
            required: vec!["input"],
            outputs: Some(vec!["input", "output"]),
            ..ResourceType::default()
        })
    }

    fn errors(text: &str) -> Vec<String> {
        let program = parse::parse(&syntax::parse(text).unwrap(), &[]).unwrap();
        let object = ConfigValue {
            kind: Type::Map(Box::new(Type::Any)),
            text: None,
        };
        let config = BTreeMap::from([("o".to_owned(), object)]);
        let parts = order::order(&program, &BTreeSet::from(["o".to_owned()]), &|_| false).unwrap();
        let context = CheckContext {
            config: &config,
            project: "demo",
            types: &ResourceTypes::of(&program, &stash),
            function: &|token| Err(format!("no function {token}")),
        };
        check(&program, &parts, context)
            .into_iter()
            .map(|error| error.message)
            .collect()
    }

    #[test]
    fn check_invalid_program_reports_one_error() {
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
                "resources: {a: {type: 'pulumi:index:Stash', properties: {}}}".to_owned(),
                "missing required property \"input\"",
            ),
            (
                "variables: {v: {}}\nresources: {a: {type: 'pulumi:index:Stash', properties: '${v}'}}"
                    .to_owned(),
                "missing required property \"input\"",
            ),
            (
                "outputs: {q: {'fn::aws:getRegion': {}}}".to_owned(),
                "no function aws:getRegion",
            ),
            (
                "outputs: {q: '${o[0]}'}".to_owned(),
                "cannot index via number into o",
            ),
            (
                "variables: {l: [{a: 1}, {b: 2}]}\noutputs: {q: '${l[0].a}'}".to_owned(),
                "\"a\" does not exist on l[0]",
            ),
            (
                "outputs: {q: {'fn::select': [x, [1]]}}".to_owned(),
                "fn::select needs a integer here, not a string",
            ),
            (
                "outputs: {q: {'fn::split': [',', [1]]}}".to_owned(),
                "fn::split needs a string here",
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
    fn check_valid_program_reports_nothing() {
        for text in [
            "variables: {m: {k: [{x: 1}]}}\noutputs: {q: '${m.k[0].x}'}",
            "resources: {a: {type: 'pulumi:index:Stash', properties: {input: 1}}}\noutputs: {q: '${a.output.deep[0]}', i: '${a.id}'}",
            "outputs: {s: '${pulumi.stack}'}",
            "outputs: {s: '${o.a.b[0]}', t: '${demo:o.a}'}",
            "resources: {a: {type: 'pulumi:Stash', properties: '${o}'}}",
            "variables: {l: [{a: 1}, {a: x}]}\noutputs: {q: '${l[1].a}'}",
            // left to the provider
            "resources: {a: {type: 'pulumi:index:Stash'}}",
        ] {
            assert!(errors(text).is_empty(), "{text}");
        }
    }
}
