//! Parses the sections of a program.

use crate::{
    Diagnostic, Get, Inputs, Program, ResourceDeclaration, Variable, config,
    expression::{Expression, ExpressionKind},
    keys::{IGNORED_RESOURCE_FIELDS, PROVIDER_TYPE_PREFIX, RESOURCE_FIELDS, SECTIONS},
    syntax::{Node, NodeValue},
    text,
};

/// Parses a program that may use the resource types of `packages`.
///
/// `Err` holds the syntax errors. Semantic errors are in [`Program::errors`]: Pulumi reports them
/// once the stack is registered.
pub fn parse(root: &Node, packages: &[&str]) -> Result<Program, Vec<Diagnostic>> {
    let mut reader = Reader::default();
    let Some(entries) = root.entries() else {
        return Err(vec![Diagnostic::error(
            root.line,
            "a program must be a map",
        )]);
    };
    let mut program = Program::default();
    for (key, value) in entries {
        reader.section(&mut program, key, value, packages);
    }
    default_providers(&mut program, &mut reader.semantic);
    let (errors, warnings): (Vec<_>, Vec<_>) =
        reader.syntax.into_iter().partition(Diagnostic::is_error);
    if errors.is_empty() {
        program.warnings = warnings;
        program.errors = reader.semantic;
        Ok(program)
    } else {
        Err(errors)
    }
}

/// Sets the default provider of each package as an option of its resources.
fn default_providers(program: &mut Program, diagnostics: &mut Vec<Diagnostic>) {
    let mut providers = Vec::new();
    for resource in program
        .resources
        .iter()
        .filter(|resource| resource.default_provider)
    {
        match resource.kind.strip_prefix(PROVIDER_TYPE_PREFIX) {
            Some(package) => providers.push((package.to_owned(), resource.key.clone())),
            None => diagnostics.push(Diagnostic::error(
                resource.line,
                format!(
                    "resource {:?}: cannot set defaultProvider on non-provider resource",
                    resource.key
                ),
            )),
        }
    }
    let others = program.resources.iter_mut();
    for resource in others.filter(|resource| !resource.kind.starts_with(PROVIDER_TYPE_PREFIX)) {
        let package = resource.kind.split(':').next().unwrap_or_default();
        let default = providers.iter().find(|(name, _)| name == package);
        if let (Some((_, key)), None) = (default, &resource.options.provider) {
            resource.options.provider = Some(Expression::reference(key, resource.line));
        }
    }
}

