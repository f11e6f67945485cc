//! Diffs, which are nearly always replacements.

use super::*;
use crate::ChangeKind::{self, Replace, Update};

/// What differs between two sets of inputs, given what the first has made.
fn changes(name: &str, old: Value, new: Value) -> Vec<(String, ChangeKind)> {
    let made = create(name, old);
    diff(name, &made.outputs, new).changes.into_iter().collect()
}

#[test]
fn diff_of_same_inputs_is_empty() {
    for (name, inputs) in all() {
        assert_eq!(changes(name, inputs.clone(), inputs), [], "{name}");
    }
}

#[test]
fn diff_of_explicit_defaults_is_empty() {
    for (name, old, new) in [
        (
            "RandomPet",
            json!({}),
            json!({"length": 2, "separator": "-"}),
        ),
        (
            "RandomPet",
            json!({"length": 2, "separator": "-"}),
            json!({}),
        ),
        ("RandomPet", json!({"length": 3}), json!({"length": "3"})),
        ("RandomPet", json!({}), json!({"prefix": ""})),
        ("RandomPet", json!({}), json!({"keepers": null})),
        (
            "RandomInteger",
            json!({"min": 1, "max": 2}),
            json!({"min": 1.0, "max": 2, "seed": ""}),
        ),
        (
            "RandomString",
            json!({"length": 9}),
            json!({
                "length": 9, "upper": true, "lower": true, "numeric": true, "number": true, "special": true,
                "minUpper": 0, "minLower": 0, "minNumeric": 0, "minSpecial": 0,
            }),
        ),
        (
            "RandomString",
            json!({"length": 9, "number": false}),
            json!({"length": 9, "numeric": false}),
        ),
        (
            "RandomUuid",
            json!({"keepers": {"a": 1}}),
            json!({"keepers": {"a": "1"}}),
        ),
        (
            "RandomUuid",
            json!({"keepers": {"a": true}}),
            json!({"keepers": {"a": "true"}}),
        ),
        (
            "RandomUuid",
            json!({"keepers": {"a": "x"}}),
            json!({"keepers": {"a": "x", "b": null}}),
        ),
        (
            "RandomUuid",
            json!({"keepers": {"a": "x"}}),
            json!({"keepers": {"a": {"secret": "x"}}}),
        ),
        (
            "RandomUuid",
            json!({"keepers": {"secret": {"a": "x"}}}),
            json!({"keepers": {"a": "x"}}),
        ),
    ] {
        assert_eq!(
            changes(name, old.clone(), new.clone()),
            [],
            "{name} {old} {new}"
        );
    }
}

#[test]
fn diff_of_keeper_replaces_every_type() {
    for (name, inputs) in all() {
        let with = |keepers: Value| {
            let mut inputs = inputs.clone();
            inputs["keepers"] = keepers;
            inputs
        };
        let cases = [
            (json!({"a": "1"}), json!({"a": "2"}), "keepers.a"),
            (json!({"a": "1"}), json!({"a": "1", "b": "2"}), "keepers.b"),
            (json!({"a": "1", "b": "2"}), json!({"a": "1"}), "keepers.b"),
            (json!({"a.b": "1"}), json!({"a.b": "2"}), "keepers[\"a.b\"]"),
            (json!(null), json!({"a": "1"}), "keepers"),
            (json!({"a": "1"}), json!(null), "keepers"),
            (json!({"a": "1"}), json!({"a": "unknown"}), "keepers.a"),
            (json!({"a": "1"}), json!("unknown"), "keepers"),
        ];
        for (old, new, path) in cases {
            let found = changes(name, with(old.clone()), with(new.clone()));
            assert_eq!(found, [(path.to_owned(), Replace)], "{name} {old} {new}");
        }
        let difference = diff(
            name,
            &create(name, with(json!({"a": "1"}))).outputs,
            inputs.clone(),
        );
        assert_eq!(difference.keys(), ["keepers"], "{name}");
        assert_eq!(difference.replace_keys(), ["keepers"], "{name}");
        assert!(!difference.delete_before_replace, "{name}");
        assert_eq!(
            changes(name, inputs.clone(), with(json!({}))),
            [("keepers".into(), Update)]
        );
    }
}

