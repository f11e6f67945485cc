//! Every scenario under every fault ends as it does undisturbed: the goals R1, R4, R5, R6, and of
//! R15 the destroys.
//!
//! ```text
//!  scenario.rs   what a user does            fault.rs   what goes wrong, point by point
//!  user.rs       the user's side of a try    harm.rs    the fault at work
//!  operator.rs   the manager and its proxy   end.rs     what is right
//!  trial.rs      one try                     report.rs  the table of all
//! ```
//!
//! Each try has a namespace, a manager that looks nowhere else, and a proxy of its own, so that
//! several go side by side on one control plane. `PKO_FULL=1` tries all points and writes
//! `docs/reliability.md`. Without it two samples are tried, with one point of each scenario: one
//! sample is always the same, the other one is that of the day, or of `PKO_SEED=number`.
//! `PKO_POINTS=text` tries those whose name has that text, such as `create: killed before write 3`.

mod end;
mod fault;
mod harm;
mod operator;
mod report;
mod scenario;
mod trial;
mod user;

use std::{
    collections::BTreeMap,
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::{StreamExt as _, stream};
use pko_testkit::StandIn;

use self::{
    fault::{Fault, Goal},
    report::Table,
    scenario::Scenario,
    trial::{Clean, Outcome},
};
use crate::harness::System;

/// How many tries go side by side: mostly they wait. A sample is not alone on its machine.
const LANES: usize = 16;
const LANES_OF_A_SAMPLE: usize = 4;
/// A sample has none that lasts longer.
const LONGEST: u64 = 5;
/// The sample that is tried every day.
const FIXED_SEED: u64 = 0;
const DAY: Duration = Duration::from_hours(24);

/// A fault in a scenario.
#[derive(Clone, Copy)]
struct Point {
    scenario: Scenario,
    fault: Fault,
}

impl Point {
    fn name(self) -> String {
        let Self { scenario, fault } = self;
        format!("{:?} {}: {fault}", fault.goal(), scenario.name())
    }

    fn group(self) -> (Goal, Scenario) {
        (self.fault.goal(), self.scenario)
    }
}

/// Which points are tried.
enum Choice {
    All,
    Named(String),
    Sample(u64),
}

impl Choice {
    fn from_environment() -> Self {
        if let Ok(text) = env::var("PKO_POINTS") {
            return Self::Named(text);
        }
        if env::var_os("PKO_FULL").is_some() {
            return Self::All;
        }
        let seed = env::var("PKO_SEED");
        let seed = seed.map(|seed| seed.parse().expect("PKO_SEED is a number"));
        Self::Sample(seed.unwrap_or_else(|_| today()))
    }

    fn lanes(&self) -> usize {
        match self {
            Self::All | Self::Named(_) => LANES,
            Self::Sample(_) => LANES_OF_A_SAMPLE,
        }
    }

    /// Those that are tried, in an order in which those that wait are not together.
    fn of(&self, points: &[Point]) -> Vec<Point> {
        match self {
            Self::All => shuffled(points, FIXED_SEED),
            Self::Named(text) => {
                let wanted = |point: &Point| point.name().contains(text);
                let points = shuffled(points, FIXED_SEED).into_iter();
                points.filter(wanted).collect()
            }
            Self::Sample(seed) => {
                let both = [FIXED_SEED, *seed]
                    .map(|seed| sample(points, seed))
                    .concat();
                // A point that is in both is tried once
                let names: BTreeMap<String, Point> = both
                    .into_iter()
                    .map(|point| (point.name(), point))
                    .collect();
                shuffled(&names.into_values().collect::<Vec<_>>(), *seed)
            }
        }
    }
}

/// The number of the day.
fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs() / DAY.as_secs()
}

/// Ordered by what the seed makes of their names.
fn shuffled(points: &[Point], seed: u64) -> Vec<Point> {
    let mut points = points.to_vec();
    let place = |point: &Point| {
        let mut hasher = DefaultHasher::new();
        (seed, point.name()).hash(&mut hasher);
        hasher.finish()
    };
    points.sort_by_cached_key(place);
    points
}

