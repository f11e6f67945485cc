//! What is wrong with a program, as far as its text alone shows it. Pure.
//!
//! # Guarantees
//! A *problem* is what Pulumi refuses, whatever the stack's config and the providers' schemas are. What it may take
//! is a *remark* at most: a name that is not declared can come from the stack's config, a field that is not known
//! here can be one of a newer Pulumi.
//!
//! # Caveats
//! Components are Pulumi's to judge: their bodies are not looked into.

mod cycles;
mod expression;
mod finding;
mod interpolation;
mod names;
mod resource;
#[cfg(test)]
mod tests;

use pko_api::pulumi::v1::ProgramBody;

use expression::Walk;
use finding::Path;
pub use finding::{Finding, Findings, summary};
use names::Names;

/// Top-level fields that a project file has besides those of a Program: Pulumi takes them.
const PROJECT_FIELDS: [&str; 12] = [
    "author",
    "backend",
    "license",
    "main",
    "name",
    "namespace",
    "options",
    "plugins",
    "runtime",
    "stackConfigDir",
    "template",
    "version",
];
/// The top-level fields of a Program.
const PROGRAM_FIELDS: [&str; 9] = [
    "components",
    "config",
    "configuration",
    "description",
    "outputs",
    "packages",
    "pulumi",
    "resources",
    "variables",
];

/// Looks for what is wrong or strange.
#[must_use]
pub fn check(project: &str, program: &ProgramBody) -> Findings {
    let mut findings = Findings::default();
    let names = Names::of(project, program, &mut findings);
    fields(program, &mut findings);
    config(program, &mut findings);
    let mut graph = cycles::Graph::default();
    for (name, resource) in &program.resources {
        let path = Path::root().key("resources").key(name);
        let references = resource::check(resource, &path, &names, &mut findings);
        graph.add(name, path, references);
    }
    for (name, value) in &program.variables {
        let path = Path::root().key("variables").key(name);
        let mut walk = Walk::new(&mut findings);
        walk.value(value, &path);
        let references = names.judge(walk);
        graph.add(name, path, references);
    }
    for (name, value) in &program.outputs {
        let mut walk = Walk::new(&mut findings);
        walk.value(value, &Path::root().key("outputs").key(name));
        names.judge(walk);
    }
    graph.find_cycles(&mut findings);
    findings
}

fn fields(program: &ProgramBody, findings: &mut Findings) {
    let unknown = program.unknown.keys().map(String::as_str);
    for field in unknown.filter(|field| !PROJECT_FIELDS.contains(field)) {
        let text = format!(
            "Pulumi knows no such field and does nothing with it{}",
            finding::did_you_mean(field, PROGRAM_FIELDS)
        );
        findings.remark(&Path::root().key(field), text);
    }
}

/// Defaults and values of config are expressions, too; what they may be depends on their types, which Pulumi knows.
fn config(program: &ProgramBody, findings: &mut Findings) {
    let mut walk = Walk::new(findings);
    for (name, value) in &program.config {
        walk.value(value, &Path::root().key("config").key(name));
    }
    for (name, parameter) in &program.configuration {
        let path = Path::root().key("configuration").key(name);
        for (field, value) in [("default", &parameter.default), ("value", &parameter.value)] {
            if let Some(value) = value {
                walk.value(value, &path.key(field));
            }
        }
    }
}
