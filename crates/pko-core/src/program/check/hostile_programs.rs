//! Hostile programs of more than a megabyte: each check ends, and its report is short.

use pko_api::pulumi::v1::ProgramBody;
use serde_json::{Map, Value, json};

use super::{finding::MAX_FINDINGS, recorder::MAX_REFERENCES, *};

/// The limit for a summary of five findings with long names.
const MAX_SUMMARY_BYTES: usize = 8_192;

fn checked(program: Value) -> Findings {
    let body: ProgramBody = serde_json::from_value(program).unwrap();
    let found = check("demo", &body);
    for findings in [&found.problems, &found.remarks] {
        assert!(findings.len() <= MAX_FINDINGS, "{}", findings.len());
        let length = summary(findings).len();
        assert!(length <= MAX_SUMMARY_BYTES, "{length}");
    }
    found
}

fn variables(count: usize, value: impl Fn(usize) -> Value) -> Value {
    let named = (0..count).map(|number| (format!("v{number:05}"), value(number)));
    json!({ "variables": named.collect::<Map<_, _>>() })
}

fn only_problem(found: &Findings) -> String {
    let [problem] = found.problems.as_slice() else {
        panic!("{found:?}")
    };
    problem.to_string()
}

#[test]
fn long_circle_is_found_once_and_reported_in_part() {
    let next = |number: usize| (number + 1) % 9_000;
    let found = checked(variables(9_000, |number| {
        json!(format!("${{v{:05}}}", next(number)))
    }));
    assert_eq!(
        only_problem(&found),
        "program.variables.v00000: refers to itself: v00000 -> v00001 -> v00002 -> v00003 -> … 8992 more … -> v08996 -> \
         v08997 -> v08998 -> v08999 -> v00000; remove one of these references"
    );
}

/// Each variable forms a cycle with the first one.
#[test]
fn circle_with_shortcuts_is_reported_once() {
    for count in [4_000, 20_000] {
        let shortcuts =
            |number: usize| json!(format!("${{v{:05}}}${{v00000}}", (number + 1) % count));
        let found = checked(variables(count, shortcuts));
        assert!(only_problem(&found).contains("refers to itself: v00000 -> v00001"));
    }
}

#[test]
fn references_beyond_the_limit_are_not_followed() {
    let every = (0..500).map(|number| format!("${{v{number:05}}}"));
    let every = every.collect::<String>();
    let found = checked(variables(500, |_| json!(every)));
    assert_eq!(found.problems.len(), MAX_FINDINGS);
    let found = checked(json!({
        "variables": { "a": 1 }, "outputs": { "out": "${a}".repeat(300_000) },
    }));
    let [remark] = found.remarks.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(
        remark.to_string(),
        format!(
            "program: has more than {MAX_REFERENCES} references: those beyond are not checked here"
        )
    );
    let most = "${a}".repeat(MAX_REFERENCES);
    let found = checked(json!({ "variables": { "a": 1 }, "outputs": { "out": most } }));
    assert_eq!(found, Findings::default());
}

#[test]
fn long_names_are_not_compared() {
    let (one, other) = ("n".repeat(400_000), "n".repeat(399_999) + "m");
    let found = checked(json!({
        "variables": { one: 1 }, "outputs": { "out": format!("${{{other}}}") },
    }));
    let [remark] = found.remarks.as_slice() else {
        panic!("{found:?}")
    };
    let text = format!("\"{}\"… is not declared", "n".repeat(60));
    assert!(remark.text.starts_with(&text), "{remark}");
}

#[test]
fn many_similar_names_are_compared_within_a_budget() {
    let undeclared = |number: usize| json!(format!("${{w{number:05}}}"));
    assert_eq!(
        checked(variables(20_000, undeclared)).remarks.len(),
        MAX_FINDINGS
    );
    let fields = (0..60_000).map(|number| (format!("propertie{number}"), json!(1)));
    let mut fields: Map<String, Value> = fields.collect();
    fields.insert("type".to_owned(), json!("a:b:C"));
    checked(json!({ "resources": { "r": fields } }));
    let fields = (0..60_000).map(|number| (format!("variable{number}"), json!(1)));
    assert_eq!(
        checked(Value::Object(fields.collect())).remarks.len(),
        MAX_FINDINGS
    );
}

#[test]
fn wide_values_are_left_at_the_last_finding() {
    let wide = |item: Value, count: usize| vec![item; count];
    for program in [
        json!({ "outputs": { "k".repeat(400_000): wide(json!("${"), 200_000) } }),
        json!({ "outputs": { "out": { "k".repeat(400_000): wide(json!("${"), 200_000) } } }),
        json!({ "outputs": { "out": wide(json!({ "fn::join": 1 }), 60_000) } }),
        json!({ "resources": { "r": {
            "type": "a:b:C", "options": { "dependsOn": wide(json!("a"), 200_000) },
        } } }),
        json!({ "resources": { "r": {
            "type": "a:b:C", "options": { "replaceWith": wide(json!("${a}a"), 100_000) },
        } } }),
    ] {
        assert_eq!(checked(program).problems.len(), MAX_FINDINGS);
    }
    let functions = json!({ "outputs": { "out": wide(json!({ "fn::jion": 1 }), 60_000) } });
    assert_eq!(checked(functions).remarks.len(), MAX_FINDINGS);
    let plain = json!({ "outputs": { "k".repeat(400_000): wide(json!(1), 400_000) } });
    assert_eq!(checked(plain), Findings::default());
}

#[test]
fn long_texts_are_quoted_in_part() {
    let long = |character: &str| character.repeat(400_000);
    for program in [
        json!({ "outputs": { "out": { format!("fn::{}", long(":")): 1 } } }),
        json!({ "outputs": { "out": { format!("fn::{}", long("x")): "${" } } }),
        json!({ "outputs": { "out": format!("${{{}", long("[\"")) } }),
        json!({ "resources": { long("r"): { "type": long("t") } } }),
        json!({ "variables": { long("v"): format!("${{{}}}", long("v")) } }),
        json!({ long("f"): 1 }),
    ] {
        let found = checked(program);
        assert_ne!(found, Findings::default());
    }
}

/// As deep as a decoded object may be, and deeper: values below the limit are not checked.
#[test]
fn deep_value_is_checked_up_to_a_depth() {
    let deep = |levels: usize, leaf: Value| {
        (0..levels).fold(leaf, |inner, level| match level % 3 {
            0 => json!([inner]),
            1 => json!({ "fn::toJSON": inner }),
            _ => json!({ "k": inner, "other": 1 }),
        })
    };
    let within = checked(json!({ "outputs": { "out": deep(200, json!("${")) } }));
    assert_eq!(within.problems.len(), 1);
    let beyond = checked(json!({ "outputs": { "out": deep(1_000, json!("${")) } }));
    assert_eq!(beyond.problems, []);
    let [remark] = beyond.remarks.as_slice() else {
        panic!("{beyond:?}")
    };
    assert_eq!(
        remark.text,
        "is too deep: what is in it is not checked here"
    );
}