/// A point of each scenario, with all goals among them. Another seed has other points, and each
/// goal in other scenarios.
fn sample(points: &[Point], seed: u64) -> Vec<Point> {
    let points = shuffled(points, seed);
    let goals = [Goal::R1, Goal::R4, Goal::R5, Goal::R6].into_iter().cycle();
    let first = usize::try_from(seed % 4).unwrap_or_default();
    let pairs = Scenario::ALL.into_iter().zip(goals.skip(first));
    let point = |(scenario, goal): (Scenario, Goal)| {
        let mut points = points.iter();
        points.find(|point| point.group() == (goal, scenario) && point.fault.seconds() <= LONGEST)
    };
    pairs.filter_map(point).copied().collect()
}

#[tokio::test]
async fn scenarios_end_as_expected_under_faults() {
    let choice = Choice::from_environment();
    let program = StandIn::program().display().to_string();
    // Of its own: some faults restart the API server
    let system = System::on_new_plane(&[("PKO_PULUMI", &program)]).await;
    let lanes = choice.lanes();
    let clean = Box::pin(clean_runs(&system, lanes)).await;
    let points = clean.iter().flat_map(|(scenario, clean)| {
        let scenario = *scenario;
        let faults = Fault::all(clean.writes, scenario.edits_programs()).into_iter();
        faults.map(move |fault| Point { scenario, fault })
    });
    let points = choice.of(&points.collect::<Vec<_>>());
    let (table, failures) = tried(&system, &clean, points, lanes).await;
    if let Choice::All = choice {
        fs::write(report::file(), report::text(&table)).unwrap();
    }
    let again = match choice {
        Choice::Sample(seed) => format!("PKO_SEED={seed} tries the same points again"),
        Choice::All | Choice::Named(_) => String::new(),
    };
    say(&again);
    assert!(failures.is_empty(), "{}\n\n{again}", failures.join("\n\n"));
}

/// What is right.
async fn clean_runs(system: &System, lanes: usize) -> BTreeMap<Scenario, Clean> {
    let runs = Scenario::ALL.map(async |scenario| {
        let clean = trial::clean(system, scenario).await;
        let clean = clean.unwrap_or_else(|error| panic!("{}: {error}", scenario.name()));
        say(&format!("{}: {} writes", scenario.name(), clean.writes));
        (scenario, clean)
    });
    Box::pin(stream::iter(runs).buffer_unordered(lanes).collect()).await
}

/// Tries points, several at a time but for those that would disturb others.
async fn tried(
    system: &System,
    clean: &BTreeMap<Scenario, Clean>,
    points: Vec<Point>,
    lanes: usize,
) -> (Table, Vec<String>) {
    let (alone, together): (Vec<Point>, Vec<Point>) =
        points.into_iter().partition(|point| point.fault.is_alone());
    let mut seen = Seen::default();
    for (points, lanes) in [(together, lanes), (alone, 1)] {
        let tries = points.into_iter().map(async |point| {
            let right = &clean[&point.scenario];
            let tried = trial::under(system, point.scenario, point.fault, right);
            (point, tried.await)
        });
        let mut tries = stream::iter(tries).buffer_unordered(lanes);
        while let Some((point, outcome)) = tries.next().await {
            seen.note(point, outcome);
        }
    }
    say(&format!(
        "{} of {} points passed, {} met their fault; the slowest was {}",
        seen.passed, seen.points, seen.met, seen.slowest.1
    ));
    (seen.table, seen.failures)
}

/// What has come of the points so far.
#[derive(Default)]
struct Seen {
    table: Table,
    failures: Vec<String>,
    points: usize,
    passed: usize,
    met: usize,
    slowest: (Duration, String),
}

impl Seen {
    fn note(&mut self, point: Point, outcome: Result<Outcome, String>) {
        let name = point.name();
        let tally = self.table.entry(point.group()).or_default();
        tally.points += 1;
        self.points += 1;
        match outcome {
            Ok(outcome) => {
                tally.passed += 1;
                tally.extra += outcome.extra;
                self.passed += 1;
                self.met += usize::from(outcome.is_met);
                let Outcome {
                    is_met,
                    extra,
                    took,
                } = outcome;
                let shown = format!("{name}, {:.1}s", took.as_secs_f32());
                say(&format!("passed {shown}, {extra} extra, met {is_met}"));
                if self.slowest.0 < took {
                    self.slowest = (took, shown);
                }
            }
            Err(error) => {
                say(&format!("FAILED {name}: {error}"));
                self.failures.push(format!("{name}: {error}"));
            }
        }
    }
}

#[expect(clippy::print_stderr, reason = "what a test has to say for itself")]
fn say(text: &str) {
    eprintln!("{text}");
}
