//! Texts and wire formats of git.

use pko_source::git::fuzz;
use pko_testkit::fuzz_timed;
use proptest::prelude::*;

#[test]
fn addresses() {
    let text = prop_oneof![
        "(https?|ssh|file|ext|git)?(://|::|:)?([a-z%@:]{0,8}@)?[a-zA-Z0-9.\\[\\]:-]{0,12}(:[0-9]{0,5})?[/a-z.%~ é-]{0,12}",
        "(git@)?[a-z.\\[\\]:-]{1,10}:[~/a-z.-]{0,10}",
        any::<String>(),
    ];
    fuzz_timed(&text, |text| fuzz::address(&text));
}

#[test]
fn revisions() {
    let text = prop_oneof![
        "(refs/)?(heads/|tags/|pull/)?[a-zA-Z0-9/.@{}^~:*?\\[ -]{0,12}",
        "[0-9a-fA-F]{38,42}",
        any::<String>(),
    ];
    fuzz_timed(&text, |text| fuzz::revision(&text));
}

#[test]
fn advertisements() {
    let text = prop_oneof![
        Just("version 2\n".to_owned()),
        Just("# service=git-upload-pack\n".to_owned()),
        "[0-9a-f]{40} (refs/(heads|tags)/)?[a-z./^{}\\x00 =:-]{0,20}\n?",
        "(ERR|shallow|unborn|version) ?[a-z0-9 ]{0,12}",
        "[a-z-]{1,12}=[a-z0-9 ]{0,12}\n",
    ];
    let line = prop_oneof![
        text.prop_map(|text| format!("{:04x}{text}", text.len() + 4).into_bytes()),
        Just(b"0000".to_vec()),
        Just(b"0001".to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    let lines = prop::collection::vec(line, 0..8);
    fuzz_timed(&lines, |lines| fuzz::advertisement(&lines.concat()));
}

#[test]
fn files_of_submodules() {
    let text = prop_oneof![
        "(\\[submodule \"[a-z\\\\\"\\]]{0,4}\"\\]\n|\t?(path|url) ?= ?[a-z\"#;\\\\/.]{0,10}\n){0,6}",
        any::<String>(),
    ];
    fuzz_timed(&text, |text| fuzz::gitmodules(&text));
}

#[test]
fn symbolic_links() {
    let link = (
        "[ab](/[ab]){0,2}",
        "((\\.\\./){0,3}([ab]/|\\.\\./){0,3}[ab.]{0,2}|/etc)",
    );
    let links = prop::collection::vec(link, 1..5);
    fuzz_timed(&links, |links| fuzz::links(&links));
}

#[test]
fn packs() {
    let data = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        // A delta: both sizes, then copy and insert instructions.
        (
            0_u8..20,
            0_u8..40,
            prop::collection::vec(any::<u8>(), 0..12)
        )
            .prop_map(|(base, result, rest)| { [vec![base, result], rest].concat() }),
        (0_u8..20).prop_map(|length| vec![length, length, 0x90, length]),
    ];
    let object = (
        0_u8..8,
        prop::option::weighted(0.1, any::<u16>()),
        0_u8..60,
        data,
    );
    let object = object.prop_map(|(kind, size, back, data)| fuzz::PackedObject {
        kind,
        size: size.unwrap_or(u16::try_from(data.len()).unwrap_or_default()),
        back,
        data,
    });
    let objects = prop::collection::vec(object, 0..6);
    fuzz_timed(&objects, |objects| fuzz::pack(&objects));
}