fn is_empty(node: &Node) -> bool {
    match &node.value {
        NodeValue::Null => true,
        NodeValue::List(values) => values.is_empty(),
        NodeValue::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

/// Parses nodes and collects errors.
#[derive(Default)]
pub(super) struct Reader {
    /// Syntax errors and warnings: with an error nothing runs.
    pub(super) syntax: Vec<Diagnostic>,
    /// Errors that Pulumi reports after the run has begun.
    pub(super) semantic: Vec<Diagnostic>,
}

impl Reader {
    fn section(&mut self, program: &mut Program, key: &Node, value: &Node, packages: &[&str]) {
        let name = key.as_str().unwrap_or_default();
        match self.known_key(key, &SECTIONS).unwrap_or(name) {
            "variables" => program.variables = self.variables("variables", value),
            "outputs" => program.outputs = self.variables("outputs", value),
            "resources" => program.resources = self.resources(value),
            "config" => {
                let declared = config::read(self, "config", value);
                program.config.splice(..0, declared);
            }
            "configuration" => {
                let message =
                    "root-level `configuration` field is deprecated; please use `config` instead";
                self.syntax.push(Diagnostic::warning(key.line, message));
                let declared = config::read(self, "configuration", value);
                program.config.extend(declared);
            }
            "pulumi" => program.required_version = self.settings(value),
            "components" if !is_empty(value) => self.syntax.push(Diagnostic::error(
                key.line,
                "components are only supported in plugins, not in programs",
            )),
            "namespace" => self.syntax.push(Diagnostic::error(
                key.line,
                "namespace is only supported in component plugins",
            )),
            "packages" => self.packages(value, packages),
            "plugins" | "sdks" if !is_empty(value) => self.syntax.push(Diagnostic::error(
                key.line,
                format!(
                    "section {name:?} is not supported by pulumi-engine; use an image with Pulumi's CLI"
                ),
            )),
            _ => {}
        }
    }

    /// Looks up a key, ignoring case with a warning.
    pub(super) fn known_key(&mut self, key: &Node, known: &[&'static str]) -> Option<&'static str> {
        let name = key.as_str().unwrap_or_default();
        let found = known
            .iter()
            .find(|known| known.eq_ignore_ascii_case(name))?;
        if *found != name {
            let message = format!("'{name}' looks like a miscapitalization of '{found}'");
            self.syntax.push(Diagnostic::warning(key.line, message));
        }
        Some(found)
    }

    pub(super) fn entries<'a>(&mut self, what: &str, node: &'a Node) -> &'a [(Node, Node)] {
        let entries = match &node.value {
            NodeValue::Object(entries) => entries.as_slice(),
            other => {
                let hint = match other {
                    NodeValue::Null => "; leave it out if there is nothing in it",
                    _ => "",
                };
                let message = format!("{what} must be an object{hint}");
                self.syntax.push(Diagnostic::error(node.line, message));
                &[]
            }
        };
        for (key, _) in entries.iter().filter(|(key, _)| key.as_str().is_none()) {
            let message = format!(
                "mapping keys must be strings: write {:?}",
                key.scalar_text()
            );
            self.syntax.push(Diagnostic::error(key.line, message));
        }
        entries
    }

    pub(super) fn expression(&mut self, node: &Node) -> Expression {
        Expression::read(node, &mut self.syntax)
    }

    pub(super) fn variables(&mut self, what: &str, node: &Node) -> Vec<Variable> {
        let entries = self.entries(what, node);
        entries
            .iter()
            .map(|(key, value)| Variable {
                name: key.scalar_text(),
                value: self.expression(value),
                line: key.line,
            })
            .collect()
    }

    fn resources(&mut self, node: &Node) -> Vec<ResourceDeclaration> {
        let entries = self.entries("resources", node);
        entries
            .iter()
            .map(|(key, value)| self.resource(key, value))
            .collect()
    }

    fn resource(&mut self, key: &Node, node: &Node) -> ResourceDeclaration {
        let name = key.scalar_text();
        let mut declaration = ResourceDeclaration {
            key: name.clone(),
            name,
            kind: String::new(),
            default_provider: false,
            properties: Inputs::default(),
            options: super::ResourceOptions::default(),
            get: None,
            line: key.line,
        };
        let what = format!("resource {:?}", declaration.key);
        for (field, value) in self.entries(&what, node) {
            match self.known_key(field, &RESOURCE_FIELDS) {
                Some("type") => declaration.kind = self.text("type", value),
                Some("name") => match self.text("name", value) {
                    name if name.is_empty() => {}
                    name => declaration.name = name,
                },
                Some("defaultProvider") => declaration.default_provider = self.flag(value),
                Some("properties") => declaration.properties = self.inputs(value),
                Some("options") => declaration.options = self.options(value),
                Some("get") => declaration.get = Some(self.get(value)),
                _ => self.no_field(&declaration.key, field),
            }
        }
        if declaration.kind.is_empty() {
            let message = format!("resource {:?} needs a type", declaration.key);
            self.semantic.push(Diagnostic::error(key.line, message));
        }
        if declaration.get.is_some() && !declaration.properties.is_empty() {
            let message = format!(
                "resource {:?}: Resource fields properties and get are mutually exclusive; `properties` describe a resource that is \
                 managed here, `get` one that is not",
                declaration.key
            );
            self.semantic.push(Diagnostic::error(key.line, message));
        }
        declaration
    }

    fn no_field(&mut self, resource: &str, field: &Node) {
        let name = field.as_str().unwrap_or_default();
        if IGNORED_RESOURCE_FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
            return;
        }
        self.semantic.push(Diagnostic::error(
            field.line,
            format!(
                "resource {resource:?} has no field {name:?}{}",
                text::did_you_mean(name, RESOURCE_FIELDS)
            ),
        ));
    }

    fn inputs(&mut self, node: &Node) -> Inputs {
        match &node.value {
            NodeValue::Null => Inputs::Named(Vec::new()),
            NodeValue::Object(_) => Inputs::Named(self.variables("properties", node)),
            _ => Inputs::Whole(self.expression(node)),
        }
    }

    fn get(&mut self, node: &Node) -> Get {
        let (mut id, mut state) = (None, Vec::new());
        for (field, value) in self.entries("get", node) {
            match self.known_key(field, &["id", "state"]) {
                Some("id") => id = Some(self.expression(value)),
                Some("state") => state = self.variables("state", value),
                _ => {
                    let name = field.scalar_text();
                    let near = text::did_you_mean(&name, ["id", "state"]);
                    let message = format!("\"get\" has no field {name:?}{near}");
                    self.semantic.push(Diagnostic::error(field.line, message));
                }
            }
        }
        // as with Pulumi's CLI, a missing id fails when the resource is read
        let id = id.unwrap_or_else(|| Expression::text("", node.line));
        Get { id, state }
    }

    /// A string literal.
    pub(super) fn text(&mut self, what: &str, node: &Node) -> String {
        match self.expression(node).kind {
            ExpressionKind::String(text) => return text,
            _ => self.syntax.push(Diagnostic::error(
                node.line,
                format!("{what} must be a string"),
            )),
        }
        String::new()
    }

    pub(super) fn texts(&mut self, what: &str, node: &Node) -> Vec<String> {
        if let NodeValue::List(values) = &node.value {
            return values
                .iter()
                .enumerate()
                .map(|(index, value)| self.text(&format!("{what}[{index}]"), value))
                .collect();
        }
        self.syntax.push(Diagnostic::error(
            node.line,
            format!("{what} must be a list of strings"),
        ));
        Vec::new()
    }

    pub(super) fn flag(&mut self, node: &Node) -> bool {
        if let NodeValue::Bool(value) = node.value {
            return value;
        }
        self.syntax
            .push(Diagnostic::error(node.line, "true or false is needed here"));
        false
    }

    fn settings(&mut self, node: &Node) -> Option<Expression> {
        let mut required = None;
        for (key, value) in self.entries("pulumi", node) {
            if self.known_key(key, &["requiredVersion"]).is_some() {
                required = Some(self.expression(value));
            } else {
                let name = key.scalar_text();
                let near = text::did_you_mean(&name, ["requiredVersion"]);
                let message = format!("setting \"pulumi.{name}\" does not exist{near}");
                self.syntax.push(Diagnostic::warning(key.line, message));
            }
        }
        required
    }

    /// Rejects packages that the engine does not have.
    fn packages(&mut self, node: &Node, packages: &[&str]) {
        for (key, _) in self.entries("packages", node) {
            let name = key.scalar_text();
            if !packages.contains(&name.as_str()) {
                let message = format!(
                    "package {name:?} is not supported by pulumi-engine, which has {}; use an image with Pulumi's CLI",
                    packages.join(", ")
                );
                self.syntax.push(Diagnostic::error(key.line, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    const PACKAGES: [&str; 3] = ["kubernetes", "pulumi", "random"];

    fn diagnostics(text: &str) -> Vec<String> {
        match parse(&syntax::parse(text).unwrap(), &PACKAGES) {
            Ok(program) => program
                .errors
                .into_iter()
                .chain(program.warnings)
                .map(|diagnostic| format!("run: {}", diagnostic.message))
                .collect(),
            Err(errors) => errors
                .into_iter()
                .map(|error| format!("load {}: {}", error.line.unwrap(), error.message))
                .collect(),
        }
    }

    #[test]
    fn parse_unsupported_section_names_it() {
        for (text, expected) in [
            (
                "components: {a: 1}",
                "load 1: components are only supported in plugins, not in programs",
            ),
            (
                "packages: {aws: aws@7}",
                "load 1: package \"aws\" is not supported by pulumi-engine, which has kubernetes, pulumi, random; use an image with Pulumi's CLI",
            ),
            (
                "plugins: {providers: []}",
                "load 1: section \"plugins\" is not supported by pulumi-engine; use an image with Pulumi's CLI",
            ),
        ] {
            assert_eq!(diagnostics(text), [expected], "{text}");
        }
        assert!(diagnostics("packages: {random: random@4.18.0}").is_empty());
    }

    #[test]
    fn parse_reports_all_errors_with_suggestions() {
        for (text, expected) in [
            (
                "resources: {a: {type: t, options: {nosuch: 1}}}",
                vec!["run: resource option \"nosuch\" does not exist"],
            ),
            (
                "resources: {a: {type: t, options: {dependOn: 1, protekt: true}}}",
                vec![
                    "run: resource option \"dependOn\" does not exist; did you mean \"dependsOn\"?",
                    "run: resource option \"protekt\" does not exist; did you mean \"protect\"?",
                ],
            ),
            (
                "resources: {a: {type: t, propertes: {}}}",
                vec![
                    "run: resource \"a\" has no field \"propertes\"; did you mean \"properties\"?",
                ],
            ),
            (
                "resources: {a: {type: t, get: {id: x}, properties: {b: 1}}}",
                vec![
                    "run: resource \"a\": Resource fields properties and get are mutually exclusive; `properties` describe a resource that is managed here, `get` one that is not",
                ],
            ),
            (
                "resources: {a: {type: t, options: {aliases: [{nam: x}], envVarMappings: 1, version: abc}}}",
                vec![
                    "run: an alias has no field \"nam\"; did you mean \"name\"?",
                    "run: envVarMappings must be an object with string values",
                    "run: unable to parse provider version \"abc\"",
                ],
            ),
            (
                "outputs: {x: '${', y: '${}', z: {'fn::join': [1]}}",
                vec![
                    "load 1: unterminated interpolation",
                    "load 1: an interpolation must name something",
                    "load 1: the argument to fn::join must be a two-valued list",
                ],
            ),
            (
                "variables: [1]",
                vec!["load 1: variables must be an object"],
            ),
            (
                "variables: {a: {1: x}}",
                vec!["load 1: mapping keys must be strings: write \"1\""],
            ),
            (
                "resources: {a: {}}",
                vec!["run: resource \"a\" needs a type"],
            ),
            (
                "resources: {a: {type: t, options: {ignoreChanges: ['${b}']}}}",
                vec!["load 1: ignoreChanges[0] must be a string"],
            ),
            (
                "resources: {a: {type: t, defaultProvider: true}}",
                vec!["run: resource \"a\": cannot set defaultProvider on non-provider resource"],
            ),
            (
                "outputs: {x: {'fn::fileAsset': a, b: c}}",
                vec!["load 1: fn::fileAsset must have its own object"],
            ),
            (
                "outputs: {x: {'fn::assetArchive': {a: plain}}}",
                vec!["load 1: \"a\" of fn::assetArchive must be an asset or an archive"],
            ),
        ] {
            assert_eq!(diagnostics(text), expected, "{text}");
        }
        assert!(diagnostics("outputs: {x: {'fn::nosuch': 1}}")[0].contains("fn::nosuch"));
        assert!(diagnostics("name: demo\nruntime: yaml").is_empty());
    }

    #[test]
    fn parse_wrong_case_is_accepted_with_warning() {
        for (text, expected) in [
            (
                "Outputs: {x: 1}",
                "run: 'Outputs' looks like a miscapitalization of 'outputs'",
            ),
            (
                "resources: {a: {Type: t}}",
                "run: 'Type' looks like a miscapitalization of 'type'",
            ),
            (
                "resources: {a: {type: t, options: {dependson: []}}}",
                "run: 'dependson' looks like a miscapitalization of 'dependsOn'",
            ),
            (
                "outputs: {x: {'Fn::toJson': 1}}",
                "run: 'Fn::toJson' looks like a miscapitalization of 'fn::toJSON'",
            ),
        ] {
            assert_eq!(diagnostics(text), [expected], "{text}");
        }
    }

    #[test]
    fn parse_default_provider_applies_to_its_package() {
        let text = "resources: {p: {type: 'pulumi:providers:random', defaultProvider: true}, a: {type: 'random:RandomPet'}, b: {type: 'other:X'}}";
        let program = parse(&syntax::parse(text).unwrap(), &PACKAGES).unwrap();
        let has = |index: usize| program.resources[index].options.provider.is_some();
        assert_eq!([has(0), has(1), has(2)], [false, true, false]);
    }
}
