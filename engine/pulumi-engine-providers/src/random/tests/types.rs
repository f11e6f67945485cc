//! Tokens, names and secretness.

use super::*;
use crate::random::canonical_token;

#[test]
fn random_token_notations_are_equivalent() {
    for (name, _) in all() {
        let lower = name.replacen("Random", "random", 1);
        let canonical = format!("random:index/{lower}:{name}");
        for token in [
            format!("random:{name}"),
            format!("random:index:{name}"),
            canonical.clone(),
        ] {
            assert_eq!(canonical_token(&token), Some(canonical.as_str()), "{token}");
            let found = Random.resource_type(&token).unwrap();
            assert_eq!(found.canonical, Some(canonical.as_str()), "{token}");
        }
    }
    for token in [
        "random:randomPet",
        "random:other:RandomPet",
        "random:index/RandomPet:RandomPet",
        "random",
        "RandomPet",
        "randomized:RandomPet",
        "",
    ] {
        assert_eq!(canonical_token(token), None, "{token}");
    }
}

#[test]
fn random_unknown_type_lists_known_ones() {
    let error = Random
        .resource_type("random:RandomPets")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("'random:RandomPets'; did you mean \"RandomPet\"?"),
        "{error}"
    );
    assert!(
        error.contains("RandomBytes, RandomId, RandomInteger"),
        "{error}"
    );
    let none = Properties::new();
    for result in [
        call("random:index/no:No", false, |call| {
            Random.create(call, &none).map(|_| ())
        }),
        call("random:index/no:No", false, |call| {
            let request = ReadRequest {
                id: "x",
                inputs: None,
                outputs: &none,
            };
            Random.delete(call, &request)
        }),
    ] {
        assert!(
            result
                .unwrap_err()
                .to_string()
                .contains("'random:index/no:No'")
        );
    }
}

/// Inputs, those of them that are required, outputs besides them, those of them that are secret.
type Names = (
    Vec<&'static str>,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

#[test]
fn random_names_match_schema() {
    let characters = vec![
        "keepers",
        "length",
        "lower",
        "minLower",
        "minNumeric",
        "minSpecial",
        "minUpper",
        "number",
        "numeric",
        "overrideSpecial",
        "special",
        "upper",
    ];
    let cases: [(&str, Names); 10] = [
        (
            "RandomBytes",
            (
                vec!["keepers", "length"],
                &["length"],
                &["base64", "hex"],
                &["base64", "hex"],
            ),
        ),
        (
            "RandomId",
            (
                vec!["byteLength", "keepers", "prefix"],
                &["byteLength"],
                &["b64Std", "b64Url", "dec", "hex"],
                &[],
            ),
        ),
        (
            "RandomInteger",
            (
                vec!["keepers", "max", "min", "seed"],
                &["max", "min"],
                &["result"],
                &[],
            ),
        ),
        (
            "RandomPassword",
            (
                characters.clone(),
                &["length"],
                &["bcryptHash", "result"],
                &["bcryptHash", "result"],
            ),
        ),
        (
            "RandomPet",
            (
                vec!["keepers", "length", "prefix", "separator"],
                &[],
                &[],
                &[],
            ),
        ),
        (
            "RandomShuffle",
            (
                vec!["inputs", "keepers", "resultCount", "seed"],
                &["inputs"],
                &["results"],
                &[],
            ),
        ),
        ("RandomString", (characters, &["length"], &["result"], &[])),
        ("RandomUuid", (vec!["keepers"], &[], &["result"], &[])),
        ("RandomUuid4", (vec!["keepers"], &[], &["result"], &[])),
        ("RandomUuid7", (vec!["keepers"], &[], &["result"], &[])),
    ];
    for (name, (inputs, required, made, secret)) in cases {
        let found = Random.resource_type(&format!("random:{name}")).unwrap();
        let outputs = inputs.iter().chain(made).copied().collect();
        assert_eq!(found.inputs, Some(inputs), "{name}");
        assert_eq!(found.required, required, "{name}");
        assert_eq!(found.outputs, Some(outputs), "{name}");
        assert_eq!(found.secret_outputs, secret, "{name}");
        assert!(!found.delete_before_replace, "{name}");
    }
}

#[test]
fn random_function_is_rejected() {
    let none = Properties::new();
    let token = "pulumi:providers:random/terraformConfig";
    let error = call("RandomPet", false, |call| Random.invoke(call, token, &none)).unwrap_err();
    assert!(error.to_string().contains(token), "{error}");
}
