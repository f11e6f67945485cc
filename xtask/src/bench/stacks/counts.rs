//! Requests to the API server, processes of `pulumi`, and memory: P2, P5, P6, P7 and P16.
#![expect(
    clippy::cast_precision_loss,
    reason = "no figure here has more than a few digits"
)]

use std::time::Duration;

use pko_testkit::{Script, audit::AuditedRequests};
use tokio::time::sleep;

use super::{
    super::{crowd, report::Figure},
    StacksArguments,
    group::{Group, last},
    moments::Moments,
    place::{PROGRAM, Place, Programs, Runtime},
};
use crate::progress::Step;

/// Events are written after what they tell of.
const LAST_WORDS: Duration = Duration::from_secs(3);

pub(super) async fn measure(
    programs: &Programs,
    arguments: &StacksArguments,
) -> anyhow::Result<Vec<Figure>> {
    let mut place = Place::start(programs, Runtime::Pods).await?;
    let moments = Moments::watch(&place.namespace);
    let mut figures = runs(&place, &moments, arguments.counted).await?;
    figures.extend(memory(&place, &moments, arguments).await?);
    figures.push(restart(&mut place, arguments).await?);
    Ok(figures)
}

/// A first run, and another one with the same workspace.
async fn runs(place: &Place, moments: &Moments, count: usize) -> anyhow::Result<Vec<Figure>> {
    let step = Step::begin(&format!("counting {count} Stacks in pods"));
    let mark = place.mark().await?;
    let (group, began) = Group::create(place, "counted", count, &Script::new()).await?;
    group.seconds(moments, "", began).await?;
    sleep(LAST_WORDS).await;
    let first = place.requests_since(mark).await?;
    let first_calls = group.calls();
    let mark = place.mark().await?;
    let began = group.ask(place, "again").await?;
    group.seconds(moments, "again", began).await?;
    sleep(LAST_WORDS).await;
    let later = place.requests_since(mark).await?;
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

/// Reads that a cache could have answered; the outputs' Secret is in none.
fn reads(requests: AuditedRequests) -> AuditedRequests {
    requests.only(|request| {
        ["get", "list"].contains(&request.verb.as_str()) && request.resource != "secrets"
    })
}

/// What the manager has in memory once all Stacks are Ready.
async fn memory(
    place: &Place,
    moments: &Moments,
    arguments: &StacksArguments,
) -> anyhow::Result<Vec<Figure>> {
    let count = arguments.stacks();
    let more = count.saturating_sub(arguments.counted);
    let step = Step::begin(&format!("making {more} more Stacks in pods"));
    let (group, began) = Group::create(place, "more", more, &Script::new()).await?;
    let seconds = last(&group.seconds(moments, "", began).await?);
    println!(
        "  all Ready, {}; letting the manager settle",
        step.elapsed()
    );
    sleep(Duration::from_secs(arguments.settle)).await;
    let memory = Figure::new(
        format!("memory, {count} Stacks Ready"),
        place.resident()?,
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

/// What a manager writes that finds all Stacks Ready.
async fn restart(place: &mut Place, arguments: &StacksArguments) -> anyhow::Result<Figure> {
    let step = Step::begin("starting another manager on them");
    place.kill_manager();
    let mark = place.mark().await?;
    place.start_manager().await?;
    let elsewhere = pko_testkit::TestNamespace::create(&place.plane).await?;
    // It works by then; and after a while it has looked at all of them.
    crowd::served_program(&elsewhere, PROGRAM).await?;
    sleep(Duration::from_secs(arguments.settle)).await;
    let writes = place.requests_since(mark).await?.writes();
    println!("  started, {}", step.elapsed());
    print!("{}", writes.counts());
    let each = writes.len() as f64 / arguments.stacks() as f64;
    let figure = Figure::new("writes of a manager that starts, for each Stack", each, "");
    Ok(figure.of("P7").upstream(4.1).at_most(0.0))
}
