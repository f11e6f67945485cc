//! The package as an engine uses it: check, create, diff, read, update, delete of each type.

mod changes;
mod characters;
mod checks;
mod grid;
mod imports;
mod results;
mod types;

use pulumi_engine_model::{
    property::{Properties, Property},
    urn::Urn,
};
use serde_json::{Value, json};

use super::Random;
use crate::{
    Call, ChangeRequest, CheckRequest, Checked, Created, Difference, Observed, Provider as _,
    ProviderError, ReadRequest,
};

/// All types by their short names, each with the least that it needs.
fn all() -> [(&'static str, Value); 10] {
    [
        ("RandomBytes", json!({"length": 16})),
        ("RandomId", json!({"byteLength": 8})),
        ("RandomInteger", json!({"min": 1, "max": 100})),
        ("RandomPassword", json!({"length": 16})),
        ("RandomPet", json!({})),
        ("RandomShuffle", json!({"inputs": ["a", "b", "c"]})),
        ("RandomString", json!({"length": 16})),
        ("RandomUuid", json!({})),
        ("RandomUuid4", json!({})),
        ("RandomUuid7", json!({})),
    ]
}

/// Properties from JSON; `{"secret": x}` with nothing else is a secret, and the text `unknown` is
/// not known yet.
fn properties(value: Value) -> Properties {
    match marked(Property::from_json(value)) {
        Property::Object(properties) => properties,
        other => panic!("no map: {other:?}"),
    }
}

fn marked(property: Property) -> Property {
    match property {
        Property::String(text) if text == "unknown" => Property::Unknown,
        Property::List(values) => Property::List(values.into_iter().map(marked).collect()),
        Property::Object(mut entries) if entries.len() == 1 && entries.contains_key("secret") => {
            let inner = entries.remove("secret").unwrap();
            marked(inner).into_secret()
        }
        Property::Object(entries) => Property::Object(
            entries
                .into_iter()
                .map(|(key, value)| (key, marked(value)))
                .collect(),
        ),
        other => other,
    }
}

fn call<T>(name: &str, preview: bool, work: impl FnOnce(&Call<'_>) -> T) -> T {
    let token = super::canonical_token(&format!("random:{name}")).unwrap_or(name);
    let urn = Urn::new(format!("urn:pulumi:dev::demo::{token}::it"));
    work(&Call {
        urn: &urn,
        preview,
        timeout: None,
        canceled: &|| false,
        status: &|_| {},
    })
}

fn check(name: &str, inputs: Value) -> Checked {
    let inputs = properties(inputs);
    let request = CheckRequest {
        old: None,
        inputs: &inputs,
        random_seed: &[],
    };
    call(name, false, |call| Random.check(call, &request)).unwrap()
}

fn create(name: &str, inputs: Value) -> Created {
    let checked = check(name, inputs);
    assert_eq!(checked.failures, [], "{name}");
    call(name, false, |call| Random.create(call, &checked.inputs)).unwrap()
}

fn foresee(name: &str, inputs: Value) -> Created {
    let checked = check(name, inputs);
    assert_eq!(checked.failures, [], "{name}");
    call(name, true, |call| Random.create(call, &checked.inputs)).unwrap()
}

fn diff(name: &str, old_outputs: &Properties, inputs: Value) -> Difference {
    let inputs = properties(inputs);
    let request = ChangeRequest {
        id: "it",
        old_inputs: &Properties::new(),
        old_outputs,
        inputs: &inputs,
        ignore_changes: &[],
    };
    call(name, true, |call| Random.diff(call, &request)).unwrap()
}

fn import(name: &str, id: &str) -> Result<Observed, ProviderError> {
    let request = ReadRequest {
        id,
        inputs: None,
        outputs: &Properties::new(),
    };
    call(name, false, |call| Random.read(call, &request)).map(|found| found.expect("it is there"))
}

/// What a value is, secret or not.
fn revealed(outputs: &Properties, name: &str) -> Value {
    outputs[name].revealed()
}

fn text(outputs: &Properties, name: &str) -> String {
    revealed(outputs, name).as_str().unwrap().to_owned()
}

fn is_secret(outputs: &Properties, name: &str) -> bool {
    matches!(outputs[name], Property::Secret(_))
}
