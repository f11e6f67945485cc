//! Programs against states: which steps, in which order, and what is left at any moment.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, Plan, Selection, deletion, refresh, registration, snapshot::Snapshot};
use crate::{
    program::{evaluate::Surroundings, files::InMemory, parse},
    property::{Properties, Property},
    resource::Resource,
    syntax,
    urn::{StackIdentity, Urn},
};

struct Nothing;

impl registration::World for Nothing {
    fn stack_outputs(&self, name: &str) -> Result<Properties, String> {
        match name {
            "base" => Ok(Properties::from([("x".to_owned(), Property::Bool(true))])),
            other => Err(format!("no stack named '{other}' found")),
        }
    }
}

fn planned(text: &str, old: &[Resource], selection: &Selection, preview: bool) -> Plan {
    let program = parse::parse(&syntax::parse(text).unwrap()).unwrap();
    let stack = StackIdentity {
        organization: "organization".into(),
        project: "demo".into(),
        name: "dev".into(),
    };
    let config = BTreeMap::from([
        ("open".to_owned(), Property::String("o".into())),
        (
            "closed".to_owned(),
            Property::String("c".into()).into_secret(),
        ),
    ]);
    let request = registration::Request {
        program: &program,
        surroundings: Surroundings {
            stack: &stack,
            config: &config,
            working_directory: "/program",
            root_directory: "/project",
            files: &InMemory::default(),
        },
        old,
        selection,
        preview,
        now: "now".to_owned(),
    };
    let mut last = old.len();
    registration::plan(&request, &Nothing, &mut || {
        last += 1;
        format!("id-{last}")
    })
}

/// Steps and failures in words.
fn words(plan: &Plan) -> Vec<String> {
    plan.actions
        .iter()
        .filter_map(|action| match action {
            Action::Step(step) => {
                let refused = if step.refusal.is_some() {
                    "refused "
                } else {
                    ""
                };
                Some(format!(
                    "{refused}{} {}",
                    step.operation.name(),
                    step.urn.name()
                ))
            }
            Action::StackOutputs(_) => None,
            Action::Failure(failure) => Some(format!("error: {}", failure.diagnostic.message)),
        })
        .collect()
}

/// Does a plan; at each moment every resource must stand after all it refers to.
fn done(plan: &Plan, old: &[Resource]) -> Vec<Resource> {
    let mut snapshot = Snapshot::new(old.to_vec());
    for action in &plan.actions {
        match action {
            Action::Step(step) if step.refusal.is_none() => snapshot.apply(step),
            Action::StackOutputs(Some(outputs)) => {
                let stack = Urn::new("urn:pulumi:dev::demo::pulumi:pulumi:Stack::demo-dev");
                snapshot.set_outputs(&stack, outputs);
            }
            _ => {}
        }
        let mut seen = BTreeSet::new();
        for resource in snapshot.resources() {
            for reference in resource.references() {
                assert!(
                    seen.contains(reference),
                    "{} stands before {reference}",
                    resource.urn
                );
            }
            seen.insert(resource.urn.to_string());
        }
    }
    snapshot.resources()
}

const STASH: &str = "type: 'pulumi:index:Stash', properties";

fn two(first: &str, options: &str) -> String {
    format!(
        "resources:\n  a: {{{STASH}: {{input: {first}}}{options}}}\n  b: {{{STASH}: {{input: '${{a.output}}'}}}}\n"
    )
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
    let first = planned(&two("1", ""), &[], &Selection::default(), false);
    assert_eq!(words(&first), create);
    let state = done(&first, &[]);
    for (name, program, expected) in cases {
        let plan = planned(&program, &state, &Selection::default(), false);
        assert_eq!(words(&plan), expected, "{name}");
        let state = done(&plan, &state);
        if !words(&plan).iter().any(|word| word.starts_with("error")) {
            let again = words(&planned(&program, &state, &Selection::default(), false));
            assert!(
                again.iter().all(|word| word.starts_with("same")),
                "{name}: {again:?}"
            );
        }
    }
}

