//! Time until Stacks are Ready: one by one, all at once, and with slow runs. P10, P11 and P21.
#![expect(
    clippy::cast_precision_loss,
    reason = "no figure here has more than a few digits"
)]

use std::time::Duration;

use pko_testkit::{Reply, Script, progress::Step};

use super::{
    super::report::Figure,
    StacksArguments,
    environment::{BenchEnvironment, BenchPrograms, Runtime},
    median,
    ready_times::ReadyTimes,
    stack_group::{StackGroup, last},
};

/// Upstream's default limit of concurrent runs.
const UPSTREAM_SLOTS: usize = 25;

pub(super) async fn measure(
    programs: &BenchPrograms,
    arguments: &StacksArguments,
) -> anyhow::Result<Vec<Figure>> {
    let environment = BenchEnvironment::start(programs, Runtime::Processes).await?;
    let ready_times = ReadyTimes::watch(&environment.namespace);
    let single = singles(&environment, &ready_times, "single", arguments.creations).await?;
    let figure = Figure::new("creation to Ready of one Stack, median", single, "s");
    let single = figure.of("P21").against(0.6, 0.9);
    let (group, throughput) = throughput(&environment, &ready_times, arguments.stacks()).await?;
    let makespan = slow_runs(&environment, &ready_times, &group, arguments.slow).await?;
    Ok(vec![throughput, makespan, single])
}

/// The median time of Stacks that are created one after the other.
pub(super) async fn singles(
    environment: &BenchEnvironment,
    ready_times: &ReadyTimes,
    name: &str,
    count: usize,
) -> anyhow::Result<f64> {
    let step = Step::begin(&format!("making {count} Stacks one after the other"));
    let mut seconds = Vec::new();
    for number in 0..count {
        let name = format!("{name}-{number}");
        let (group, began) = StackGroup::create(environment, &name, 1, &Script::new()).await?;
        seconds.extend(group.wait_until_ready(ready_times, "", began).await?);
    }
    println!("  all Ready, {}", step.elapsed());
    Ok(median(seconds))
}

/// Creates many Stacks at once.
async fn throughput(
    environment: &BenchEnvironment,
    ready_times: &ReadyTimes,
    count: usize,
) -> anyhow::Result<(StackGroup, Figure)> {
    let step = Step::begin(&format!("making {count} Stacks at once"));
    let (group, began) = StackGroup::create(environment, "fixtures", count, &Script::new()).await?;
    let seconds = last(&group.wait_until_ready(ready_times, "", began).await?);
    println!("  all Ready, {}", step.elapsed());
    let rate = count as f64 / seconds * 60.0;
    let figure = Figure::new(format!("Stacks a minute, {count} at once"), rate, "");
    Ok((
        group,
        figure.of("P10").upstream(186.0).at_least(186.0 * 1.3),
    ))
}

/// Runs slow updates in the same Stacks. No run waits for another.
async fn slow_runs(
    environment: &BenchEnvironment,
    ready_times: &ReadyTimes,
    group: &StackGroup,
    seconds: u64,
) -> anyhow::Result<Figure> {
    let count = group.names.len();
    let step = Step::begin(&format!("running {seconds} s in each of {count} Stacks"));
    let pause = Duration::from_secs(seconds).as_millis();
    let answer = Reply::new().pauses(u64::try_from(pause)?).run_default();
    group.follow(&Script::new().on("up", answer));
    let began = group.request_run(environment, "slow").await?;
    let makespan = last(&group.wait_until_ready(ready_times, "slow", began).await?);
    println!("  all Ready, {}", step.elapsed());
    let name = format!("{count} Stacks with runs of {seconds} s, until the last is Ready");
    let upstream = count.div_ceil(UPSTREAM_SLOTS) as f64 * seconds as f64;
    let figure = Figure::new(name, makespan, "s")
        .of("P11")
        .upstream(upstream);
    // With few Stacks the goal would be shorter than a single run.
    let most = upstream * 0.25;
    Ok(if most > seconds as f64 {
        figure.at_most(most)
    } else {
        figure
    })
}
