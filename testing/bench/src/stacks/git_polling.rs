//! Requests to a git server by many Stacks that follow one branch: P9.
#![expect(
    clippy::cast_precision_loss,
    reason = "no figure here has more than a few digits"
)]

use std::time::{Duration, Instant};

use pko_testkit::{
    Script, StackBuilder,
    git_server::{GitServer, TestFile, TestRepository},
    progress::Step,
};
use tokio::time::sleep;

use super::{
    super::report::Figure,
    StacksArguments,
    environment::{BenchEnvironment, BenchPrograms, Runtime},
    ready_times::ReadyTimes,
    stack_group::{StackGroup, last},
};

/// The polling interval, which is also the shortest that a Stack may set.
const INTERVAL: Duration = Duration::from_mins(1);
const PROJECT: &str = "name: demo\nruntime: yaml\noutputs:\n  size: 4\n";

pub(super) async fn measure(
    programs: &BenchPrograms,
    arguments: &StacksArguments,
) -> anyhow::Result<Vec<Figure>> {
    let environment = BenchEnvironment::start(programs, Runtime::Processes).await?;
    let ready_times = ReadyTimes::watch(&environment.namespace);
    let folder = environment.subfolder("repositories")?;
    let repository = TestRepository::create(&folder, "app.git")?;
    repository.commit("main", &[TestFile::plain("Pulumi.yaml", PROJECT)])?;
    let server = GitServer::start(&folder)?;
    let count = arguments.following;
    let step = Step::begin(&format!("making {count} Stacks that follow one branch"));
    let builder = |name: &str| {
        StackBuilder::new(name)
            .git(&server.url("app.git"), "main")
            .set("/spec/resyncFrequencySeconds", INTERVAL.as_secs())
    };
    let (group, began) =
        StackGroup::create_of(&environment, "follower", count, &Script::new(), builder).await?;
    group.wait_until_ready(&ready_times, "", began).await?;
    let while_made = advertisements(&server);
    println!(
        "  all Ready, {}; letting {} intervals pass",
        step.elapsed(),
        arguments.intervals
    );
    sleep(INTERVAL * arguments.intervals).await;
    let at_rest = advertisements(&server) as f64 / f64::from(arguments.intervals);
    let step = Step::begin("pushing a commit");
    let changed = format!("{PROJECT}  more: 5\n");
    let pushed = repository.commit("main", &[TestFile::plain("Pulumi.yaml", changed)])?;
    let began = Instant::now();
    let reaction = last(&group.wait_until_ready(&ready_times, &pushed, began).await?);
    println!("  run by all, {}", step.elapsed());
    Ok(vec![
        Figure::new(
            format!("polls of a repository each minute, for {count} Stacks"),
            at_rest,
            "",
        )
        .of("P9")
        .upstream(count as f64)
        .at_most(2.0),
        Figure::new(
            format!("connections to it until {count} Stacks are Ready, clones included"),
            while_made as f64,
            "",
        )
        .of("P9-first"),
        Figure::new(
            format!("a commit pushed, until {count} Stacks have run it"),
            reaction,
            "s",
        )
        .of("P9-push"),
    ])
}

/// The number of advertisements that the server sent: one per poll and one per clone.
fn advertisements(server: &GitServer) -> usize {
    let seen = server.take_requests();
    let openings = seen
        .iter()
        .filter(|request| request.target.contains("/info/refs"));
    openings.count()
}