#[test]
fn targets_limit_a_run() {
    let urn = |name: &str| Urn::new(format!("urn:pulumi:dev::demo::pulumi:index:Stash::{name}"));
    let only = |name: &str| Selection {
        targets: vec![urn(name)],
        ..Selection::default()
    };
    let state = done(
        &planned(&two("1", ""), &[], &Selection::default(), false),
        &[],
    );
    let changed = two("2", "");
    assert_eq!(
        words(&planned(&changed, &state, &only("a"), false)),
        ["same demo-dev", "same default", "update a", "same b"]
    );
    assert_eq!(
        words(&planned(&changed, &state, &only("b"), false)),
        ["same demo-dev", "same default", "same a", "same b"]
    );
    let missing = words(&planned(&two("1", ""), &[], &only("b"), false));
    assert!(
        missing[1].contains("not specified in --target list"),
        "{missing:?}"
    );
    let alone = words(&deletion::plan(&state, &only("a")));
    assert!(
        alone.len() == 1 && alone[0].contains("Stash::b' will be destroyed"),
        "{alone:?}"
    );
    let both = Selection {
        dependents: true,
        ..only("a")
    };
    assert_eq!(
        words(&deletion::plan(&state, &both)),
        ["delete b", "delete a", "same demo-dev", "same default"]
    );
    assert_eq!(words(&refresh::plan(&state, &only("b"))), ["refresh b"]);
}

#[test]
fn what_is_protected_stays() {
    let state = done(
        &planned(
            &two("1", ", options: {protect: true}"),
            &[],
            &Selection::default(),
            false,
        ),
        &[],
    );
    let plan = deletion::plan(&state, &Selection::default());
    assert_eq!(
        words(&plan),
        [
            "delete b",
            "refused delete a",
            "delete default",
            "delete demo-dev"
        ]
    );
}

#[test]
fn what_is_protected_is_not_replaced() {
    let options = ", options: {protect: true, replaceOnChanges: ['*'], customTimeouts: {create: 90s}, hideDiffs: ['input.x[0]']}";
    let all = Selection::default();
    let state = done(&planned(&two("1", options), &[], &all, false), &[]);
    let a = state
        .iter()
        .find(|resource| resource.urn.name() == "a")
        .unwrap();
    assert_eq!(a.custom_timeouts["create"], serde_json::json!(90.0));
    assert_eq!(a.hide_diff, [serde_json::json!(["input", "x", 0])]);
    let refused = words(&planned(&two("2", options), &state, &all, false));
    assert!(
        refused.last().unwrap().contains("marked for protection"),
        "{refused:?}"
    );
    let free = words(&planned(
        &two("2", &options.replace("true", "false")),
        &state,
        &all,
        false,
    ));
    assert!(free.contains(&"replace a".to_owned()), "{free:?}");
}

#[test]
fn a_replacement_that_was_cut_short_goes_on() {
    let options = ", options: {replaceOnChanges: ['*'], deleteBeforeReplace: true}";
    let all = Selection::default();
    let state = done(&planned(&two("1", options), &[], &all, false), &[]);
    let mut cut = planned(&two("2", options), &state, &all, false);
    cut.actions.truncate(3);
    assert_eq!(
        words(&cut),
        ["same demo-dev", "same default", "delete-replaced a"]
    );
    let state = done(&cut, &state);
    assert_eq!(
        state
            .iter()
            .filter(|resource| resource.pending_replacement)
            .count(),
        1
    );
    let plan = planned(&two("2", options), &state, &all, false);
    let expected = [
        "same demo-dev",
        "same default",
        "replace a",
        "create-replacement a",
        "update b",
    ];
    assert_eq!(words(&plan), expected);
    let state = done(&plan, &state);
    assert!(state.iter().all(|resource| !resource.pending_replacement));
    assert_eq!(state.len(), 4);
}

