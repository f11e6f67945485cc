//! Check failures, and inputs that pass unchanged.

use super::*;

#[test]
fn check_returns_inputs_unchanged() {
    for (name, inputs) in all() {
        let checked = check(name, inputs.clone());
        assert_eq!(checked.inputs, properties(inputs), "{name}");
        assert_eq!(checked.failures, [], "{name}");
    }
    // no defaults, no conversion: Pulumi's plugin has them in outputs only
    let given = json!({"length": "8", "keepers": {"a": 1}, "upper": {"secret": false}});
    assert_eq!(
        check("RandomString", given.clone()).inputs,
        properties(given)
    );
}

/// Expects one failure of each: of which property, and what its reason says.
fn assert_rejected<const COUNT: usize>(name: &str, cases: [(Value, &str, &str); COUNT]) {
    for (inputs, property, reason) in cases {
        let failures = check(name, inputs.clone()).failures;
        let [failure] = failures.as_slice() else {
            panic!("{name} {inputs}: {failures:?}");
        };
        assert_eq!(failure.property, property, "{name} {inputs}");
        let found = &failure.reason;
        assert!(found.contains(reason), "{name} {inputs}: {found}");
    }
}

#[test]
fn check_bytes_and_id_require_length() {
    assert_rejected(
        "RandomBytes",
        [
            (json!({}), "length", "required and missing: how many bytes"),
            (json!({"length": null}), "length", "required"),
            (json!({"length": 0}), "length", "at least 1"),
            (json!({"length": 9_000_000}), "length", "at most 1048576"),
            (json!({"length": "many"}), "length", "whole number"),
            (json!({"length": 1.5}), "length", "whole number"),
            (json!({"length": true}), "length", "whole number"),
        ],
    );
    assert_rejected(
        "RandomId",
        [
            (json!({}), "byteLength", "required"),
            (json!({"byteLength": 0}), "byteLength", "at least 1"),
            (json!({"byteLength": -1}), "byteLength", "at least 1"),
            (json!({"byteLength": 1, "prefix": []}), "prefix", "text"),
        ],
    );
}

#[test]
fn check_integer_requires_valid_bounds() {
    assert_rejected(
        "RandomInteger",
        [
            (json!({"min": 1}), "max", "required"),
            (json!({"max": 1}), "min", "required"),
            (json!({"min": 2, "max": 1}), "max", "as large as 'min'"),
            (json!({"min": i64::MIN, "max": i64::MAX}), "max", "too far"),
            (json!({"min": 0, "max": i64::MAX}), "max", "too far"),
        ],
    );
}

#[test]
fn check_string_rejects_impossible_rules() {
    for name in ["RandomString", "RandomPassword"] {
        assert_rejected(
            name,
            [
                (json!({}), "length", "how many characters"),
                (json!({"length": 0}), "length", "at least 1"),
                (
                    json!({"length": 8, "upper": "yes"}),
                    "upper",
                    "true or false",
                ),
                (
                    json!({"length": 8, "minUpper": -1}),
                    "minUpper",
                    "at least 0",
                ),
                (
                    json!({"length": 7, "minUpper": 2, "minLower": 2, "minNumeric": 2, "minSpecial": 2}),
                    "length",
                    "at least 8, the sum of",
                ),
                (
                    json!({"length": 7, "upper": false, "lower": false, "numeric": false, "special": false}),
                    "numeric",
                    "at least one of",
                ),
                (
                    json!({"length": 7, "upper": false, "lower": false, "number": false, "special": false}),
                    "numeric",
                    "at least one of",
                ),
                (
                    json!({"length": 7, "number": true, "numeric": false}),
                    "number",
                    "remove 'number'",
                ),
                (
                    json!({"length": 7, "lenght": 8}),
                    "lenght",
                    "did you mean \"length\"?",
                ),
            ],
        );
    }
}

#[test]
fn check_pet_shuffle_keepers_require_types() {
    assert_rejected(
        "RandomPet",
        [
            (json!({"length": 0}), "length", "at least 1"),
            (json!({"separator": {}}), "separator", "text"),
        ],
    );
    assert_rejected(
        "RandomShuffle",
        [
            (json!({}), "inputs", "the list to shuffle"),
            (json!({"inputs": "a"}), "inputs", "list of texts"),
            (json!({"inputs": [["a"]]}), "inputs", "list of texts"),
            (json!({"inputs": [null]}), "inputs", "list of texts"),
            (
                json!({"inputs": [], "resultCount": -1}),
                "resultCount",
                "at least 0",
            ),
            (
                json!({"input": [], "inputs": []}),
                "input",
                "did you mean \"inputs\"?",
            ),
        ],
    );
    assert_rejected(
        "RandomUuid",
        [
            (json!({"keepers": "x"}), "keepers", "map of texts"),
            (json!({"keepers": {"a": []}}), "keepers", "map of texts"),
            (
                json!({"result": "x"}),
                "result",
                "is no property of random:index/randomUuid:RandomUuid",
            ),
        ],
    );
}

#[test]
fn check_reports_all_failures() {
    let failures = check("RandomInteger", json!({"seed": [], "size": 1})).failures;
    let properties: Vec<_> = failures.iter().map(|failure| &failure.property).collect();
    assert_eq!(properties, ["max", "min", "seed", "size"]);
}

#[test]
fn check_failure_hides_secret() {
    let secret = "hunter2";
    for inputs in [
        json!({"length": {"secret": secret}}),
        json!({"length": 1, "upper": {"secret": secret}}),
        json!({"length": 1, "keepers": {"secret": secret}}),
    ] {
        let failures = check("RandomString", inputs).failures;
        assert_eq!(failures.len(), 1);
        assert!(
            !failures[0].reason.contains(secret),
            "{}",
            failures[0].reason
        );
    }
}

#[test]
fn check_accepts_unknown_inputs() {
    for (name, inputs) in [
        ("RandomBytes", json!({"length": "unknown"})),
        ("RandomInteger", json!({"min": 7, "max": "unknown"})),
        (
            "RandomPassword",
            json!({"length": 1, "minUpper": "unknown", "upper": "unknown"}),
        ),
        (
            "RandomShuffle",
            json!({"inputs": "unknown", "resultCount": "unknown"}),
        ),
        ("RandomShuffle", json!({"inputs": ["a", "unknown"]})),
        (
            "RandomPet",
            json!({"keepers": {"a": "unknown"}, "prefix": {"secret": "unknown"}}),
        ),
        ("RandomUuid", json!({"keepers": "unknown"})),
    ] {
        assert_eq!(check(name, inputs).failures, [], "{name}");
    }
}
