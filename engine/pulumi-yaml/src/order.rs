//! The order in which the parts of a program are evaluated.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Diagnostic, Program, ResourceDeclaration, Variable, expression::Expression, syntax::Position,
};

/// The built-in variable with stack, project and organization.
pub const PULUMI: &str = "pulumi";

/// A part of a program.
#[derive(Debug, Clone, Copy)]
pub enum ProgramPart<'a> {
    /// `pulumi.requiredVersion`.
    RequiredVersion(&'a Expression),
    /// A named value.
    Variable(&'a Variable),
    /// A resource.
    Resource(&'a ResourceDeclaration),
}

impl<'a> ProgramPart<'a> {
    fn name(self) -> &'a str {
        match self {
            Self::RequiredVersion(_) => PULUMI,
            Self::Variable(variable) => &variable.name,
            Self::Resource(resource) => &resource.key,
        }
    }

    fn line(self) -> Position {
        match self {
            Self::RequiredVersion(expression) => expression.line,
            Self::Variable(variable) => variable.line,
            Self::Resource(resource) => resource.line,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::RequiredVersion(_) => PULUMI,
            Self::Variable(_) => "variable",
            Self::Resource(_) => "resource",
        }
    }

    /// Its expressions, in source order.
    fn expressions(self) -> Vec<&'a Expression> {
        match self {
            Self::RequiredVersion(expression) => vec![expression],
            Self::Variable(variable) => vec![&variable.value],
            Self::Resource(resource) => {
                let get = resource.get.iter().flat_map(|get| {
                    std::iter::once(&get.id).chain(get.state.iter().map(|entry| &entry.value))
                });
                let inputs = resource.properties.expressions().into_iter();
                inputs
                    .chain(resource.options.expressions())
                    .chain(get)
                    .collect()
            }
        }
    }
}

/// Sorts the parts topologically: each comes after everything it refers to.
///
/// `known` are the config values, which need no evaluation. `given` are those that the stack or the
/// project sets. Outputs come last, and are not checked here.
pub fn order<'a>(
    program: &'a Program,
    known: &BTreeSet<String>,
    given: &dyn Fn(&str) -> bool,
) -> Result<Vec<ProgramPart<'a>>, Vec<Diagnostic>> {
    let mut sorter = Sorter::new(known);
    let parts: Vec<_> = program
        .resources
        .iter()
        .map(ProgramPart::Resource)
        .chain(program.variables.iter().map(ProgramPart::Variable))
        .collect();
    sorter.declare_config(program);
    for part in &parts {
        sorter.declare(*part, given);
    }
    if sorter.errors.is_empty() {
        let settings = program
            .required_version
            .iter()
            .map(ProgramPart::RequiredVersion);
        for part in settings.chain(parts) {
            if !sorter.visit(part) {
                break;
            }
        }
    }
    if sorter.errors.is_empty() {
        Ok(sorter.sorted)
    } else {
        Err(sorter.errors)
    }
}

/// The indices of the parts that each part of a sorted program depends on.
#[must_use]
pub fn needs(parts: &[ProgramPart<'_>]) -> Vec<Vec<usize>> {
    let settings = |part: &ProgramPart<'_>| matches!(part, ProgramPart::RequiredVersion(_));
    let required = parts.iter().position(settings);
    let others = parts.iter().zip(0..).filter(|(part, _)| !settings(part));
    let names: BTreeMap<_, _> = others.map(|(part, number)| (part.name(), number)).collect();
    let needs = parts.iter().zip(0..).map(|(part, number)| {
        let mut roots: BTreeSet<usize> = required
            .filter(|first| *first < number)
            .into_iter()
            .collect();
        for expression in part.expressions() {
            expression.each_access(&mut |access, _| {
                roots.extend(names.get(access.root.as_str()).copied());
            });
        }
        roots.into_iter().collect()
    });
    needs.collect()
}

/// The error for an undefined name.
pub fn undefined_name_message<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    format!(
        "resource, variable, or config value {name:?} not found{}",
        crate::text::did_you_mean(name, known.chain([PULUMI]))
    )
}

struct Sorter<'a, 'k> {
    known: &'k BTreeSet<String>,
    /// Config values that the program declares.
    config: BTreeSet<&'a str>,
    parts: BTreeMap<&'a str, ProgramPart<'a>>,
    visiting: BTreeSet<&'a str>,
    visited: BTreeSet<&'a str>,
    sorted: Vec<ProgramPart<'a>>,
    errors: Vec<Diagnostic>,
}

