//! Built-in resources: programs without a provider of their own.

use pulumi_engine_model::{
    property::{Property, UNKNOWN},
    resource::Resource,
    urn::Urn,
};

use super::stage::{STASH, Stage};
use crate::{deployment::Ending, plan::Selection};

pub(super) fn two(first: &str, options: &str) -> String {
    format!(
        "resources:\n  a: {{{STASH}: {{input: {first}}}{options}}}\n  b: {{{STASH}: {{input: '${{a.output}}'}}}}\n"
    )
}

fn state_of(program: &str) -> Vec<Resource> {
    let done = Stage::default().up(program);
    assert_eq!(done.ending, Ending::Succeeded, "{:?}", done.words);
    done.state
}

fn urn(name: &str) -> Urn {
    Urn::new(format!("urn:pulumi:dev::demo::pulumi:index:Stash::{name}"))
}

fn only(name: &str) -> Selection {
    Selection {
        targets: vec![urn(name)],
        ..Selection::default()
    }
}

fn all_same(words: &[String]) -> bool {
    words.iter().all(|word| word.starts_with("same"))
}

#[test]
fn steps_follow_from_program_and_state() {
    let create = ["create demo-dev", "create default", "create a", "create b"];
    let same = ["same demo-dev", "same default", "same a", "same b"];
    let cases: [(&str, String, Vec<&str>); 10] = [
        ("nothing changed", two("1", ""), same.to_vec()),
        (
            "an input changed; the output stays",
            two("2", ""),
            vec![same[0], same[1], "update a", same[3]],
        ),
        (
            "a change that replaces",
            two("2", ", options: {replaceOnChanges: [input]}"),
            vec![
                same[0],
                same[1],
                "create-replacement a",
                "replace a",
                "update b",
                "delete-replaced a",
            ],
        ),
        (
            "a change that replaces, old one first",
            two(
                "2",
                ", options: {replaceOnChanges: [input], deleteBeforeReplace: true}",
            ),
            vec![
                same[0],
                same[1],
                "delete-replaced a",
                "replace a",
                "create-replacement a",
                "update b",
            ],
        ),
        (
            "a change that is ignored",
            two("2", ", options: {ignoreChanges: [input]}"),
            same.to_vec(),
        ),
        (
            "one is gone",
            format!("resources:\n  a: {{{STASH}: {{input: 1}}}}\n"),
            vec![same[0], same[1], same[2], "delete b"],
        ),
        (
            "all are gone",
            "outputs: {}".to_owned(),
            vec![same[0], "delete b", "delete a", "delete default"],
        ),
        (
            "renamed with an alias",
            two("1", "")
                .replace("a:", "c:")
                .replace("a.output", "c.output")
                .replace("{type", "{options: {aliases: [{name: a}]}, type")
                .replacen("b: {options: {aliases: [{name: a}]}, ", "b: {", 1),
            vec![same[0], same[1], "same c", same[3]],
        ),
        (
            "renamed without one",
            two("1", "")
                .replace("a:", "c:")
                .replace("a.output", "c.output"),
            vec![same[0], same[1], "create c", same[3], "delete a"],
        ),
        (
            "a mistake stops deletes",
            "variables: {x: {'fn::select': [9, [1]]}}".to_owned(),
            vec![
                same[0],
                "error: list index 9 out-of-bounds for list of length 1",
            ],
        ),
    ];
    let first = Stage::default().up(&two("1", ""));
    assert_eq!(first.words, create);
    for (name, program, expected) in cases {
        let done = Stage::from(&first.state).up(&program);
        assert_eq!(done.words, expected, "{name}");
        if done.ending == Ending::Succeeded {
            let again = Stage::from(&done.state).up(&program).words;
            assert!(all_same(&again), "{name}: {again:?}");
        }
    }
}

#[test]
fn target_limits_run() {
    let state = state_of(&two("1", ""));
    let limited = |selection: Selection, state: &[Resource]| Stage {
        selection,
        ..Stage::from(state)
    };
    let changed = two("2", "");
    assert_eq!(
        limited(only("a"), &state).up(&changed).words,
        ["same demo-dev", "same default", "update a", "same b"]
    );
    assert_eq!(
        limited(only("b"), &state).up(&changed).words,
        ["same demo-dev", "same default", "same a", "same b"]
    );
    let missing = limited(only("b"), &[]).up(&two("1", "")).words;
    assert_eq!(
        missing[..3],
        ["create demo-dev", "create default", "same a"]
    );
    assert!(
        missing[3].contains("not specified in --target list"),
        "{missing:?}"
    );
    let alone = limited(only("a"), &state).destroy().words;
    assert!(
        alone.len() == 1 && alone[0].contains("Stash::b' will be destroyed"),
        "{alone:?}"
    );
    let both = Selection {
        dependents: true,
        ..only("a")
    };
    assert_eq!(
        limited(both, &state).destroy().words,
        ["delete b", "delete a", "same demo-dev", "same default"]
    );
    assert_eq!(limited(only("b"), &state).refresh().words, ["refresh b"]);
}

