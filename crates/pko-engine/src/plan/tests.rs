//! Programs against states: which steps, in which order, and what is left at any moment.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, Plan, Selection, deletion, refresh, registration, snapshot::Snapshot};
use crate::{
    program::{evaluate::Surroundings, parse},
    property::{Properties, Property},
    resource::Resource,
    syntax,
    urn::{StackIdentity, Urn},
};

struct Nothing;

impl registration::World for Nothing {
    fn read_file(&self, path: &str) -> Result<Vec<u8>, String> {
        Err(format!("no file {path}"))
    }

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
    let cases: [(&str, String, Vec<&str>); 9] = [
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
        ["delete b", "delete a"]
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
