//! This engine held against what the real CLI answered, call by call: exit code, output, events and
//! config file.

use std::fs;

use pko_testkit::transcripts::{TranscriptReplay, between};

use crate::stage::ENGINE;

/// The program of the transcripts up to 42; those from 50 on have theirs beside them.
const PROGRAM: &str = r#"name: demo
runtime: yaml
config:
  greeting: {type: string}
  size: {type: integer}
  token: {type: string, secret: true}
resources:
  first:
    type: pulumi:index:Stash
    properties: {input: "v${size}"}
  second:
    type: pulumi:index:Stash
    properties:
      input: {text: "${greeting}", from: "${first.output}", list: [1, true, null, 2.5]}
outputs:
  first: ${first.output}
  second: ${second.output}
  hidden: {fn::secret: s3cr3t}
  nested: {plain: 1, deep: {fn::secret: {k: v}}}
"#;

/// Calls whose texts are this engine's own, each with the reason. Exit codes and events are the
/// same.
const OWN_TEXT: [(&str, &str); 14] = [
    ("01-version", "the version of this engine"),
    ("21-history", "the environment of the run"),
    ("28-refresh", "times, and resources come in any order"),
    ("29-up-bad-reference", "the language host's own colors"),
    ("30-up-bad-yaml", "another YAML parser"),
    ("31-up-missing-plugin", "this engine runs no plugin"),
    ("38-env-add-diy", "no command to log in"),
    ("39-destroy-protect", "diagnostics come in any order"),
    ("40-destroy", "times, and a line about a stack that is gone"),
    ("55-small-history", "the environment of the run"),
    ("58-small-refresh", "resources come in any order"),
    ("61-small-log-level", "no logs of its own"),
    (
        "80-small-destroy",
        "times, and a line about a stack that is gone",
    ),
    ("99-no-project", "no command to make a project"),
];

/// Calls that this engine answers in another way, each with the reason.
const OTHERWISE: [(&str, &str); 5] = [
    ("77-config-object-secret", "a structured secret is taken"),
    ("87-assets-up", "the hash of a folder with a new salt in it"),
    ("88-assets-output", "the same"),
    (
        "89-install-go",
        "another language is refused by its own text",
    ),
    (
        "91-up-interrupted",
        "a run that was canceled ends with the code that is documented for it",
    ),
];

fn replay() -> TranscriptReplay {
    TranscriptReplay::new(ENGINE)
        .ignore_text(OWN_TEXT.map(|(name, _)| name))
        .skip(OTHERWISE.map(|(name, _)| name))
}

#[test]
fn stack_lifecycle_matches_transcripts() {
    let mut replay = replay();
    replay.write(PROGRAM);
    for name in between("01", "42") {
        let other = PROGRAM.replace("v${size}", "w${size}");
        let renamed = PROGRAM.replace("  second:\n    type", "  third:\n    type");
        let renamed = renamed.replace("${second.output}", "${third.output}");
        match name.get(..2).unwrap() {
            "25" => replay.write(&other),
            "27" | "32" => replay.write(&renamed),
            "29" => replay.write(&renamed.replace("${greeting}", "${greting}")),
            "30" => replay.write("name: demo\nruntime: yaml\nresources: [\n"),
            "31" => replay.write(&renamed.replacen("pulumi:index:Stash", "nosuch:index:Thing", 1)),
            "33" => lock(&replay),
            _ => {}
        }
        replay.run(&name);
    }
    replay.finish();
}

/// Somebody else holds the lock.
fn lock(replay: &TranscriptReplay) {
    let locks = replay.path("state/.pulumi/locks/organization/demo/dev");
    fs::create_dir_all(&locks).unwrap();
    let content = r#"{"pid":4242,"username":"pulumi","hostname":"demo-workspace-0","timestamp":"2026-01-02T03:04:05Z"}"#;
    let file = locks.join("8a8b7f3e-0000-4000-8000-000000000001.json");
    fs::write(file, content).unwrap();
}

#[test]
fn small_stack_lifecycle_matches_transcripts() {
    let mut replay = replay();
    for name in between("50", "88") {
        replay.run(&name);
    }
    replay.finish();
}

#[test]
fn changes_of_a_program() {
    let mut replay = replay();
    for name in between("92", "99") {
        replay.run(&name);
    }
    replay.finish();
}
