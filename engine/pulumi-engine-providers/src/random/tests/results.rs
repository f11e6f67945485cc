//! Generated values: formats, alphabets, ids, secrets.

use std::collections::BTreeSet;

use super::*;

#[test]
fn random_outputs_match_plugin() {
    // what it recorded for the same programs, but for what is random
    let cases = [
        ("RandomBytes", json!({"length": 16}), json!({"length": 16})),
        (
            "RandomId",
            json!({"byteLength": 8}),
            json!({"byteLength": 8}),
        ),
        (
            "RandomInteger",
            json!({"min": 1, "max": 100}),
            json!({"min": 1, "max": 100}),
        ),
        (
            "RandomPassword",
            json!({"length": 16, "lower": true, "minLower": 2, "number": true}),
            json!({
                "__meta": "{\"schema_version\":\"3\"}", "length": 16, "lower": true, "minLower": 2, "minNumeric": 0,
                "minSpecial": 0, "minUpper": 0, "number": true, "numeric": true, "special": true, "upper": true,
            }),
        ),
        (
            "RandomPet",
            json!({"length": 3}),
            json!({"length": 3, "separator": "-"}),
        ),
        (
            "RandomShuffle",
            json!({"inputs": ["a", "b"], "resultCount": 3, "seed": "s"}),
            json!({"inputs": ["a", "b"], "resultCount": 3, "seed": "s"}),
        ),
        (
            "RandomString",
            json!({"length": 16, "special": false, "keepers": {"n": 1}}),
            json!({
                "__meta": "{\"schema_version\":\"2\"}", "keepers": {"n": "1"}, "length": 16, "lower": true,
                "minLower": 0, "minNumeric": 0, "minSpecial": 0, "minUpper": 0, "number": true, "numeric": true,
                "special": false, "upper": true,
            }),
        ),
        ("RandomUuid", json!({}), json!({})),
    ];
    for (name, inputs, expected) in cases {
        let made = create(name, inputs);
        let mut outputs = made.outputs.clone();
        for random in [
            "base64",
            "hex",
            "b64Std",
            "b64Url",
            "dec",
            "bcryptHash",
            "result",
            "results",
        ] {
            outputs.remove(random);
        }
        // of bytes, the plugin has the id outside only
        let id = outputs.remove("id").map(|id| id.revealed());
        assert_eq!(
            id,
            (name != "RandomBytes").then(|| json!(made.id)),
            "{name}"
        );
        assert_eq!(Property::Object(outputs).revealed(), expected, "{name}");
    }
}

#[test]
fn random_outputs_cover_schema() {
    for (name, inputs) in all() {
        let made = create(name, inputs.clone());
        let known = Random.resource_type(&format!("random:{name}")).unwrap();
        let optional = [
            "keepers",
            "prefix",
            "seed",
            "resultCount",
            "overrideSpecial",
        ];
        for output in known.outputs.unwrap() {
            let is_there = made.outputs.contains_key(output);
            assert_eq!(is_there, !optional.contains(&output), "{name} {output}");
        }
        for output in known.secret_outputs {
            assert!(is_secret(&made.outputs, output), "{name} {output}");
        }
        assert!(!made.id.is_empty(), "{name}");
    }
}

#[test]
fn random_values_differ() {
    for (name, inputs) in [
        ("RandomBytes", json!({"length": 16})),
        ("RandomId", json!({"byteLength": 16})),
        ("RandomInteger", json!({"min": 0, "max": i64::MAX - 1})),
        ("RandomPet", json!({"length": 9})),
        ("RandomString", json!({"length": 20})),
        ("RandomUuid", json!({})),
        ("RandomUuid4", json!({})),
        ("RandomUuid7", json!({})),
    ] {
        let ids: BTreeSet<_> = (0..50).map(|_| create(name, inputs.clone()).id).collect();
        assert_eq!(ids.len(), 50, "{name}");
    }
}

