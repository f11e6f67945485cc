//! A good Stack among those that hang: P12.

use std::time::Duration;

use pko_testkit::{
    Reply, Script, StackBuilder, eventually_within,
    git_server::{Fault, GitServer},
};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    super::{manager::PATIENCE, report::Figure},
    StacksArguments,
    group::Group,
    moments::Moments,
    place::{Place, Programs, Runtime},
    speed::singles,
};
use crate::progress::Step;

/// Longer than anything here takes.
const FOR_EVER: Duration = Duration::from_hours(10);
/// How many good Stacks are made, one after the other, each time.
const GOOD: usize = 9;

pub(super) async fn measure(
    programs: &Programs,
    arguments: &StacksArguments,
) -> anyhow::Result<Vec<Figure>> {
    let place = Place::start(programs, Runtime::Processes).await?;
    let moments = Moments::watch(&place.namespace);
    let alone = singles(&place, &moments, "alone", GOOD).await?;
    silence_agents(&place, arguments.hanging).await?;
    let silent = singles(&place, &moments, "silent", GOOD).await?;
    let _server = silence_git(&place, arguments.hanging).await?;
    let both = singles(&place, &moments, "both", GOOD).await?;
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

/// Stacks whose run goes on for ever, in agents that do not even answer.
async fn silence_agents(place: &Place, count: usize) -> anyhow::Result<()> {
    let step = Step::begin(&format!("making {count} Stacks whose agents fall silent"));
    let milliseconds = u64::try_from(FOR_EVER.as_millis())?;
    let hangs = Script::new().on("up", Reply::new().pauses(milliseconds));
    let (group, _) = Group::create(place, "hung", count, &hangs).await?;
    eventually_within(PATIENCE, "the runs to begin", async || {
        let begun = group.have_begun("up");
        if begun == count { Ok(()) } else { Err(begun) }
    })
    .await?;
    // Agents of good Stacks are among them, which have nothing to say any more.
    for agent in place.agents() {
        if let Some(process) = i32::try_from(agent).ok().and_then(Pid::from_raw) {
            kill_process(process, Signal::STOP)?;
        }
    }
    println!("  silent, {}", step.elapsed());
    Ok(())
}

/// Stacks whose git servers take a connection and say nothing.
async fn silence_git(place: &Place, count: usize) -> anyhow::Result<GitServer> {
    let step = Step::begin(&format!(
        "making {count} Stacks whose git servers are silent"
    ));
    let server = GitServer::start(&place.subfolder("repositories")?)?;
    server.set_fault(Some(Fault::Hang));
    let builder =
        |name: &str| StackBuilder::new(name).git(&server.url(&format!("{name}.git")), "main");
    Group::create_of(place, "lost", count, &Script::new(), builder).await?;
    let mut asked = 0;
    eventually_within(PATIENCE, "the manager to ask for them", async || {
        asked += server.take_requests().len();
        // It may ask for some of them only once others have failed.
        if asked > 0 { Ok(()) } else { Err("not yet") }
    })
    .await?;
    println!("  silent, {}", step.elapsed());
    Ok(server)
}
