//! The rules of strings and passwords.

use super::*;
use crate::random::characters::SPECIAL;

type CharacterClass = (&'static str, fn(char) -> bool);

fn both(inputs: &Value) -> [String; 2] {
    ["RandomString", "RandomPassword"]
        .map(|name| text(&create(name, inputs.clone()).outputs, "result"))
}

fn count(result: &str, kind: impl Fn(char) -> bool) -> usize {
    result.chars().filter(|character| kind(*character)).count()
}

#[test]
fn string_has_only_enabled_classes() {
    let kinds: [CharacterClass; 4] = [
        ("upper", |character| character.is_ascii_uppercase()),
        ("lower", |character| character.is_ascii_lowercase()),
        ("numeric", |character| character.is_ascii_digit()),
        ("special", |character| SPECIAL.contains(character)),
    ];
    // every choice but none
    for wanted in 1..16_u8 {
        let mut inputs = json!({"length": 400});
        for (bit, (name, _)) in kinds.iter().enumerate() {
            inputs[name] = json!(wanted & (1 << bit) != 0);
        }
        for result in both(&inputs) {
            assert_eq!(result.chars().count(), 400);
            for (bit, (name, is_kind)) in kinds.iter().enumerate() {
                let is_wanted = wanted & (1 << bit) != 0;
                assert_eq!(count(&result, is_kind) > 0, is_wanted, "{name} {inputs}");
            }
            let is_known = |character| kinds.iter().any(|(_, is_kind)| is_kind(character));
            assert_eq!(count(&result, is_known), 400);
        }
    }
}

#[test]
fn string_number_is_synonym_of_numeric() {
    for inputs in [
        json!({"length": 300, "number": false}),
        json!({"length": 300, "numeric": false}),
        json!({"length": 300, "number": false, "numeric": false}),
    ] {
        for result in both(&inputs) {
            assert_eq!(
                count(&result, |character| character.is_ascii_digit()),
                0,
                "{inputs}"
            );
        }
    }
}

#[test]
fn string_minimums_hold_at_any_position() {
    let inputs =
        json!({"length": 8, "minUpper": 2, "minLower": 2, "minNumeric": 2, "minSpecial": 2});
    let mut results = Vec::from(both(&inputs));
    // strings alone: hashes take their time
    results.extend((0..100).map(|_| create("RandomString", inputs.clone()).id));
    for result in &results {
        assert_eq!(count(result, |character| character.is_ascii_uppercase()), 2);
        assert_eq!(count(result, |character| character.is_ascii_lowercase()), 2);
        assert_eq!(count(result, |character| character.is_ascii_digit()), 2);
        assert_eq!(count(result, |character| SPECIAL.contains(character)), 2);
    }
    let first: String = results
        .iter()
        .filter_map(|result| result.chars().next())
        .collect();
    assert!(first.chars().any(|character| character.is_ascii_digit()));
    assert!(
        first
            .chars()
            .any(|character| character.is_ascii_uppercase())
    );
}

#[test]
fn string_minimum_counts_for_disabled_class() {
    let inputs = json!({"length": 50, "special": false, "minSpecial": 3});
    for result in both(&inputs) {
        assert_eq!(count(&result, |character| SPECIAL.contains(character)), 3);
    }
}

#[test]
fn string_override_special_replaces_default() {
    for (special, allowed) in [("_", "_"), ("äöü€", "äöü€"), ("", SPECIAL)] {
        let inputs = json!({
            "length": 60, "overrideSpecial": special, "upper": false, "lower": false, "numeric": false,
        });
        for result in both(&inputs) {
            assert_eq!(result.chars().count(), 60);
            assert_eq!(
                count(&result, |character| allowed.contains(character)),
                60,
                "{result}"
            );
        }
    }
}

#[test]
fn password_has_bcrypt_hash() {
    for length in [1, 71, 72, 73, 100] {
        let outputs = create("RandomPassword", json!({"length": length})).outputs;
        let (result, hash) = (text(&outputs, "result"), text(&outputs, "bcryptHash"));
        assert!(hash.starts_with("$2a$10$") && hash.len() == 60, "{hash}");
        assert!(bcrypt::verify(&result, &hash).unwrap());
        let start: String = result.chars().take(72).collect();
        assert!(bcrypt::verify(&start, &hash).unwrap());
        let other = result.replacen(|_| true, "\u{1}", 1);
        assert!(!bcrypt::verify(&other, &hash).unwrap());
    }
}

#[test]
fn password_is_secret_everywhere() {
    let made = create("RandomPassword", json!({"length": 24}));
    let (result, hash) = (
        text(&made.outputs, "result"),
        text(&made.outputs, "bcryptHash"),
    );
    let shown = format!("{made:?}");
    assert!(!shown.contains(&result) && !shown.contains(&hash));
    assert_eq!(made.id, "none");
}