#[test]
fn random_bytes_have_base64_and_hex() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    for length in [1, 2, 3, 16, 1000] {
        let made = create("RandomBytes", json!({"length": length}));
        let bytes = STANDARD.decode(text(&made.outputs, "base64")).unwrap();
        assert_eq!(bytes.len(), length);
        assert_eq!(text(&made.outputs, "hex"), hex::encode(&bytes));
        assert_eq!(made.id, text(&made.outputs, "base64"));
    }
}

#[test]
fn random_id_has_four_notations() {
    for (prefix, length) in [("", 1), ("p-", 8), ("x,y", 40)] {
        let made = create("RandomId", json!({"byteLength": length, "prefix": prefix}));
        let again = import("RandomId", &format!("{prefix},{}", made.id)).unwrap();
        for output in ["b64Std", "b64Url", "dec", "hex"] {
            assert_eq!(again.outputs[output], made.outputs[output], "{output}");
            assert!(text(&made.outputs, output).starts_with(prefix));
        }
        assert_eq!(
            text(&made.outputs, "b64Url"),
            format!("{prefix}{}", made.id)
        );
        assert_eq!(text(&made.outputs, "hex").len(), prefix.len() + 2 * length);
    }
}

#[test]
fn random_integer_reaches_bounds() {
    for (min, max) in [
        (7, 7),
        (-1, 1),
        (0, 3),
        (i64::MAX - 1, i64::MAX),
        (i64::MIN, i64::MIN + 1),
    ] {
        let found: BTreeSet<_> = (0..200)
            .map(|_| create("RandomInteger", json!({"min": min, "max": max})))
            .inspect(|made| assert_eq!(made.id, made.outputs["result"].revealed().to_string()))
            .map(|made| made.outputs["result"].revealed().as_i64().unwrap())
            .collect();
        assert_eq!(found, (min..=max).collect());
    }
}

#[test]
fn random_seed_matches_plugin() {
    // what a Go program printed that does as the plugin does
    for (seed, min, max, result) in [
        ("12345", 1_i64, 100_i64, 44_i64),
        ("12345", -10, 10, 7),
        ("12345", -5_000_000_000, 5_000_000_000, 212_165_996),
        ("a", 1, 50_000, 35_583),
        ("seed", 0, 2_147_483_647, 1_614_137_400),
        ("über", 1, 9_007_199_254_740_991, 4_128_144_838_144_893),
        ("0", 7, 7, 7),
    ] {
        let made = create(
            "RandomInteger",
            json!({"min": min, "max": max, "seed": seed}),
        );
        assert_eq!(made.id, result.to_string(), "{seed} {min} {max}");
    }
    let inputs = ["a", "b", "c", "d", "e"];
    for (seed, results) in [
        ("12345", ["e", "c", "a", "b", "d"]),
        ("0", ["d", "e", "c", "b", "a"]),
    ] {
        let made = create("RandomShuffle", json!({"inputs": inputs, "seed": seed}));
        assert_eq!(revealed(&made.outputs, "results"), json!(results), "{seed}");
    }
}

#[test]
fn random_shuffle_repeats_evenly() {
    let inputs = ["a", "b", "c", "d"];
    for (count, least, most) in [
        (None, 1, 1),
        (Some(0), 0, 0),
        (Some(2), 0, 1),
        (Some(4), 1, 1),
        (Some(10), 2, 3),
    ] {
        for seed in [json!(null), json!("s"), json!("")] {
            let made = create(
                "RandomShuffle",
                json!({"inputs": inputs, "resultCount": count, "seed": seed}),
            );
            let results = revealed(&made.outputs, "results");
            let results = results.as_array().unwrap();
            assert_eq!(results.len(), count.unwrap_or(4));
            for input in inputs {
                let times = results.iter().filter(|result| *result == input).count();
                assert!((least..=most).contains(&times), "{results:?}");
            }
            assert_eq!(made.id, "-");
        }
    }
    for count in [json!(null), json!(0), json!(5)] {
        let made = create("RandomShuffle", json!({"inputs": [], "resultCount": count}));
        assert_eq!(revealed(&made.outputs, "results"), json!([]));
    }
}

