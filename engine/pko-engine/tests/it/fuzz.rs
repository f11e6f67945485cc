//! Strange programs, states and texts, a bounded number of each; `cargo xtask test --full` has a
//! coverage-guided fuzzer try the same entry points.

use pko_engine::fuzz;
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

/// Tries so many inputs, and keeps no files of those that failed.
fn try_many<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value)) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let tried = TestRunner::new(config).run(strategy, |input| {
        test(input);
        Ok(())
    });
    tried.unwrap();
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("'${secret}'".to_owned()),
        Just("'${a.output}'".to_owned()),
        Just("'${v}'".to_owned()),
        Just("'x${secret}y${v}$$'".to_owned()),
        Just("'${v[0].k[\"q\"]}'".to_owned()),
        Just("null".to_owned()),
        Just("-1.5e3".to_owned()),
        Just("notes".to_owned()),
        Just("site".to_owned()),
        "'[a-z${}.\\[\\]\"0-9]{0,8}'",
        "[a-z0-9]{0,5}",
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let functions = [
            "join",
            "split",
            "select",
            "toJSON",
            "toBase64",
            "fromBase64",
            "secret",
            "readFile",
            "sha1",
            "length",
            "singleOrNone",
            "filebase64",
            "stringAsset",
            "fileAsset",
            "fileArchive",
            "assetArchive",
            "stackReference",
            "pulumiResourceName",
            "invoke",
            "a:b:c",
            "nosuch",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{k: {a}, '${{v}}': {b}}}")),
            (prop::sample::select(functions.to_vec()), inner.clone())
                .prop_map(|(name, argument)| format!("{{'fn::{name}': {argument}}}")),
            (
                prop::sample::select(functions.to_vec()),
                inner.clone(),
                inner
            )
                .prop_map(|(name, a, b)| format!("{{'fn::{name}': [{a}, {b}]}}")),
        ]
    })
}

#[test]
fn programs() {
    let option = prop::sample::select(vec![
        "dependsOn",
        "parent",
        "protect",
        "aliases",
        "provider",
        "get",
        "version",
        "customTimeouts",
        "ignoreChanges",
        "nosuch",
    ]);
    let shaped = (expression(), expression(), option, expression()).prop_map(|(variable, input, option, value)| {
        format!(
            "variables: {{v: {variable}}}\nresources: {{a: {{type: 'pulumi:index:Stash', properties: {{input: {input}}}, options: {{{option}: {value}}}}}, b: {{type: 'pulumi:index:Stash', properties: {{input: {value}}}}}}}\noutputs: {{o: {variable}, p: {value}, q: '${{b.output}}'}}\n"
        )
    });
    let text = prop_oneof![
        4 => shaped,
        1 => "((variables|resources|outputs|config|pulumi|get|type): ?[\\[{]?[a-z&*!|>'\"${}]{0,8}[\\]}]?\n {0,4}){0,8}",
        1 => any::<String>(),
    ];
    try_many(400, &text, |text| fuzz::program(&text));
}

#[test]
fn states() {
    let valid = r#"{"version":3,"checkpoint":{"stack":"organization/p/s","latest":{"manifest":{"time":"t","magic":"m","version":"v"},"secrets_providers":{"type":"passphrase","state":{"salt":"v1:x"}},"resources":[{"urn":"urn:pulumi:s::p::t:t:T::n","custom":true,"type":"t:t:T","inputs":{"a":[1,null,{"4dabf18193072939515e22adb298388d":"1b47061264138c4ac30d75fd1eb44270","ciphertext":"c"}]},"future":1}],"metadata":{}}}}"#;
    let damaged = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        "[{}\\[\\]\":,a-z0-9.\\\\-]{0,12}",
    );
    let damaged = damaged.prop_map(move |(from, to, between)| {
        let (from, to) = (from.index(valid.len()), to.index(valid.len()));
        let bytes = valid.as_bytes();
        [
            &bytes[..from.min(to)],
            between.as_bytes(),
            &bytes[from.max(to)..],
        ]
        .concat()
    });
    let bytes = prop_oneof![3 => damaged, 1 => prop::collection::vec(any::<u8>(), 0..200)];
    try_many(4000, &bytes, |bytes| fuzz::state(&bytes));
    fuzz::state(valid.as_bytes());
}

#[test]
fn interpolations() {
    let text = prop_oneof![
        "[a${}.\\[\\]\"\\\\0-9 ]{0,40}",
        "(\\$\\{[a-z]{1,3}(\\.[a-z]|\\[[0-9]{1,25}\\]|\\[\"[a-z\\\\\"]{0,4}\"\\]){0,4}\\}|\\$\\$|x){0,6}",
        any::<String>(),
    ];
    try_many(4000, &text, |text| fuzz::interpolation(&text));
}