#[test]
fn changes_count_by_their_place() {
    let state = done(
        &planned(&two("{x: 1, y: 1}", ""), &[], &Selection::default(), false),
        &[],
    );
    for (input, options, expected) in [
        ("{x: 1, y: 2}", "ignoreChanges: ['input.y']", "same a"),
        ("{x: 2, y: 2}", "ignoreChanges: ['input.y']", "update a"),
        ("{x: 2, y: 1}", "replaceOnChanges: ['input.y']", "update a"),
        (
            "{x: 1, y: 2}",
            "replaceOnChanges: ['input.y']",
            "create-replacement a",
        ),
    ] {
        let program = two(input, &format!(", options: {{{options}}}"));
        let plan = planned(&program, &state, &Selection::default(), false);
        assert_eq!(words(&plan)[2], expected, "{input} {options}");
    }
}

#[test]
fn what_goes_with_another_is_replaced_with_it() {
    let program = |input: &str| {
        format!(
            "resources:\n  a: {{{STASH}: {{input: {input}}}, options: {{replaceOnChanges: ['*']}}}}\n  c: {{{STASH}: {{input: 1}}, options: {{replaceWith: ['${{a}}']}}}}\n"
        )
    };
    let all = Selection::default();
    let state = done(&planned(&program("1"), &[], &all, false), &[]);
    let c = state
        .iter()
        .find(|resource| resource.urn.name() == "c")
        .unwrap();
    assert_eq!(
        c.replace_with.iter().map(Urn::name).collect::<Vec<_>>(),
        ["a"]
    );
    let plan = planned(&program("2"), &state, &all, false);
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
    assert_eq!(words(&plan), expected);
    let state = done(&plan, &state);
    let again = words(&planned(&program("2"), &state, &all, false));
    assert!(
        again.iter().all(|word| word.starts_with("same")),
        "{again:?}"
    );
}

/// Twenty resources in chains of five; `change` is the input of each chain's first.
fn chains(change: &str, options: &str) -> String {
    let mut lines = vec!["resources:".to_owned()];
    for chain in 0..4 {
        let first = format!("  c{chain}r0: {{{STASH}: {{input: {change}}}{options}}}");
        lines.push(first);
        for link in 1..5 {
            let input = format!("'${{c{chain}r{}.input}}'", link - 1);
            let next = format!("  c{chain}r{link}: {{{STASH}: {{input: {input}}}{options}}}");
            lines.push(next);
        }
    }
    lines.join("\n")
}

/// The state is written after each step, so that a killed run leaves what it had done so far.
#[test]
fn a_run_that_is_cut_short_anywhere_is_finished_by_the_next() {
    let replace = ", options: {replaceOnChanges: ['*']}";
    let delete_first = ", options: {replaceOnChanges: ['*'], deleteBeforeReplace: true}";
    let all = Selection::default();
    let run = |program: &str, state: &[Resource]| planned(program, state, &all, false);
    let none: Vec<Resource> = Vec::new();
    let first = |options: &str| done(&run(&chains("1", options), &none), &none);
    for (name, before, program) in [
        ("create", none.clone(), chains("1", "")),
        ("update", first(""), chains("2", "")),
        ("replace", first(replace), chains("2", replace)),
        (
            "delete, then create",
            first(delete_first),
            chains("2", delete_first),
        ),
        ("delete", first(""), "outputs: {}".to_owned()),
    ] {
        let whole = run(&program, &before);
        let names = |state: &[Resource]| -> BTreeSet<Urn> {
            state.iter().map(|resource| resource.urn.clone()).collect()
        };
        let wanted = names(&done(&whole, &before));
        for cut in 0..=whole.actions.len() {
            let mut killed = whole.clone();
            killed.actions.truncate(cut);
            let left = done(&killed, &before);
            let plan = run(&program, &left);
            let state = done(&plan, &left);
            assert_eq!(names(&state), wanted, "{name}, cut at {cut}");
            assert_eq!(
                state.len(),
                wanted.len(),
                "{name}, cut at {cut}: one is there twice"
            );
            let again = words(&run(&program, &state));
            assert!(
                again.iter().all(|word| word.starts_with("same")),
                "{name}, cut at {cut}: {again:?}"
            );
        }
    }
}

