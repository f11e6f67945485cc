//! A healthy Stack beside Stacks that hang: P12.

use std::time::Duration;

use pko_testkit::{
    Reply, Script, StackBuilder, eventually_within,
    git_server::{Fault, GitServer},
    progress::Step,
};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    super::{manager::TIMEOUT, report::Figure},
    StacksArguments,
    environment::{BenchEnvironment, BenchPrograms, Runtime},
    ready_times::ReadyTimes,
    speed::singles,
    stack_group::StackGroup,
};

/// Longer than the benchmark.
const FOREVER: Duration = Duration::from_hours(10);
/// The number of healthy Stacks per measurement.
const HEALTHY_STACKS: usize = 9;

pub(super) async fn measure(
    programs: &BenchPrograms,
    arguments: &StacksArguments,
) -> anyhow::Result<Vec<Figure>> {
    let environment = BenchEnvironment::start(programs, Runtime::Processes).await?;
    let ready_times = ReadyTimes::watch(&environment.namespace);
    let alone = singles(&environment, &ready_times, "alone", HEALTHY_STACKS).await?;
    silence_agents(&environment, arguments.hanging).await?;
    let silent = singles(&environment, &ready_times, "silent", HEALTHY_STACKS).await?;
    let _server = silence_git(&environment, arguments.hanging).await?;
    let both = singles(&environment, &ready_times, "both", HEALTHY_STACKS).await?;
    let count = arguments.hanging;
    let beside = |what: &str| format!("one good Stack beside {count} {what}");
    Ok(vec![
        Figure::new("one good Stack alone", alone, "s").of("P12-alone"),
        Figure::new(beside("with silent agents"), silent, "s")
            .of("P12-agents")
            .at_most(2.0 * alone),
        Figure::new(beside("more with silent git servers"), both, "s")
            .of("P12-git")
            .at_most(2.0 * alone),
        Figure::new(
            beside("that hang, to alone"),
            silent.max(both) / alone,
            "times",
        )
        .of("P12")
        .at_most(2.0),
    ])
}

/// Creates Stacks whose runs never end, and stops their agents.
async fn silence_agents(environment: &BenchEnvironment, count: usize) -> anyhow::Result<()> {
    let step = Step::begin(&format!("making {count} Stacks whose agents fall silent"));
    let milliseconds = u64::try_from(FOREVER.as_millis())?;
    let hangs = Script::new().on("up", Reply::new().pauses(milliseconds));
    let (group, _) = StackGroup::create(environment, "hung", count, &hangs).await?;
    eventually_within(TIMEOUT, "the runs to begin", async || {
        let begun = group.count_started("up");
        if begun == count { Ok(()) } else { Err(begun) }
    })
    .await?;
    // This includes agents of healthy Stacks, which are done.
    for agent in environment.agents() {
        if let Some(process) = i32::try_from(agent).ok().and_then(Pid::from_raw) {
            kill_process(process, Signal::STOP)?;
        }
    }
    println!("  silent, {}", step.elapsed());
    Ok(())
}

/// Creates Stacks whose git servers accept connections and never respond.
async fn silence_git(environment: &BenchEnvironment, count: usize) -> anyhow::Result<GitServer> {
    let step = Step::begin(&format!(
        "making {count} Stacks whose git servers are silent"
    ));
    let server = GitServer::start(&environment.subfolder("repositories")?)?;
    server.set_fault(Some(Fault::Hang));
    let builder =
        |name: &str| StackBuilder::new(name).git(&server.url(&format!("{name}.git")), "main");
    StackGroup::create_of(environment, "lost", count, &Script::new(), builder).await?;
    let mut asked = 0;
    eventually_within(TIMEOUT, "the manager to ask for them", async || {
        asked += server.take_requests().len();
        // Some repositories are requested only after others have failed.
        if asked > 0 { Ok(()) } else { Err("not yet") }
    })
    .await?;
    println!("  silent, {}", step.elapsed());
    Ok(server)
}