#[test]
fn target_dependents_are_included() {
    let program = |input: &str| {
        format!(
            "resources:\n  a: {{{STASH}: {{input: {input}}}}}\n  b: {{{STASH}: {{input: ['${{a.input}}']}}}}\n  c: {{{STASH}: {{input: {input}}}}}\n"
        )
    };
    let state = state_of(&program("1"));
    let run = |dependents| {
        let selection = Selection {
            dependents,
            ..only("a")
        };
        let limited = Stage {
            selection,
            ..Stage::from(&state)
        };
        limited.up(&program("2")).words.split_off(2)
    };
    assert_eq!(run(false), ["update a", "same b", "same c"]);
    assert_eq!(run(true), ["update a", "update b", "same c"]);
}

/// A skipped resource refers to one that the program no longer has: both stay, in order.
#[test]
fn skipped_resource_keeps_dependencies() {
    let state = state_of(&two("1", ""));
    let program =
        format!("resources:\n  b: {{{STASH}: {{input: 1}}}}\n  c: {{{STASH}: {{input: 1}}}}\n");
    let limited = Stage {
        selection: only("c"),
        ..Stage::from(&state)
    };
    let done = limited.up(&program);
    assert_eq!(done.ending, Ending::Succeeded, "{:?}", done.words);
    let names: Vec<_> = done.state.iter().map(|each| each.urn.name()).collect();
    assert_eq!(names, ["demo-dev", "default", "a", "b", "c"]);
}

#[test]
fn protected_resource_keeps_dependencies() {
    let state = state_of(&two("1", ", options: {protect: true}"));
    let done = Stage::from(&state).destroy();
    assert_eq!(done.words[..2], ["delete b", "delete a"]);
    assert!(done.words[2].contains("protected"), "{:?}", done.words);
    assert_eq!((done.words.len(), done.state.len()), (3, 3));
    assert_eq!(done.ending, Ending::Failed);
}

#[test]
fn protected_resource_is_not_replaced() {
    let options = ", options: {protect: true, replaceOnChanges: ['*'], customTimeouts: {create: 90s}, hideDiffs: ['input.x[0]']}";
    let first = Stage::default().up(&two("1", options));
    let a = first.find("a");
    assert_eq!(a.custom_timeouts["create"], serde_json::json!(90));
    assert_eq!(a.hide_diff, ["input.x[0]"]);
    let refused = Stage::from(&first.state).up(&two("2", options)).words;
    assert!(
        refused.last().unwrap().contains("marked for protection"),
        "{refused:?}"
    );
    let free = two("2", &options.replace("true", "false"));
    let free = Stage::from(&first.state).up(&free).words;
    assert!(free.contains(&"replace a".to_owned()), "{free:?}");
}

#[test]
fn ignore_and_replace_on_changes_match_paths() {
    let state = state_of(&two("{x: 1, y: 1}", ""));
    for (input, options, expected) in [
        ("{x: 1, y: 2}", "ignoreChanges: ['input.y']", "same a"),
        ("{x: 2, y: 2}", "ignoreChanges: ['input.y']", "update a"),
        ("{x: 2, y: 1}", "replaceOnChanges: ['input.y']", "update a"),
        // the diff of a stash has no path
        ("{x: 1, y: 2}", "replaceOnChanges: ['input.y']", "update a"),
        (
            "{x: 1, y: 2}",
            "replaceOnChanges: ['input']",
            "create-replacement a",
        ),
    ] {
        let program = two(input, &format!(", options: {{{options}}}"));
        let done = Stage::from(&state).up(&program);
        assert_eq!(done.words[2], expected, "{input} {options}");
    }
}

#[test]
fn replace_with_replaces_together() {
    let program = |input: &str| {
        format!(
            "resources:\n  a: {{{STASH}: {{input: {input}}}, options: {{replaceOnChanges: ['*']}}}}\n  c: {{{STASH}: {{input: 1}}, options: {{replaceWith: ['${{a}}']}}}}\n"
        )
    };
    let first = Stage::default().up(&program("1"));
    let with: Vec<_> = first.find("c").replace_with.iter().map(Urn::name).collect();
    assert_eq!(with, ["a"]);
    let done = Stage::from(&first.state).up(&program("2"));
    let expected = [
        "same demo-dev",
        "same default",
        "create-replacement a",
        "replace a",
        "create-replacement c",
        "replace c",
        "delete-replaced c",
        "delete-replaced a",
    ];
    assert_eq!(done.words, expected);
    let again = Stage::from(&done.state).up(&program("2")).words;
    assert!(all_same(&again), "{again:?}");
}

