//! Stacks made from the schema, each with something that it can't have. Few get as far as a
//! workspace: that is a process each.

use k8s_openapi::Resource as _;
use pko_api::Stack;
use serde_json::{Map, Value, json};

use super::schema::{self, Dice};

/// Addresses without a server. All are on this machine.
const REPOSITORIES: [&str; 12] = [
    "http://127.0.0.1:1/repo.git",
    "http://localhost:1/group/sub/repo",
    "http://[::1]:1/repo.git",
    "https://127.0.0.1:1/repo.git",
    "ssh://git@127.0.0.1:1/repo.git",
    "git@127.0.0.1:repo.git",
    "ftp://127.0.0.1/repo.git",
    "file:///nonexistent",
    "http://user:secret@127.0.0.1:1/repo.git",
    "127.0.0.1",
    "http://",
    "://",
];
/// The sources that a template can name.
const TEMPLATE_SOURCES: [&str; 4] = ["git", "flux", "local", "projectInfo"];
/// Of so many Stacks in a row each comes after the next, and the last after the first.
const CIRCLE: usize = 5;
/// One of so many gets as far as a workspace.
const WITH_WORKSPACE: usize = 100;

/// Makes Stacks, each by its number.
pub(super) struct Generator {
    spec: Value,
}

impl Generator {
    /// From the schema of the CRD that is installed.
    pub(super) fn new() -> Self {
        let definitions = pko_api::crd::all();
        let is_stack = |definition: &&Value| definition["spec"]["names"]["kind"] == Stack::KIND;
        let definition = definitions.iter().find(is_stack).unwrap();
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let version = versions
            .iter()
            .find(|version| version["name"] == "v1")
            .unwrap();
        let schema = &version["schema"]["openAPIV3Schema"];
        Self {
            spec: schema["properties"]["spec"].clone(),
        }
    }

    /// The Stack of this number.
    pub(super) fn stack(&self, number: usize) -> Value {
        let mut dice = Dice::new(u64::try_from(number).unwrap());
        let spec = schema::value(&self.spec, &mut dice, 0);
        let mut spec = spec.as_object().cloned().unwrap();
        remove_sources(&mut spec);
        spec.extend(spoiled(number, &mut dice));
        json!({
            "apiVersion": Stack::API_VERSION, "kind": Stack::KIND,
            "metadata": { "name": name(number) }, "spec": spec,
        })
    }
}

/// Whether the Stack of this name is one of those that never get as far as a workspace.
pub(super) fn stays_wrong(name: &str) -> bool {
    let number = name
        .strip_prefix("bad-")
        .map(|rest| rest.trim_end_matches('x'));
    let number = number.map(|number| number.parse::<usize>().unwrap());
    number.is_some_and(|number| !gets_a_workspace(number))
}

fn gets_a_workspace(number: usize) -> bool {
    number % WITH_WORKSPACE == 9
}

/// Some names are as long as a name may be.
fn name(number: usize) -> String {
    let name = format!("bad-{number}");
    let length = if number.is_multiple_of(7) { 42 } else { 0 };
    format!("{name:x<length$}")
}

/// What would be fetched from anywhere.
fn remove_sources(spec: &mut Map<String, Value>) {
    for field in ["projectRepo", "fluxSource", "programRef", "prerequisites"] {
        spec.remove(field);
    }
    let template = spec.get_mut("workspaceTemplate");
    let template = template.and_then(|template| template.get_mut("spec"));
    if let Some(template) = template.and_then(Value::as_object_mut) {
        template.retain(|field, _| !TEMPLATE_SOURCES.contains(&field.as_str()));
    }
}

/// What is wrong with it, besides what the schema came up with.
fn spoiled(number: usize, dice: &mut Dice) -> Map<String, Value> {
    let program = |name: &str| json!({ "name": name });
    let repository = || REPOSITORIES[number % REPOSITORIES.len()];
    let flux = |dice: &mut Dice| {
        let versions = ["source.toolkit.fluxcd.io/v1", "nobody.example/v1", "", "v1"];
        let reference = json!({
            "apiVersion": dice.of(&versions), "kind": dice.text(), "name": dice.text(),
        });
        json!({ "sourceRef": reference, "dir": dice.text() })
    };
    let fields = match number % 10 {
        // No source.
        0 => json!({}),
        1 | 2 => json!({ "projectRepo": repository(), "branch": dice.text(), "commit": "" }),
        3 => json!({ "fluxSource": flux(dice) }),
        4 => json!({ "programRef": program(&dice.text()) }),
        5 => {
            json!({ "programRef": program("good"), "projectRepo": repository(), "fluxSource": flux(dice) })
        }
        6 => json!({ "programRef": program("good"), "prerequisites": in_a_circle(number) }),
        7 => json!({ "programRef": program("good"), "prerequisites": [{
            "name": dice.text(), "requirement": { "succeededWithinDuration": dice.text() },
        }] }),
        8 => {
            let missing = json!({ "type": "Secret", "secret": { "name": "nobody", "key": "k" } });
            json!({ "programRef": program("good"), "envRefs": { "MISSING": missing }, "secretsRef": null })
        }
        _ if gets_a_workspace(number) => json!({ "programRef": program("good") }),
        _ => json!({ "programRef": program("nobody"), "gitAuth": {
            "accessToken": { "type": dice.text() }, "sshAuth": { "sshPrivateKey": { "type": dice.text() } },
        } }),
    };
    let fields = fields.as_object().cloned().unwrap();
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .collect()
}

/// The next one of its circle: these have the last digit in common.
fn in_a_circle(number: usize) -> Value {
    let (tens, digit) = (number / 10, number % 10);
    let start = tens - tens % CIRCLE;
    let next = start + (tens + 1) % CIRCLE;
    json!([{ "name": name(next * 10 + digit) }])
}