#[test]
fn random_pet_has_words_and_separators() {
    for (inputs, start, separator, words) in [
        (json!({}), "", "-", 2),
        (json!({"length": 1}), "", "-", 1),
        (json!({"length": 5, "separator": "_"}), "", "_", 5),
        (json!({"prefix": "my"}), "my-", "-", 3),
        (json!({"prefix": "My", "separator": "."}), "My.", ".", 3),
        (json!({"prefix": ""}), "", "-", 2),
    ] {
        let made = create("RandomPet", inputs.clone());
        assert!(made.id.starts_with(start), "{}", made.id);
        assert_eq!(
            made.id.split(separator).count(),
            words,
            "{inputs} {}",
            made.id
        );
        let end = made.id.strip_prefix(start).unwrap().replace(separator, "");
        assert!(
            end.bytes().all(|byte| byte.is_ascii_lowercase()),
            "{}",
            made.id
        );
    }
    let joined = create("RandomPet", json!({"separator": ""})).id;
    assert!(!joined.contains('-'));
}

#[test]
fn random_uuid_has_its_version() {
    for (name, version) in [("RandomUuid4", 4), ("RandomUuid7", 7)] {
        let made = create(name, json!({}));
        let parsed = uuid::Uuid::parse_str(&made.id).unwrap();
        assert_eq!(parsed.get_version_num(), version);
        assert_eq!(parsed.get_variant(), uuid::Variant::RFC4122);
        assert_eq!(text(&made.outputs, "result"), made.id);
    }
    let of_any = create("RandomUuid", json!({})).id;
    assert_eq!(
        uuid::Uuid::parse_str(&of_any)
            .unwrap()
            .hyphenated()
            .to_string(),
        of_any
    );
}

#[test]
fn preview_knows_outputs_that_are_not_random() {
    for (name, inputs) in all() {
        let foreseen = foresee(name, inputs.clone());
        assert_eq!(foreseen.id, "", "{name}");
        let made = create(name, inputs);
        let known = Random.resource_type(&format!("random:{name}")).unwrap();
        for (output, value) in &made.outputs {
            let is_random =
                output == "id" || !known.inputs.as_ref().unwrap().contains(&output.as_str());
            let expected = match is_random && output != "__meta" {
                true if matches!(value, Property::Secret(_)) => Property::Unknown.into_secret(),
                true => Property::Unknown,
                false => value.clone(),
            };
            assert_eq!(foreseen.outputs[output], expected, "{name} {output}");
        }
    }
    let foreseen = foresee("RandomString", json!({"length": "unknown"}));
    assert_eq!(foreseen.outputs["length"], Property::Unknown);
}

#[test]
fn secret_input_makes_outputs_secret() {
    for (name, inputs, outputs) in [
        (
            "RandomId",
            json!({"byteLength": 2, "prefix": {"secret": "p"}}),
            vec!["prefix", "hex", "dec", "b64Std", "b64Url"],
        ),
        (
            "RandomInteger",
            json!({"min": 1, "max": 9, "seed": {"secret": "s"}}),
            vec!["seed", "result"],
        ),
        (
            "RandomShuffle",
            json!({"inputs": [{"secret": "a"}, "b"]}),
            vec!["results"],
        ),
        (
            "RandomShuffle",
            json!({"inputs": {"secret": ["a", "b"]}}),
            vec!["inputs", "results"],
        ),
        (
            "RandomString",
            json!({"length": 2, "overrideSpecial": {"secret": "#"}}),
            vec!["overrideSpecial", "result"],
        ),
        (
            "RandomPet",
            json!({"prefix": {"secret": "p"}}),
            vec!["prefix"],
        ),
    ] {
        for created in [create(name, inputs.clone()), foresee(name, inputs)] {
            for output in &outputs {
                assert!(is_secret(&created.outputs, output), "{name} {output}");
            }
        }
    }
    // a keeper decides when, not what
    let made = create(
        "RandomString",
        json!({"length": 2, "keepers": {"a": {"secret": "k"}}}),
    );
    assert!(made.outputs["keepers"].contains_secret() && !is_secret(&made.outputs, "result"));
}