#[test]
fn target_may_be_pattern() {
    let state = state_of(&two("1", ""));
    for (pattern, expected) in [
        ("**::a", vec!["refresh a"]),
        (
            "urn:pulumi:dev::demo::pulumi:index:*::*",
            vec!["refresh a", "refresh b"],
        ),
        ("urn:*::a", vec![]),
        ("**Stash**", vec!["refresh a", "refresh b"]),
    ] {
        let selection = Selection {
            targets: vec![Urn::new(pattern)],
            ..Selection::default()
        };
        let limited = Stage {
            selection,
            ..Stage::from(&state)
        };
        assert_eq!(limited.refresh().words, expected, "{pattern}");
    }
}

#[test]
fn stack_reference_function_reads_output() {
    let program = "variables: {x: {'fn::stackReference': [base, x]}}\nresources:\n  a: {type: 'pulumi:index:Stash', properties: {input: '${x}'}}\noutputs: {x: '${x}', y: {'fn::stackReference': [base, x]}}\n";
    let done = Stage::default().up(program);
    let steps = done
        .words
        .iter()
        .filter(|word| !word.starts_with("warning"));
    assert_eq!(
        steps.collect::<Vec<_>>(),
        ["create demo-dev", "create default", "read base", "create a"]
    );
    assert_eq!(
        format!("{:?}", done.state[0].outputs.as_ref().unwrap()),
        r#"{"x": true, "y": true}"#
    );
    let needs: Vec<_> = done.find("a").dependencies.iter().map(Urn::name).collect();
    assert_eq!(needs, ["base"]);
    let gone = Stage::from(&done.state).up("outputs: {}");
    assert!(
        gone.words.contains(&"discard base".to_owned()),
        "{:?}",
        gone.words
    );
}

#[test]
fn preview_of_new_resource_has_unknown_id() {
    let program = format!(
        "resources:\n  a: {{{STASH}: {{input: 1}}}}\n  b: {{{STASH}: {{input: 'x-${{a.id}}'}}}}\noutputs: {{b: '${{b.output}}', u: '${{a.urn}}'}}\n"
    );
    let preview = Stage {
        preview: true,
        ..Stage::default()
    };
    let preview = preview.up(&program);
    assert_eq!(preview.outputs["b"], Property::String(UNKNOWN.into()));
    assert!(preview.saves.is_empty());
    let up = Stage::default().up(&program);
    assert_eq!(up.outputs["b"], Property::String("x-id-2".into()));
}

#[test]
fn values_keep_dependencies_and_secrecy() {
    let program = format!(
        "variables: {{m: {{s: '${{closed}}', o: '${{open}}'}}}}\nresources:\n  a: {{{STASH}: {{input: {{n: '${{closed}}', m: 1}}}}}}\n  b: {{{STASH}: {{input: '${{a.input.m}}'}}, options: {{dependsOn: ['${{r}}']}}}}\n  r: {{type: 'pulumi:pulumi:StackReference', properties: {{name: base}}}}\noutputs: {{open: '${{m.o}}', closed: '${{m.s}}', mixed: '${{m}}', text: 'x${{a.input.n}}', x: '${{r.outputs.x}}'}}\n"
    );
    let done = Stage::default().up(&program);
    let shown =
        ["open", "closed", "mixed", "text", "x"].map(|name| format!("{:?}", done.outputs[name]));
    assert_eq!(shown, ["\"o\"", "[secret]", "[secret]", "[secret]", "true"]);
    let b = done.find("b");
    let names: Vec<_> = b.dependencies.iter().map(Urn::name).collect();
    assert_eq!(names, ["a", "r"]);
    assert_eq!(format!("{:?}", b.inputs.as_ref().unwrap()["input"]), "1");
}

/// The state is in program order, independent of the timing of threads.
#[test]
fn parallel_run_leaves_same_state_as_serial() {
    let lines: Vec<_> = (0..40)
        .map(|number| {
            let input = match number {
                0..8 => "1".to_owned(),
                _ => format!("'${{r{}.input}}'", number - 8),
            };
            format!("  r{number}: {{{STASH}: {{input: {input}}}}}")
        })
        .collect();
    let program = format!("resources:\n{}\n", lines.join("\n"));
    let run = |parallel| {
        let stage = Stage {
            parallel,
            ..Stage::default()
        };
        let done = stage.up(&program);
        let names = done.state.iter().map(|each| each.urn.name().to_owned());
        (names.collect::<Vec<_>>(), done.changes, done.state)
    };
    let (names, changes, _) = run(1);
    let (many, many_changes, state) = run(8);
    assert_eq!((names, changes), (many, many_changes));
    let gone = Stage {
        parallel: 8,
        ..Stage::from(&state)
    };
    let gone = gone.destroy();
    assert_eq!((gone.state.len(), gone.ending), (0, Ending::Succeeded));
}
