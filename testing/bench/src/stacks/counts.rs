//! Requests to the API server, processes of `pulumi`, and memory: P2, P5, P6, P7 and P16.
#![expect(
    clippy::cast_precision_loss,
    reason = "no figure here has more than a few digits"
)]

use std::time::Duration;

use pko_testkit::{Script, audit::AuditedRequests, progress::Step};
use tokio::time::sleep;

use super::{
    super::{fixtures, report::Figure},
    StacksArguments,
    environment::{BenchEnvironment, BenchPrograms, PROGRAM, Runtime},
    ready_times::ReadyTimes,
    stack_group::{StackGroup, last},
};

/// Events are written after the change that they report.
const EVENT_DELAY: Duration = Duration::from_secs(3);

pub(super) async fn measure(
    programs: &BenchPrograms,
    arguments: &StacksArguments,
) -> anyhow::Result<Vec<Figure>> {
    let mut environment = BenchEnvironment::start(programs, Runtime::Pods).await?;
    let ready_times = ReadyTimes::watch(&environment.namespace);
    let mut figures = runs(&environment, &ready_times, arguments.counted).await?;
    figures.extend(memory(&environment, &ready_times, arguments).await?);
    figures.push(restart(&mut environment, arguments).await?);
    Ok(figures)
}

/// Counts a first run, and another one in the same workspace.
async fn runs(
    environment: &BenchEnvironment,
    ready_times: &ReadyTimes,
    count: usize,
) -> anyhow::Result<Vec<Figure>> {
    let step = Step::begin(&format!("counting {count} Stacks in pods"));
    let mark = environment.mark().await?;
    let (group, began) = StackGroup::create(environment, "counted", count, &Script::new()).await?;
    group.wait_until_ready(ready_times, "", began).await?;
    sleep(EVENT_DELAY).await;
    let first = environment.requests_since(mark).await?;
    let first_calls = group.calls();
    let mark = environment.mark().await?;
    let began = group.request_run(environment, "again").await?;
    group.wait_until_ready(ready_times, "again", began).await?;
    sleep(EVENT_DELAY).await;
    let later = environment.requests_since(mark).await?;
    let later_calls = group.calls() - first_calls;
    println!("  counted, {}", step.elapsed());
    print!("{}", first.counts());
    println!("  and for another run");
    print!("{}", later.counts());
    let each = |all: usize| all as f64 / count as f64;
    Ok(vec![
        Figure::new("writes, creation to Ready", each(first.writes().len()), "")
            .of("P5")
            .upstream(28.0)
            .at_most(20.0),
        Figure::new(
            "writes of another run",
            each(later.clone().writes().len()),
            "",
        )
        .of("P6")
        .upstream(13.0)
        .at_most(10.0),
        Figure::new(
            "reads of another run, besides outputs",
            each(reads(later).len()),
            "",
        )
        .of("P6-reads")
        .upstream(2.0)
        .at_most(0.0),
        Figure::new("pulumi processes, first run", each(first_calls), "")
            .of("P16")
            .upstream(17.0)
            .at_most(7.0),
        Figure::new("pulumi processes, another run", each(later_calls), "")
            .of("P16-later")
            .upstream(8.0)
            .at_most(3.0),
    ])
}

/// Reads that a cache could have served. The outputs' Secret is not cached.
fn reads(requests: AuditedRequests) -> AuditedRequests {
    requests.only(|request| {
        ["get", "list"].contains(&request.verb.as_str()) && request.resource != "secrets"
    })
}

/// The manager's memory with all Stacks Ready.
async fn memory(
    environment: &BenchEnvironment,
    ready_times: &ReadyTimes,
    arguments: &StacksArguments,
) -> anyhow::Result<Vec<Figure>> {
    let count = arguments.stacks();
    let more = count.saturating_sub(arguments.counted);
    let step = Step::begin(&format!("making {more} more Stacks in pods"));
    let (group, began) = StackGroup::create(environment, "more", more, &Script::new()).await?;
    let seconds = last(&group.wait_until_ready(ready_times, "", began).await?);
    println!(
        "  all Ready, {}; letting the manager settle",
        step.elapsed()
    );
    sleep(Duration::from_secs(arguments.settle)).await;
    let memory = Figure::new(
        format!("memory, {count} Stacks Ready"),
        environment.resident()?,
        "MiB",
    );
    // Upstream's grows by 0.21 MiB for each.
    let upstream = 57.0 + 0.21 * count as f64;
    let rate = more as f64 / seconds.max(1.0) * 60.0;
    Ok(vec![
        memory.of("P2").against(upstream, 0.3),
        Figure::new(format!("Stacks a minute, {more} at once in pods"), rate, "")
            .of("P10-pods")
            .upstream(186.0),
    ])
}

/// Writes of a manager that starts with all Stacks Ready.
async fn restart(
    environment: &mut BenchEnvironment,
    arguments: &StacksArguments,
) -> anyhow::Result<Figure> {
    let step = Step::begin("starting another manager on them");
    environment.kill_manager();
    let mark = environment.mark().await?;
    environment.start_manager().await?;
    let elsewhere = pko_testkit::TestNamespace::create(&environment.plane).await?;
    // The manager works by then. After the settle time it has reconciled all Stacks.
    fixtures::create_served_program(&elsewhere, PROGRAM).await?;
    sleep(Duration::from_secs(arguments.settle)).await;
    let writes = environment.requests_since(mark).await?.writes();
    println!("  started, {}", step.elapsed());
    print!("{}", writes.counts());
    let each = writes.len() as f64 / arguments.stacks() as f64;
    let figure = Figure::new("writes of a manager that starts, for each Stack", each, "");
    Ok(figure.of("P7").upstream(4.1).at_most(0.0))
}