#[test]
fn targets_may_be_patterns() {
    let state = done(
        &planned(&two("1", ""), &[], &Selection::default(), false),
        &[],
    );
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
        assert_eq!(
            words(&refresh::plan(&state, &selection)),
            expected,
            "{pattern}"
        );
    }
}

#[test]
fn another_stacks_output_is_read_by_a_function() {
    let program = "variables: {x: {'fn::stackReference': [base, x]}}\nresources:\n  a: {type: 'pulumi:index:Stash', properties: {input: '${x}'}}\noutputs: {x: '${x}', y: {'fn::stackReference': [base, x]}}\n";
    let plan = planned(program, &[], &Selection::default(), false);
    assert_eq!(
        words(&plan),
        ["create demo-dev", "create default", "read base", "create a"]
    );
    let state = done(&plan, &[]);
    assert_eq!(
        format!("{:?}", state[0].outputs.as_ref().unwrap()),
        r#"{"x": true, "y": true}"#
    );
    let a = state
        .iter()
        .find(|resource| resource.urn.name() == "a")
        .unwrap();
    assert_eq!(
        a.dependencies.iter().map(Urn::name).collect::<Vec<_>>(),
        ["base"]
    );
}

#[test]
fn a_preview_does_not_know_new_ids() {
    let program = format!(
        "resources:\n  a: {{{STASH}: {{input: 1}}}}\n  b: {{{STASH}: {{input: 'x-${{a.id}}'}}}}\noutputs: {{b: '${{b.output}}', u: '${{a.urn}}'}}\n"
    );
    let preview = planned(&program, &[], &Selection::default(), true);
    let outputs = |plan: &Plan| {
        plan.actions.iter().find_map(|action| match action {
            Action::StackOutputs(outputs) => outputs.clone(),
            _ => None,
        })
    };
    assert_eq!(outputs(&preview).unwrap()["b"], Property::Unknown);
    let up = planned(&program, &[], &Selection::default(), false);
    assert_eq!(
        outputs(&up).unwrap()["b"],
        Property::String("x-id-2".into())
    );
}

#[test]
fn values_keep_their_history() {
    let program = format!(
        "variables: {{m: {{s: '${{closed}}', o: '${{open}}'}}}}\nresources:\n  a: {{{STASH}: {{input: {{n: '${{closed}}', m: 1}}}}}}\n  b: {{{STASH}: {{input: '${{a.input.m}}'}}, options: {{dependsOn: '${{r}}'}}}}\n  r: {{type: 'pulumi:pulumi:StackReference', properties: {{name: base}}}}\noutputs: {{open: '${{m.o}}', closed: '${{m.s}}', mixed: '${{m}}', text: 'x${{a.input.n}}', x: '${{r.outputs.x}}'}}\n"
    );
    let plan = planned(&program, &[], &Selection::default(), false);
    let state = done(&plan, &[]);
    let shown = |name: &str| {
        let outputs = state[0].outputs.as_ref().unwrap();
        format!("{:?}", outputs[name])
    };
    assert_eq!(
        [
            shown("open"),
            shown("closed"),
            shown("mixed"),
            shown("text"),
            shown("x")
        ],
        ["\"o\"", "[secret]", "[secret]", "[secret]", "true"]
    );
    let b = state
        .iter()
        .find(|resource| resource.urn.name() == "b")
        .unwrap();
    let names: Vec<_> = b.dependencies.iter().map(Urn::name).collect();
    assert_eq!(names, ["a", "r"]);
    assert_eq!(format!("{:?}", b.inputs.as_ref().unwrap()["input"]), "1");
}
