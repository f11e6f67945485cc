//! Strange texts, ten seconds of each kind (`PKO_FUZZ_SECONDS` for another time). What is tried at
//! random here, `cargo xtask test --full` has a coverage-guided fuzzer try.

use pko_testkit::fuzz_timed;
use proptest::prelude::*;

#[test]
fn fuzz_env_files() {
    let text = prop_oneof![
        "[A-Z_a-z0-9=:#'\"$\\\\{} \n\r\t.]{0,120}",
        "(export )?[A-Z]{1,3}[=:] ?['\"]?(\\$\\{?[A-Z]{1,2}\\}?|[a-z\\\\\n]){0,8}['\"]?( #x)?\n",
        any::<String>(),
    ];
    fuzz_timed(&prop::collection::vec(text, 0..4), |texts| {
        pko_agent::fuzz::env_file(&texts.concat());
    });
}

#[test]
fn fuzz_config_keys() {
    let key = prop_oneof![
        "[a-z.:=\\[\\]\"\\\\]{0,20}",
        "([a-z.]{1,5}:)?(config:)?\\[?\"?[a-z.=]{0,8}\"?\\]?(\\[[0-9]{1,3}\\])?",
        any::<String>(),
    ];
    let item = (key, any::<String>(), any::<bool>(), any::<bool>());
    fuzz_timed(&item, |(key, value, path, secret)| {
        pko_agent::fuzz::config_key(&key, &value, path, secret);
    });
}

#[test]
fn fuzz_event_logs() {
    let event = prop_oneof![
        Just(r#"{"summaryEvent":{"resourceChanges":{"create":3}}}"#.to_owned()),
        Just(r#"{"resOutputsEvent":{"metadata":{"type":"pulumi:pulumi:Stack","new":{"outputs":{"a":{"4dabf18193072939515e22adb298388d":"x"}}}}}}"#.to_owned()),
        Just(r#"{"resOutputsEvent":{"metadata":{"type":"pulumi:pulumi:Stack","new":null}}}"#.to_owned()),
        "[{}\\[\\]\":,a-zA-Z0-9.\\\\-]{0,60}",
        any::<String>(),
    ];
    // A byte of it is another one, or it is cut.
    let damaged = (event, any::<prop::sample::Index>(), any::<Option<u8>>());
    let damaged = damaged.prop_map(|(event, at, byte)| {
        let mut bytes = event.into_bytes();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            match byte {
                Some(byte) => bytes[at] = byte,
                None if at % 2 == 0 => bytes.truncate(at),
                None => {}
            }
        }
        bytes
    });
    fuzz_timed(&prop::collection::vec(damaged, 0..6), |lines| {
        pko_agent::fuzz::event_log(&lines.join(&b'\n'));
    });
}
