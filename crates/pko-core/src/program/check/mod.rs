//! Checks a program without running it. Pure.
//!
//! # Guarantees
//! - Pulumi rejects every *problem*, with any config and any provider schema. If Pulumi may accept
//!   it, it is only a *remark*: the stack's config can contain an undeclared name, and a newer
//!   Pulumi can have an unknown field.
//! - The findings are bounded in number and length. Time and memory are at most proportional to the
//!   size of the program.
//!
//! # Caveats
//! The bodies of components are not checked.

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

/// Further top-level fields of a project file, which Pulumi accepts.
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

/// Checks a program.
#[must_use]
pub fn check(project: &str, program: &ProgramBody) -> Findings {
    let mut recorder = FindingRecorder::default();
    let names = Names::of(project, program, &mut recorder);
    fields(program, &mut recorder);
    config(program, &mut recorder);
    declarations(program, &names, &mut recorder);
    recorder.into_findings()
}

/// Checks resources, variables, outputs, and cycles between them.
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
                "unknown field; Pulumi ignores it{}",
                recorder.did_you_mean(field, PROGRAM_FIELDS)
            );
            recorder.remark(&Path::root().key(field), text);
        }
    }
}

/// Defaults and values of config are expressions. Pulumi checks their types.
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
