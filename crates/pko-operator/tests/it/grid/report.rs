//! `docs/reliability.md`: what was tried and what came of it; pure but for the file.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use super::{fault::Goal, scenario::Scenario};

/// What the table is about.
const HEAD: &str = "\
# Reliability

This page shows what happens to a Stack when something breaks at the worst moment. `cargo xtask test
--full` runs each scenario below many times on a real control plane, each time with one fault at one
point, and writes this file. `cargo xtask test` runs a sample of the points; `PKO_SEED=number` selects
another sample.

A fault proxy between the manager and the API server injects the faults at counted points, never at
random.

| goal | faults, one point each |
|---|---|
| R1 | the manager is killed (SIGKILL) before its k-th write is sent, and after it is committed, for every k of a clean run |
| R4 | watch events of one kind arrive 1, 5 or 30 seconds late; a manager that was killed after an early, middle or late write restarts with lists from before the scenario, of one kind or of all, and sees nothing newer for two seconds |
| R5 | every second change of one kind is dropped, or changes within 0.7 seconds are merged; every watch ends with 410, or breaks, each second |
| R6 | one of five writes fails with 429 or 500, or succeeds but returns 504, or succeeds but the connection breaks, starting at each of the first five writes; the API server is unreachable for a minute; it is killed and restarted |
| R15 | all of these while a destroy is pending |

The kinds are Stack, Workspace and Update, and Program if the scenario changes one. Workspaces are
processes, and `pulumi` is a stand-in that counts its runs.

A point passes if

- the scenario completes while the fault lasts, without help from outside;
- all Stacks, Workspaces, Programs, their revisions, Secrets and ConfigMaps equal those of a clean run,
  with labels, annotations, owners, finalizers, spec and status; only uids, times, ports and the names
  of Updates may differ;
- the Updates are those of a clean run, all complete, none with our finalizer, and at most one more;
- `pulumi` ran as often as in a clean run, or once more (*extra runs* counts these);
- the manager did not exit, and made at most three times the writes of a clean run;
- after deletion, no process and no object is left.

";

/// What came of the points of one goal in one scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) points: usize,
    pub(super) passed: usize,
    pub(super) extra: usize,
}

/// By goal and scenario.
pub(super) type Table = BTreeMap<(Goal, Scenario), Tally>;

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.points += other.points;
        self.passed += other.passed;
        self.extra += other.extra;
    }

    fn row(self, goal: &str, scenario: &str) -> String {
        let Self {
            points,
            passed,
            extra,
        } = self;
        format!("| {goal} | {scenario} | {points} | {passed} | {extra} |\n")
    }
}

/// The file's text.
pub(super) fn text(table: &Table) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("| goal | scenario | points | passed | extra runs |\n|---|---|--:|--:|--:|\n");
    let mut all = Tally::default();
    for ((goal, scenario), tally) in table {
        text.push_str(&tally.row(&format!("{goal:?}"), scenario.name()));
        all.add(*tally);
    }
    let mut destroys = Tally::default();
    let of_r15 = table
        .iter()
        .filter(|((_, scenario), _)| scenario.destroys());
    of_r15.for_each(|(_, tally)| destroys.add(*tally));
    text.push_str(&all.row("**all**", ""));
    let _ = write!(
        text,
        "\nR15, the destroys among them: {} points, {} passed.\n",
        destroys.points, destroys.passed
    );
    text
}

/// Where the text is.
pub(super) fn file() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.join("../../docs/reliability.md")
}
