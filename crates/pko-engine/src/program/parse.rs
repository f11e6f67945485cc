//! The parts of a program file. Pure.

use super::{
    Diagnostic, Program, ResourceDeclaration, ResourceOptions, Variable, expression::Expression,
};
use crate::{
    syntax::{Node, NodeValue},
    text,
};
use jiff::SignedDuration;

/// Top-level keys whose meaning needs what this engine does not have.
const REFUSED_SECTIONS: [&str; 5] = ["components", "configuration", "packages", "plugins", "sdks"];
/// Options of Pulumi YAML that this engine does not have.
const REFUSED_OPTIONS: [&str; 7] = [
    "envVarMappings",
    "import",
    "pluginDownloadURL",
    "provider",
    "providers",
    "replacementTrigger",
    "version",
];

/// Options that this engine has.
const OPTIONS: [&str; 13] = [
    "additionalSecretOutputs",
    "aliases",
    "customTimeouts",
    "deleteBeforeReplace",
    "deletedWith",
    "dependsOn",
    "hideDiffs",
    "ignoreChanges",
    "parent",
    "protect",
    "replaceOnChanges",
    "replaceWith",
    "retainOnDelete",
];
/// Fields of a resource.
const FIELDS: [&str; 4] = ["name", "options", "properties", "type"];

