//! How fast Stacks become Ready: one by one, all at once, and with runs that take their time. P10, P11 and P21.
#![expect(
    clippy::cast_precision_loss,
    reason = "no figure here has more than a few digits"
)]

use std::time::Duration;

use pko_testkit::{Reply, Script};

use super::{
    super::report::Figure,
    StacksArguments,
    group::{Group, last},
    median,
    moments::Moments,
    place::{Place, Programs, Runtime},
};
use crate::progress::Step;

/// So many runs upstream's manager has under way at most, unless it is told otherwise.
const UPSTREAM_SLOTS: usize = 25;

pub(super) async fn measure(
    programs: &Programs,
    arguments: &StacksArguments,
) -> anyhow::Result<Vec<Figure>> {
    let place = Place::start(programs, Runtime::Processes).await?;
    let moments = Moments::watch(&place.namespace);
    let single = singles(&place, &moments, "single", arguments.creations).await?;
    let figure = Figure::new("creation to Ready of one Stack, median", single, "s");
    let single = figure.of("P21").against(0.6, 0.9);
    let (group, throughput) = throughput(&place, &moments, arguments.stacks()).await?;
    let makespan = slow_runs(&place, &moments, &group, arguments.slow).await?;
    Ok(vec![throughput, makespan, single])
}

/// The time that one Stack takes, as a median of some that are made one after the other.
pub(super) async fn singles(
    place: &Place,
    moments: &Moments,
    name: &str,
    count: usize,
) -> anyhow::Result<f64> {
    let step = Step::begin(&format!("making {count} Stacks one after the other"));
    let mut seconds = Vec::new();
    for number in 0..count {
        let name = format!("{name}-{number}");
        let (group, began) = Group::create(place, &name, 1, &Script::new()).await?;
        seconds.extend(group.seconds(moments, "", began).await?);
    }
    println!("  all Ready, {}", step.elapsed());
    Ok(median(seconds))
}

/// Many at once, with a CLI that takes no time.
async fn throughput(
    place: &Place,
    moments: &Moments,
    count: usize,
) -> anyhow::Result<(Group, Figure)> {
    let step = Step::begin(&format!("making {count} Stacks at once"));
    let (group, began) = Group::create(place, "crowd", count, &Script::new()).await?;
    let seconds = last(&group.seconds(moments, "", began).await?);
    println!("  all Ready, {}", step.elapsed());
    let rate = count as f64 / seconds * 60.0;
    let figure = Figure::new(format!("Stacks a minute, {count} at once"), rate, "");
    Ok((
        group,
        figure.of("P10").upstream(186.0).at_least(186.0 * 1.3),
    ))
}

/// The same Stacks, with their workspaces, when each has a run that takes its time: nobody waits for another's.
async fn slow_runs(
    place: &Place,
    moments: &Moments,
    group: &Group,
    seconds: u64,
) -> anyhow::Result<Figure> {
    let count = group.names.len();
    let step = Step::begin(&format!("running {seconds} s in each of {count} Stacks"));
    let pause = Duration::from_secs(seconds).as_millis();
    let answer = Reply::new().pauses(u64::try_from(pause)?).run_default();
    group.follow(&Script::new().on("up", answer));
    let began = group.ask(place, "slow").await?;
    let makespan = last(&group.seconds(moments, "slow", began).await?);
    println!("  all Ready, {}", step.elapsed());
    let name = format!("{count} Stacks with runs of {seconds} s, until the last is Ready");
    let upstream = count.div_ceil(UPSTREAM_SLOTS) as f64 * seconds as f64;
    let figure = Figure::new(name, makespan, "s")
        .of("P11")
        .upstream(upstream);
    // No run is shorter than itself: where few Stacks are measured, the goal says nothing.
    let most = upstream * 0.25;
    Ok(if most > seconds as f64 {
        figure.at_most(most)
    } else {
        figure
    })
}