impl<'a, 'k> Sorter<'a, 'k> {
    fn new(known: &'k BTreeSet<String>) -> Self {
        Self {
            known,
            config: BTreeSet::new(),
            parts: BTreeMap::new(),
            visiting: BTreeSet::new(),
            visited: BTreeSet::new(),
            sorted: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn declare_config(&mut self, program: &'a Program) {
        for declaration in &program.config {
            self.config.insert(&declaration.key);
            if declaration.key == PULUMI {
                let message = "config pulumi uses the reserved name pulumi";
                self.errors
                    .push(Diagnostic::error(declaration.line, message));
            }
        }
    }

    fn declare(&mut self, part: ProgramPart<'a>, given: &dyn Fn(&str) -> bool) {
        let (name, kind) = (part.name(), part.kind());
        // as in Pulumi's language host, a value that the stack sets hides a variable
        let has_value = matches!(part, ProgramPart::Variable(_)) && given(name);
        let taken = if name == PULUMI {
            Some(format!("{kind} {name} uses the reserved name pulumi"))
        } else if self.config.contains(name) && !has_value {
            Some(format!(
                "{kind} {name} cannot have the same name as config {name}"
            ))
        } else {
            self.parts.insert(name, part).map(|other| {
                format!(
                    "{kind} {name} cannot have the same name as {} {name}",
                    other.kind()
                )
            })
        };
        if let Some(message) = taken {
            self.errors.push(Diagnostic::error(part.line(), message));
        }
    }

    fn require(&mut self, name: &str, line: Position) {
        if name != PULUMI && !self.known.contains(name) && !self.parts.contains_key(name) {
            let known = self.known.iter().map(String::as_str);
            let message = undefined_name_message(name, known.chain(self.parts.keys().copied()));
            let error = Diagnostic::error(line, message);
            if !self.errors.contains(&error) {
                self.errors.push(error);
            }
        }
    }

    /// Visits depth first. Returns false once it finds a cycle.
    fn visit(&mut self, part: ProgramPart<'a>) -> bool {
        let name = part.name();
        if self.visited.contains(name) {
            return true;
        }
        if !self.visiting.insert(name) {
            let message = format!(
                "circular dependency of {} '{name}' transitively on itself",
                part.kind()
            );
            self.errors.push(Diagnostic::error(part.line(), message));
            return false;
        }
        let mut roots = Vec::new();
        for expression in part.expressions() {
            expression.each_access(&mut |access, line| roots.push((access.root.as_str(), line)));
        }
        for (root, line) in roots {
            self.require(root, line);
            if let Some(next) = self.parts.get(root).copied()
                && !self.visit(next)
            {
                return false;
            }
        }
        self.visited.insert(name);
        self.sorted.push(part);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, syntax};

    fn ordered(text: &str, known: &[&str]) -> String {
        let program = parse::parse(&syntax::parse(text).unwrap(), &[]).unwrap();
        let known = known.iter().map(ToString::to_string).collect();
        match order(&program, &known, &|name| name == "given") {
            Ok(parts) => parts
                .iter()
                .map(|part| part.name())
                .collect::<Vec<_>>()
                .join(" "),
            Err(errors) => errors
                .iter()
                .map(|error| error.message.clone())
                .collect::<Vec<_>>()
                .join("; "),
        }
    }

    #[test]
    fn order_puts_parts_after_their_references() {
        for (text, expected) in [
            ("variables: {c: '${b}!', a: one, b: '${a}'}", "a b c"),
            (
                "resources: {x: {type: t, properties: {i: '${v}'}}}\nvariables: {v: 1}",
                "v x",
            ),
            (
                "resources: {x: {type: t, options: {dependsOn: ['${y}']}}, y: {type: t}}",
                "y x",
            ),
            (
                "variables: {a: '${known.deep}', b: '${pulumi.stack}'}",
                "a b",
            ),
            (
                "config: {given: {type: string}}\nvariables: {given: 1}",
                "given",
            ),
        ] {
            assert_eq!(ordered(text, &["known"]), expected, "{text}");
        }
    }

    #[test]
    fn order_rejects_cycles_and_name_clashes() {
        for (text, expected) in [
            (
                "variables: {a: '${b}', b: '${a}'}",
                "circular dependency of variable 'a' transitively on itself",
            ),
            (
                "variables: {x: '${nothing}'}",
                "resource, variable, or config value \"nothing\" not found",
            ),
            (
                "variables: {pulumi: 1}",
                "variable pulumi uses the reserved name pulumi",
            ),
            (
                "config: {known: {type: string}}\nvariables: {known: 1}",
                "variable known cannot have the same name as config known",
            ),
            (
                "config: {given: {type: string}}\nresources: {given: {type: t}}",
                "resource given cannot have the same name as config given",
            ),
            (
                "variables: {a: 1}\nresources: {a: {type: t}}",
                "variable a cannot have the same name as resource a",
            ),
        ] {
            assert_eq!(ordered(text, &["known"]), expected, "{text}");
        }
    }
}