/// Reads a program file. `Err` holds what keeps it from being a program at all.
pub fn parse(root: &Node) -> Result<Program, Vec<Diagnostic>> {
    let mut reader = Reader::default();
    let Some(entries) = root.entries() else {
        return Err(vec![Diagnostic::error(
            root.line,
            "a program must be a map",
        )]);
    };
    let mut program = Program::default();
    for (key, value) in entries {
        match key.as_str().unwrap_or_default() {
            "variables" => program.variables = reader.variables("variables", value),
            "outputs" => program.outputs = reader.variables("outputs", value),
            "resources" => program.resources = reader.resources(value),
            "pulumi" => reader.refuse_settings(value),
            name if REFUSED_SECTIONS.contains(&name) && !is_empty(value) => {
                reader.syntax.push(Diagnostic::error(
                    key.line,
                    format!("section {name:?} is not supported by pulumi-engine"),
                ));
            }
            _ => {}
        }
    }
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

fn is_empty(node: &Node) -> bool {
    match &node.value {
        NodeValue::Null => true,
        NodeValue::List(values) => values.is_empty(),
        NodeValue::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

#[derive(Default)]
struct Reader {
    /// What makes the text no program: nothing of it runs.
    syntax: Vec<Diagnostic>,
    /// What is found when the program is already under way.
    semantic: Vec<Diagnostic>,
}

impl Reader {
    fn entries<'a>(&mut self, what: &str, node: &'a Node) -> &'a [(Node, Node)] {
        match &node.value {
            NodeValue::Null => &[],
            NodeValue::Object(entries) => entries,
            _ => {
                self.syntax.push(Diagnostic::error(
                    node.line,
                    format!("{what} must be a map"),
                ));
                &[]
            }
        }
    }

    fn variables(&mut self, what: &str, node: &Node) -> Vec<Variable> {
        let entries = self.entries(what, node);
        entries
            .iter()
            .map(|(key, value)| Variable {
                name: key.scalar_text(),
                value: Expression::read(value, &mut self.syntax),
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
            properties: Vec::new(),
            options: ResourceOptions::default(),
            line: key.line,
        };
        for (field, value) in self.entries("a resource", node) {
            match field.as_str().unwrap_or_default() {
                "type" => declaration.kind = self.text("type", value),
                "name" => declaration.name = self.text("name", value),
                "properties" => declaration.properties = self.variables("properties", value),
                "options" => declaration.options = self.options(value),
                refused @ ("get" | "defaultProvider") => self.syntax.push(Diagnostic::error(
                    field.line,
                    format!("{refused:?} of a resource is not supported by pulumi-engine"),
                )),
                other => self.semantic.push(Diagnostic::error(
                    field.line,
                    format!(
                        "resource {:?} has no field {other:?}{}",
                        declaration.key,
                        text::did_you_mean(other, FIELDS)
                    ),
                )),
            }
        }
        if declaration.kind.is_empty() {
            let message = format!("resource {:?} needs a type", declaration.key);
            self.syntax.push(Diagnostic::error(key.line, message));
        }
        declaration
    }

    fn options(&mut self, node: &Node) -> ResourceOptions {
        let mut options = ResourceOptions::default();
        for (field, value) in self.entries("options", node) {
            match field.as_str().unwrap_or_default() {
                "additionalSecretOutputs" => options.additional_secret_outputs = self.texts(value),
                "aliases" => options.aliases = Some(Expression::read(value, &mut self.syntax)),
                "customTimeouts" => options.custom_timeouts = self.timeouts(value),
                "deleteBeforeReplace" => options.delete_before_replace = self.flag(value),
                "hideDiffs" => options.hide_diffs = self.texts(value),
                "deletedWith" => {
                    options.deleted_with = Some(Expression::read(value, &mut self.syntax));
                }
                "dependsOn" => options.depends_on = Some(Expression::read(value, &mut self.syntax)),
                "ignoreChanges" => options.ignore_changes = self.texts(value),
                "parent" => options.parent = Some(Expression::read(value, &mut self.syntax)),
                "protect" => options.protect = Some(Expression::read(value, &mut self.syntax)),
                "replaceOnChanges" => options.replace_on_changes = self.texts(value),
                "replaceWith" => {
                    options.replace_with = Some(Expression::read(value, &mut self.syntax));
                }
                "retainOnDelete" => options.retain_on_delete = self.flag(value),
                refused if REFUSED_OPTIONS.contains(&refused) => {
                    self.syntax.push(Diagnostic::error(
                        field.line,
                        format!("resource option {refused:?} is not supported by pulumi-engine"),
                    ));
                }
                other => self.semantic.push(Diagnostic::error(
                    field.line,
                    format!(
                        "resource option {other:?} does not exist{}",
                        text::did_you_mean(other, OPTIONS)
                    ),
                )),
            }
        }
        options
    }

    fn text(&mut self, what: &str, node: &Node) -> String {
        if let Some(text) = node.as_str() {
            return text.to_owned();
        }
        self.syntax.push(Diagnostic::error(
            node.line,
            format!("{what} must be a string"),
        ));
        String::new()
    }

    fn texts(&mut self, node: &Node) -> Vec<String> {
        if let NodeValue::List(values) = &node.value {
            return values
                .iter()
                .map(|value| self.text("a list element", value))
                .collect();
        }
        self.syntax.push(Diagnostic::error(
            node.line,
            "a list of strings is needed here",
        ));
        Vec::new()
    }

    fn flag(&mut self, node: &Node) -> bool {
        if let NodeValue::Bool(value) = node.value {
            return value;
        }
        self.syntax
            .push(Diagnostic::error(node.line, "true or false is needed here"));
        false
    }

    /// How long an operation may take, by its name, in seconds.
    fn timeouts(&mut self, node: &Node) -> Vec<(String, f64)> {
        let mut timeouts = Vec::new();
        for (key, value) in self.entries("customTimeouts", node) {
            let name = key.scalar_text();
            let known = ["create", "update", "delete", "read"].contains(&name.as_str());
            let duration = value
                .as_str()
                .and_then(|text| text.parse::<SignedDuration>().ok());
            match duration {
                Some(duration) if known => timeouts.push((name, duration.as_secs_f64())),
                _ => self.syntax.push(Diagnostic::error(
                    key.line,
                    format!(
                        "{name:?} of customTimeouts is not understood: write create, update, delete or read, and a duration such as \"10m\""
                    ),
                )),
            }
        }
        timeouts
    }

    fn refuse_settings(&mut self, node: &Node) {
        for (key, _) in self.entries("pulumi", node) {
            let name = key.scalar_text();
            let message = format!("setting \"pulumi.{name}\" is not supported by pulumi-engine");
            self.syntax.push(Diagnostic::error(key.line, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    fn complaints(text: &str) -> Vec<String> {
        match parse(&syntax::parse(text).unwrap()) {
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
    fn what_is_not_supported_is_refused_by_name() {
        for (text, expected) in [
            (
                "resources: {a: {type: t, options: {import: x}}}",
                "load 1: resource option \"import\" is not supported by pulumi-engine",
            ),
            (
                "resources:\n  a:\n    type: t\n    get: {id: x}",
                "load 4: \"get\" of a resource is not supported by pulumi-engine",
            ),
            (
                "components: {a: 1}",
                "load 1: section \"components\" is not supported by pulumi-engine",
            ),
            (
                "pulumi: {requiredVersion: '>1'}",
                "load 1: setting \"pulumi.requiredVersion\" is not supported by pulumi-engine",
            ),
            (
                "outputs: {x: {'fn::invoke': {}}}",
                "load 1: function \"fn::invoke\" is not supported by pulumi-engine; use an image with Pulumi's CLI",
            ),
            (
                "outputs: {x: {'fn::fileArchive': y}}",
                "load 1: function \"fn::fileArchive\" is not supported by pulumi-engine; use an image with Pulumi's CLI",
            ),
            (
                "outputs: {x: {'fn::aws:ec2:getAmi': {}}}",
                "load 1: function \"fn::aws:ec2:getAmi\" is not supported by pulumi-engine; use an image with Pulumi's CLI",
            ),
        ] {
            assert_eq!(complaints(text), [expected], "{text}");
        }
    }

    #[test]
    fn what_does_not_exist_is_told_apart() {
        assert_eq!(
            complaints("resources: {a: {type: t, options: {nosuch: 1}}}"),
            ["run: resource option \"nosuch\" does not exist"]
        );
        assert_eq!(
            complaints("resources: {a: {type: t, options: {dependOn: 1}}}"),
            ["run: resource option \"dependOn\" does not exist; did you mean \"dependsOn\"?"]
        );
        assert_eq!(
            complaints("resources: {a: {type: t, propertes: {}}}"),
            ["run: resource \"a\" has no field \"propertes\"; did you mean \"properties\"?"]
        );
        assert!(
            complaints("resources: {a: {type: t, options: {customTimeouts: {create: soon}}}}")[0]
                .contains("customTimeouts is not understood")
        );
        assert_eq!(
            complaints("outputs: {x: '${'}"),
            ["load 1: unterminated interpolation"]
        );
        assert_eq!(
            complaints("variables: [1]"),
            ["load 1: variables must be a map"]
        );
        assert_eq!(
            complaints("resources: {a: {}}"),
            ["load 1: resource \"a\" needs a type"]
        );
        assert!(complaints("outputs: {x: {'fn::nosuch': 1}}")[0].contains("fn::nosuch"));
        assert!(complaints("name: demo\nruntime: yaml").is_empty());
    }
}
