//! What Stacks that follow one branch cost its git server.

use std::time::{Duration, Instant};

use pko_testkit::{
    Script, StackBuilder, StandIn, eventually,
    git_server::{GitServer, TestFile, TestRepository},
};

use crate::{
    harness::{System, folder_of},
    scripted_stacks::{namespace, ready},
};

const STACKS: usize = 20;
const INTERVAL: Duration = Duration::from_secs(1);
/// In each interval, for all of them together; upstream's operator sends one each.
const MOST_LOOKS: usize = 2;
/// How many looks are waited for.
const LOOKS: usize = 10;

/// The new connections to the server since the last call; reading a branch takes one.
fn openings(server: &GitServer) -> usize {
    let seen = server.take_requests();
    let openings = seen
        .iter()
        .filter(|seen| seen.target.contains("/info/refs"));
    openings.count()
}

#[tokio::test]
async fn twenty_stacks_on_one_branch_share_one_git_poll() {
    let repositories = tempfile::tempdir().unwrap();
    let repository = TestRepository::create(repositories.path(), "app.git").unwrap();
    let project = "name: demo\nruntime: yaml\noutputs:\n  size: 4\n";
    let files = [TestFile::plain("Pulumi.yaml", project)];
    repository.commit("main", &files).unwrap();
    let server = GitServer::start(repositories.path()).unwrap();
    let program = StandIn::program().display().to_string();
    let interval = format!("{}s", INTERVAL.as_secs());
    let environment = [
        ("PKO_PULUMI", program.as_str()),
        ("PKO_GIT_POLL_INTERVAL", &interval),
    ];
    let system = System::start(&environment).await;
    let namespace = namespace(&system).await;
    let names: Vec<String> = (0..STACKS)
        .map(|number| format!("stack-{number}"))
        .collect();
    for name in &names {
        let stand_in = system.stand_in_at(name, &Script::new());
        let stack = StackBuilder::new(name)
            .stack(name)
            .backend(&system.backend())
            .git(&server.url("app.git"), "main")
            .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
            .set("/spec/envRefs/PKO_STAND_IN", folder_of(&stand_in));
        namespace.create_object(stack.build()).await.unwrap();
    }
    for name in &names {
        ready(&namespace, name).await;
    }

    // From now on it is not cloned.
    let (began, _) = (Instant::now(), openings(&server));
    let mut looks = 0;
    eventually("the branch to be looked at", async || {
        looks += openings(&server);
        if looks >= LOOKS { Ok(()) } else { Err(looks) }
    })
    .await
    .unwrap();
    // A busy machine makes these more, and the looks no more.
    let intervals = began.elapsed().as_millis() / INTERVAL.as_millis() + 2;
    let most = MOST_LOOKS * usize::try_from(intervals).unwrap();
    assert!(looks <= most, "{looks} looks in {intervals} intervals");
}
