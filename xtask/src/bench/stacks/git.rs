//! What many Stacks that follow one branch cost its server: P9.
#![expect(
    clippy::cast_precision_loss,
    reason = "no figure here has more than a few digits"
)]

use std::time::{Duration, Instant};

use pko_testkit::{
    Script, StackBuilder,
    git_server::{GitServer, TestFile, TestRepository},
};
use tokio::time::sleep;

use super::{
    super::report::Figure,
    StacksArguments,
    group::{Group, last},
    moments::Moments,
    place::{Place, Programs, Runtime},
};
use crate::progress::Step;

/// How often a branch is looked at, which is also the least that a Stack can ask for.
const INTERVAL: Duration = Duration::from_mins(1);
const PROJECT: &str = "name: demo\nruntime: yaml\noutputs:\n  size: 4\n";

pub(super) async fn measure(
    programs: &Programs,
    arguments: &StacksArguments,
) -> anyhow::Result<Vec<Figure>> {
    let place = Place::start(programs, Runtime::Processes).await?;
    let moments = Moments::watch(&place.namespace);
    let folder = place.subfolder("repositories")?;
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
        Group::create_of(&place, "follower", count, &Script::new(), builder).await?;
    group.seconds(&moments, "", began).await?;
    let while_made = openings(&server);
    println!(
        "  all Ready, {}; letting {} intervals pass",
        step.elapsed(),
        arguments.intervals
    );
    sleep(INTERVAL * arguments.intervals).await;
    let at_rest = openings(&server) as f64 / f64::from(arguments.intervals);
    let step = Step::begin("pushing a commit");
    let changed = format!("{PROJECT}  more: 5\n");
    let pushed = repository.commit("main", &[TestFile::plain("Pulumi.yaml", changed)])?;
    let began = Instant::now();
    let reaction = last(&group.seconds(&moments, &pushed, began).await?);
    println!("  run by all, {}", step.elapsed());
    Ok(vec![
        Figure::new(
            format!("looks at a repository each minute, for {count} Stacks"),
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

/// How often somebody began to talk with the server, which is once for each look and once for each clone.
fn openings(server: &GitServer) -> usize {
    let seen = server.take_requests();
    let openings = seen
        .iter()
        .filter(|request| request.target.contains("/info/refs"));
    openings.count()
}