#[test]
fn diff_of_every_input_replaces() {
    let cases = [
        (
            "RandomBytes",
            json!({"length": 1}),
            json!({"length": 2}),
            "length",
        ),
        (
            "RandomId",
            json!({"byteLength": 1}),
            json!({"byteLength": 2}),
            "byteLength",
        ),
        (
            "RandomId",
            json!({"byteLength": 1}),
            json!({"byteLength": 1, "prefix": "p"}),
            "prefix",
        ),
        (
            "RandomInteger",
            json!({"min": 1, "max": 2}),
            json!({"min": 0, "max": 2}),
            "min",
        ),
        (
            "RandomInteger",
            json!({"min": 1, "max": 2}),
            json!({"min": 1, "max": 3}),
            "max",
        ),
        (
            "RandomInteger",
            json!({"min": 1, "max": 2}),
            json!({"min": 1, "max": 2, "seed": "s"}),
            "seed",
        ),
        ("RandomPet", json!({}), json!({"length": 3}), "length"),
        ("RandomPet", json!({}), json!({"prefix": "p"}), "prefix"),
        (
            "RandomPet",
            json!({}),
            json!({"separator": "_"}),
            "separator",
        ),
        (
            "RandomShuffle",
            json!({"inputs": ["a", "b"]}),
            json!({"inputs": ["a", "c"]}),
            "inputs[1]",
        ),
        (
            "RandomShuffle",
            json!({"inputs": ["a"]}),
            json!({"inputs": ["a", "b"]}),
            "inputs[1]",
        ),
        (
            "RandomShuffle",
            json!({"inputs": ["a"]}),
            json!({"inputs": ["a"], "resultCount": 1}),
            "resultCount",
        ),
        (
            "RandomShuffle",
            json!({"inputs": ["a"], "seed": "s"}),
            json!({"inputs": ["a"]}),
            "seed",
        ),
    ];
    for (name, old, new, path) in cases {
        let found = changes(name, old.clone(), new.clone());
        assert_eq!(found, [(path.to_owned(), Replace)], "{name} {old} {new}");
    }
}

#[test]
fn diff_of_every_character_rule_replaces() {
    for name in ["RandomString", "RandomPassword"] {
        for (input, value) in [
            ("length", json!(9)),
            ("length", json!("unknown")),
            ("lower", json!(false)),
            ("upper", json!(false)),
            ("special", json!(false)),
            ("minLower", json!(1)),
            ("minUpper", json!(1)),
            ("minNumeric", json!(1)),
            ("minSpecial", json!(1)),
            ("overrideSpecial", json!("_")),
        ] {
            let mut new = json!({"length": 8});
            new[input] = value;
            let found = changes(name, json!({"length": 8}), new);
            assert_eq!(found, [(input.to_owned(), Replace)], "{name}");
        }
        for input in ["number", "numeric"] {
            let found = changes(
                name,
                json!({"length": 8}),
                json!({"length": 8, input: false}),
            );
            let both = ["number", "numeric"].map(|path| (path.to_owned(), Replace));
            assert_eq!(found, both, "{name} {input}");
        }
    }
}

#[test]
fn diff_ignores_empty_string_of_older_plugin() {
    let made = create("RandomString", json!({"length": 8, "overrideSpecial": ""}));
    let path = "overrideSpecial".to_owned();
    for (new, kind) in [
        (json!({"length": 8}), Update),
        (json!({"length": 8, "overrideSpecial": "unknown"}), Update),
        (json!({"length": 8, "overrideSpecial": "_"}), Replace),
    ] {
        let found = diff("RandomString", &made.outputs, new.clone()).changes;
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [(path.clone(), kind)],
            "{new}"
        );
    }
}

#[test]
fn update_keeps_generated_values() {
    let old = json!({"length": 8, "overrideSpecial": ""});
    let mut made = create("RandomPassword", old.clone());
    made.outputs.insert(
        "__pulumi_raw_state_delta".into(),
        Property::Object(Properties::new()),
    );
    let (old, new) = (properties(old), properties(json!({"length": 8})));
    for preview in [true, false] {
        let request = ChangeRequest {
            id: &made.id,
            old_inputs: &old,
            old_outputs: &made.outputs,
            inputs: &new,
            ignore_changes: &[],
        };
        let updated = call("RandomPassword", preview, |call| {
            Random.update(call, &request)
        })
        .unwrap();
        // the plugin's note about the old outputs would be wrong for the new ones
        let mut expected = made.outputs.clone();
        expected.remove("overrideSpecial");
        expected.remove("__pulumi_raw_state_delta");
        assert_eq!(updated, expected);
    }
}

#[test]
fn diff_of_older_plugin_state_is_empty() {
    // before `numeric` and `bcryptHash` there were, and after an import of that time
    for (old, new) in [
        (
            json!({"length": 4, "number": false, "result": "abcd", "id": "none"}),
            json!({"length": 4, "numeric": false}),
        ),
        (
            json!({"length": 4, "result": "abcd"}),
            json!({"length": 4, "special": true, "minUpper": 0}),
        ),
        (
            json!({"length": 4.0, "keepers": {}, "result": "abcd"}),
            json!({"length": 4, "keepers": {}}),
        ),
    ] {
        let difference = diff("RandomPassword", &properties(old), new.clone());
        assert!(difference.changes.is_empty(), "{new}: {difference:?}");
    }
}
