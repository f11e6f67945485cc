//! What is wrong with a program, as far as its text alone shows it. Pure.
//!
//! # Guarantees
//! A *problem* is what Pulumi refuses, whatever the stack's config and the providers' schemas are. What it may take
//! is a *remark* at most: a name that is not declared can come from the stack's config, a field that is not known
//! here can be one of a newer Pulumi.
//!
//! Whatever the program, what is found is bounded in number and length, and the check takes time and memory in
//! proportion to the program's size at most.
//!
//! # Caveats
//! Components are Pulumi's to judge: their bodies are not looked into.

mod cycles;
mod expression;
mod finding;
#[cfg(test)]
mod hostile_programs;
mod interpolation;
mod names;
mod path;
mod recorder;
mod resource;
#[cfg(test)]
mod tests;

use pko_api::pulumi::v1::ProgramBody;

use expression::Walk;
pub use finding::{Finding, Findings, summary};
use names::Names;
use path::Path;
use recorder::FindingRecorder;

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
    let mut recorder = FindingRecorder::default();
    let names = Names::of(project, program, &mut recorder);
    fields(program, &mut recorder);
    config(program, &mut recorder);
    declarations(program, &names, &mut recorder);
    recorder.into_findings()
}

/// Resources, variables and outputs, and whether they need each other in a circle.
fn declarations(program: &ProgramBody, names: &Names<'_>, recorder: &mut FindingRecorder) {
    let root = Path::root();
    let mut graph = cycles::Graph::default();
    let resources = root.key("resources");
    for (name, resource) in &program.resources {
        let references = resource::check(resource, &resources.key(name), names, recorder);
        graph.add("resources", name, references);
    }
    let variables = root.key("variables");
    for (name, value) in &program.variables {
        let mut walk = Walk::new(recorder, Some(names));
        walk.value(value, &variables.key(name));
        graph.add("variables", name, walk.into_references());
    }
    let outputs = root.key("outputs");
    for (name, value) in &program.outputs {
        Walk::new(recorder, Some(names)).value(value, &outputs.key(name));
    }
    graph.find_cycles(recorder);
}

fn fields(program: &ProgramBody, recorder: &mut FindingRecorder) {
    let unknown = program.unknown.keys().map(String::as_str);
    for field in unknown.filter(|field| !PROJECT_FIELDS.contains(field)) {
        if recorder.has_room_for_remarks() {
            let text = format!(
                "Pulumi knows no such field and does nothing with it{}",
                recorder.did_you_mean(field, PROGRAM_FIELDS)
            );
            recorder.remark(&Path::root().key(field), text);
        }
    }
}

/// Defaults and values of config are expressions, too; what they may be depends on their types, which Pulumi knows.
fn config(program: &ProgramBody, recorder: &mut FindingRecorder) {
    let root = Path::root();
    let mut walk = Walk::new(recorder, None);
    let config = root.key("config");
    for (name, value) in &program.config {
        walk.value(value, &config.key(name));
    }
    let configuration = root.key("configuration");
    for (name, parameter) in &program.configuration {
        let path = configuration.key(name);
        for (field, value) in [("default", &parameter.default), ("value", &parameter.value)] {
            if let Some(value) = value {
                walk.value(value, &path.key(field));
            }
        }
    }
}
