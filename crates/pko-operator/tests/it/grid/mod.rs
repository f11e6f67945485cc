//! Every scenario under every fault ends as it does undisturbed: the goals R1, R4, R5, R6, and of R15 the destroys.
//!
//! ```text
//!  scenario.rs   what a user does            fault.rs   what goes wrong, point by point
//!  user.rs       the user's side of a try    harm.rs    the fault at work
//!  operator.rs   the manager and its proxy   end.rs     what is right
//!  trial.rs      one try                     report.rs  the table of all
//! ```
//!
//! Each try has a namespace, a manager that looks nowhere else, and a proxy of its own, so that several go side by
//! side on one control plane. `PKO_FULL=1` tries all points and writes `docs/reliability.md`; without it a sample is
//! tried, another one with `PKO_SEED=number`. `PKO_POINTS=text` tries those whose name has that text, such as
//! `create: killed before write 3`.

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
    time::Duration,
};

use futures::{StreamExt as _, stream};
use pko_testkit::StandIn;

use self::{
    fault::{Fault, Goal},
    report::Table,
    scenario::Scenario,
    trial::{Clean, Outcome},
};
use crate::system::System;

/// How many tries go side by side: mostly they wait. A sample is not alone on its machine.
const LANES: usize = 16;
const LANES_OF_A_SAMPLE: usize = 4;
/// A sample has none that lasts longer.
const LONGEST: u64 = 5;
/// How many points of a goal in a scenario are in a sample.
const SAMPLE: [(Goal, usize); 4] = [(Goal::R1, 2), (Goal::R4, 1), (Goal::R5, 1), (Goal::R6, 1)];

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
        Self::Sample(seed.map_or(1, |seed| seed.parse().expect("PKO_SEED is a number")))
    }

    fn lanes(&self) -> usize {
        match self {
            Self::All | Self::Named(_) => LANES,
            Self::Sample(_) => LANES_OF_A_SAMPLE,
        }
    }

    /// Those that are tried, in an order in which those that wait are not together.
    fn of(&self, points: Vec<Point>) -> Vec<Point> {
        let points = shuffled(points, self.seed());
        match self {
            Self::All => points,
            Self::Named(text) => {
                let wanted = |point: &Point| point.name().contains(text);
                points.into_iter().filter(wanted).collect()
            }
            Self::Sample(_) => sample(points),
        }
    }

    fn seed(&self) -> u64 {
        match self {
            Self::All | Self::Named(_) => 0,
            Self::Sample(seed) => *seed,
        }
    }
}

/// Ordered by what the seed makes of their names.
fn shuffled(mut points: Vec<Point>, seed: u64) -> Vec<Point> {
    let place = |point: &Point| {
        let mut hasher = DefaultHasher::new();
        (seed, point.name()).hash(&mut hasher);
        hasher.finish()
    };
    points.sort_by_cached_key(place);
    points
}

/// The first so many of each goal and scenario.
fn sample(mut points: Vec<Point>) -> Vec<Point> {
    let mut left: BTreeMap<(Goal, Scenario), usize> = BTreeMap::new();
    let mut is_wanted = |point: &Point| {
        let most = SAMPLE.iter().find(|(goal, _)| *goal == point.fault.goal());
        let left = left
            .entry(point.group())
            .or_insert(most.map_or(0, |(_, most)| *most));
        let is_wanted = *left > 0 && point.fault.seconds() <= LONGEST;
        *left -= usize::from(is_wanted);
        is_wanted
    };
    points.retain(|point| is_wanted(point));
    points
}

#[tokio::test]
async fn every_scenario_ends_as_it_does_undisturbed_whatever_goes_wrong() {
    let choice = Choice::from_environment();
    let program = StandIn::program().display().to_string();
    let system = System::without_manager(&[("PKO_PULUMI", &program)]).await;
    let lanes = choice.lanes();
    let clean = Box::pin(clean_runs(&system, lanes)).await;
    let points = clean.iter().flat_map(|(scenario, clean)| {
        let scenario = *scenario;
        let faults = Fault::all(clean.writes, scenario.edits_programs()).into_iter();
        faults.map(move |fault| Point { scenario, fault })
    });
    let points = choice.of(points.collect());
    let (table, failures) = tried(&system, &clean, points, lanes).await;
    if let Choice::All = choice {
        fs::write(report::file(), report::text(&table)).unwrap();
    }
    if let Choice::Sample(seed) = choice {
        say(&format!("PKO_SEED={seed} tries the same points again"));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
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
