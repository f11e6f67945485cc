//! Killed and canceled runs, and the runs after them.

use std::collections::BTreeSet;

use pulumi_engine_model::{resource::Resource, urn::Urn};

use super::{
    builtin::two,
    stage::{RunResult, STASH, Stage, resources},
};
use crate::{deployment::Ending, plan::snapshot::StateToSave};

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

fn names(state: &[Resource]) -> BTreeSet<Urn> {
    state.iter().map(|resource| resource.urn.clone()).collect()
}

/// A run from the state of a killed run.
fn after(save: &StateToSave, parallel: usize, program: &str) -> RunResult {
    let stage = Stage {
        pending: save.pending.clone(),
        parallel,
        ..Stage::from(&resources(save))
    };
    stage.up(program)
}

/// The state is saved around each step, so a killed run keeps what it has done.
#[test]
fn killed_run_is_finished_by_next() {
    let replace = ", options: {replaceOnChanges: ['*']}";
    let delete_first = ", options: {replaceOnChanges: ['*'], deleteBeforeReplace: true}";
    let first = |options: &str| Stage::default().up(&chains("1", options)).state;
    for (name, before, program) in [
        ("create", Vec::new(), chains("1", "")),
        ("update", first(""), chains("2", "")),
        ("replace", first(replace), chains("2", replace)),
        (
            "delete, then create",
            first(delete_first),
            chains("2", delete_first),
        ),
        ("delete", first(""), "outputs: {}".to_owned()),
    ] {
        for parallel in [1, 4] {
            let stage = Stage {
                parallel,
                ..Stage::from(&before)
            };
            let whole = stage.up(&program);
            assert_eq!(whole.ending, Ending::Succeeded, "{name}");
            let wanted = names(&whole.state);
            for (cut, save) in whole.saves.iter().enumerate() {
                assert!(save.pending.len() <= parallel, "{name}, cut at {cut}");
                let next = after(save, parallel, &program);
                assert_eq!(names(&next.state), wanted, "{name}, cut at {cut}");
                assert_eq!(
                    next.state.len(),
                    wanted.len(),
                    "{name}, cut at {cut}: one is there twice"
                );
                let last = next.saves.last().unwrap();
                assert!(last.pending.is_empty(), "{name}, cut at {cut}");
                let again = after(last, 1, &program).words;
                assert!(
                    again.iter().all(|word| word.starts_with("same")),
                    "{name}, cut at {cut}: {again:?}"
                );
            }
        }
    }
}

#[test]
fn pending_operations_are_reported_once() {
    let done = Stage::default().up(&two("1", ""));
    let of = |save: &StateToSave| -> Vec<String> {
        let pending = save.pending.iter();
        pending
            .map(|each| format!("{} {}", each.kind, each.record.resource.urn.name()))
            .collect()
    };
    let creating = done
        .saves
        .iter()
        .position(|save| of(save) == ["creating b"]);
    let killed = &done.saves[creating.unwrap()];
    let next = after(killed, 1, &two("1", ""));
    let warning = &next.words[0];
    assert!(
        warning.contains("1 pending operations from previous deployment")
            && warning.contains("Stash::b, interrupted while creating"),
        "{warning}"
    );
    assert_eq!(next.words.last().unwrap(), "create b");
    let again = after(next.saves.last().unwrap(), 1, &two("1", ""));
    assert!(again.words[0].starts_with("same"), "{:?}", again.words);
}

#[test]
fn killed_replacement_is_finished_by_next() {
    let options = ", options: {replaceOnChanges: ['*'], deleteBeforeReplace: true}";
    let first = Stage::default().up(&two("1", options));
    let whole = Stage::from(&first.state).up(&two("2", options));
    let cut = whole.saves.iter().find(|save| {
        let mut all = save.records.iter();
        all.any(|record| record.resource.pending_replacement)
    });
    let next = after(cut.unwrap(), 1, &two("2", options));
    let steps: Vec<_> = next
        .words
        .iter()
        .filter(|word| !word.starts_with("warning"))
        .collect();
    assert_eq!(
        steps,
        [
            "same demo-dev",
            "same default",
            "replace a",
            "create-replacement a",
            "update b",
        ]
    );
    assert!(next.state.iter().all(|each| !each.pending_replacement));
    assert_eq!(next.state.len(), 4);
}

#[test]
fn pending_replacement_is_removed_from_state() {
    let options = ", options: {replaceOnChanges: ['*'], deleteBeforeReplace: true}";
    let first = Stage::default().up(&two("1", options));
    let whole = Stage::from(&first.state).up(&two("2", options));
    let cut = whole.saves.iter().find(|save| {
        let mut all = save.records.iter();
        all.any(|record| record.resource.pending_replacement)
    });
    let next = after(cut.unwrap(), 1, "outputs: {}");
    assert!(
        next.words.contains(&"remove-pending-replace a".to_owned()),
        "{:?}",
        next.words
    );
    assert_eq!(next.state.len(), 1);
}

#[test]
fn canceled_run_begins_no_step() {
    let stage = Stage::default();
    stage.cancellation.ask();
    let done = stage.up(&two("1", ""));
    assert_eq!(done.ending, Ending::Canceled);
    assert_eq!((done.words.len(), done.state.len()), (0, 0));
}
