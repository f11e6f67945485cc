//! An agent that is slow to start is waited for, also by the next manager.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use pko_testkit::{ProgramBuilder, StackBuilder, eventually};

use crate::{
    events::Trail,
    harness::{System, program},
    scripted_stacks::credentials,
};

/// An agent that serves only once there is a file `gate` beside it, and notes each start in
/// `starts`.
fn slow_agent(folder: &Path) -> PathBuf {
    let agent = program("agent");
    let script = format!(
        "#!/bin/sh\n\
         if [ \"$1\" = serve ]; then\n\
         echo \"$$\" >> '{folder}/starts'\n\
         while [ ! -e '{folder}/gate' ]; do sleep 0.1; done\n\
         fi\n\
         exec '{agent}' \"$@\"\n",
        folder = folder.display(),
        agent = agent.display(),
    );
    let path = folder.join("slow-agent");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn starts(folder: &Path) -> Vec<String> {
    let starts = fs::read_to_string(folder.join("starts")).unwrap_or_default();
    starts.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn slow_agent_is_started_once_and_adopted_by_the_next_manager() {
    let mut system = System::without_manager(&[]).await;
    let folder = system.subfolder();
    system.use_agent(slow_agent(&folder));
    system.start_manager();
    let namespace = system.namespace().await;
    namespace.create_object(credentials()).await.unwrap();
    let program = ProgramBuilder::new("demo").output("size", 4).build();
    namespace.create_object(program).await.unwrap();
    let trail = Trail::of(&namespace, "demo");
    let stack = StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase");
    namespace.create_object(stack.build()).await.unwrap();
    let has_started = async || {
        let starts = starts(&folder);
        if starts.is_empty() {
            Err("not yet")
        } else {
            Ok(starts)
        }
    };
    let first = eventually("the agent to start", has_started).await.unwrap();

    system.restart_manager();
    System::works(&namespace, "another").await;
    assert_eq!(starts(&folder), first, "no second one is started beside it");
    fs::write(folder.join("gate"), "").unwrap();
    trail.until("Ready").await;
    assert_eq!(starts(&folder), first);
    assert_eq!(system.agents().len(), 1);
}
