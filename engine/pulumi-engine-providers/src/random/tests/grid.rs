//! Every input with every odd value: accepted inputs can be created, then show no diff, and match
//! the preview.

use super::*;

fn odd_values() -> Vec<Value> {
    let plain = [
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(40),
        json!(2.0),
        json!(1.5),
        json!(1e300),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(""),
        json!("40"),
        json!(" 2 "),
        json!("text, with ümlauts"),
        json!("unknown"),
        json!([]),
        json!(["a", "b", 1, true]),
        json!(["a", {"secret": "b"}]),
        json!(["a", null]),
        json!([["a"]]),
        json!({}),
        json!({"a": "b", "c": 1, "d": true, "e": 1.5}),
        json!({"a": {"secret": "b"}, "c": null}),
        json!({"a": "unknown"}),
        json!({"a": {"b": "c"}}),
    ];
    let secret = plain.iter().map(|value| json!({ "secret": value }));
    plain.iter().cloned().chain(secret).collect()
}

/// Whether anything in it only the real run will know.
fn waits(value: &Value) -> bool {
    value.to_string().contains("\"unknown\"")
}

fn try_out(name: &str, inputs: &Value) -> bool {
    if !check(name, inputs.clone()).failures.is_empty() {
        return false;
    }
    let foreseen = foresee(name, inputs.clone()).outputs;
    if waits(inputs) {
        return true;
    }
    let made = create(name, inputs.clone());
    assert!(!made.id.is_empty(), "{name} {inputs}");
    let difference = diff(name, &made.outputs, inputs.clone());
    assert!(
        difference.changes.is_empty(),
        "{name} {inputs}: {difference:?}"
    );
    for (output, value) in &made.outputs {
        let before = foreseen[output].opened().0;
        let after = value.opened().0;
        assert!(
            before == Property::Unknown || before == after,
            "{name} {inputs} {output}"
        );
        assert_eq!(
            foreseen[output].contains_secret(),
            value.contains_secret(),
            "{name} {inputs} {output}"
        );
    }
    true
}

#[test]
fn accepted_inputs_create_without_later_diff() {
    for (name, least) in all() {
        // the same rules as for strings, and hashes take their time
        if name == "RandomPassword" {
            continue;
        }
        let known = Random.resource_type(&format!("random:{name}")).unwrap();
        for input in known.inputs.unwrap() {
            let accepted = odd_values().into_iter().filter(|value| {
                let mut inputs = least.clone();
                inputs[input] = value.clone();
                try_out(name, &inputs)
            });
            assert!(accepted.count() >= 4, "{name} {input}");
        }
    }
}

#[test]
fn check_never_panics() {
    for (name, _) in all() {
        let known = Random.resource_type(&format!("random:{name}")).unwrap();
        for value in odd_values() {
            let inputs = known.inputs.as_ref().unwrap().iter();
            let all_odd: serde_json::Map<_, _> = inputs
                .map(|input| ((*input).to_owned(), value.clone()))
                .collect();
            let given = properties(Value::Object(all_odd.clone()));
            assert_eq!(
                check(name, Value::Object(all_odd.clone())).inputs,
                given,
                "{name}"
            );
            // states may hold anything too
            diff(name, &given, Value::Object(all_odd));
        }
    }
}
