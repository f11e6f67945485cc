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

What happens to a Stack when something breaks at the worst moment: measured, not argued. `cargo xtask test --full` plays each
scenario below again and again on a real control plane, each time with one fault at one point, and writes this file.
`cargo xtask test` plays a sample of the points, and with `PKO_SEED=number` another one.

A fault proxy between the manager and the API server makes the faults: counted, never at random.

| goal | what goes wrong, a point each |
|---|---|
| R1 | the manager is killed (SIGKILL) before its k-th write is sent, and after it is committed, for every k of a clean run |
| R4 | watch events of one kind come 1, 5 or 30 seconds late; a manager that was killed after a write early, in the middle or late is told the lists of before the play, of one kind or of all, and for two seconds nothing newer |
| R5 | every second change of one kind is not told, or changes within 0.7 seconds are one; each second every watch ends with 410, or breaks |
| R6 | one of five writes is answered 429 or 500, or is done and answered 504, or is done and the connection breaks, with each of the first five writes as the first; the API server is out of reach for a minute; it is killed and comes back |
| R15 | all of these while a destroy is owed |

The kinds are Stack, Workspace and Update, and Program where the scenario changes one. Workspaces are processes, and `pulumi` is a
stand-in that counts its runs.

A point has passed if

- the scenario comes to its end while the fault lasts, by the manager's own doing,
- all Stacks, Workspaces, Programs, their revisions, Secrets and ConfigMaps equal those of a clean run, with labels, annotations, owners,
  finalizers, spec and status; only uids, times, ports and the names of Updates may differ,
- the Updates are those of a clean run, all ended, none held by our finalizer, and at most one more,
- `pulumi` ran as often as in a clean run, and at most once more (*extra runs* counts these),
- the manager has not ended by itself, and has not written more than three times what a clean run writes,
- what is deleted then goes, and no process and no object of it is left.

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
