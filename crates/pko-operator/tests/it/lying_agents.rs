//! Agents that lie harm no other Stack, and a condition says what is wrong with them.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use kube::api::ListParams;
use pko_api::{Stack, Update, auto::v1alpha1::UpdateStatus};
use pko_testkit::{Script, StandIn, TestNamespace, eventually};

use crate::{
    harness::{System, Watched, program},
    scripted_stacks::{create_stack, namespace, ready},
};

/// An agent that lies in the Workspaces whose names begin with `liar-`, about what follows.
fn agent_of_both_kinds(folder: &Path) -> PathBuf {
    let script = format!(
        "#!/bin/sh\n\
         case \"$*\" in\n\
         serve*\"--kube-audience liar-\"*)\n\
         lie=\"${{*##*--kube-audience liar-}}\"\n\
         PKO_LIE=\"${{lie%%.*}}\" exec '{liar}' \"$@\" ;;\n\
         esac\n\
         exec '{agent}' \"$@\"\n",
        liar = program("lying-agent").display(),
        agent = program("agent").display(),
    );
    let path = folder.join("agent");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The status of the first Update of a Stack, once it has what the test waits for.
async fn update_status(
    namespace: &TestNamespace,
    stack: &str,
    is_wanted: impl Fn(&UpdateStatus) -> bool,
) -> UpdateStatus {
    eventually(format!("the Update of {stack}"), async || {
        let updates = namespace.api::<Update>();
        let updates = updates.list(&ListParams::default()).await;
        let updates = updates.map_err(|error| error.to_string())?;
        let of_stack = |update: &Update| update.spec.workspace_name.as_deref() == Some(stack);
        let mut updates = updates.items.into_iter().filter(of_stack);
        let status = updates.find_map(|update| update.status.filter(&is_wanted));
        status.ok_or_else(|| "not yet".to_owned())
    })
    .await
    .unwrap()
}

fn message<'status>(status: &'status UpdateStatus, kind: &str) -> &'status str {
    let mut conditions = status.conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == kind);
    condition.map_or("", |condition| &condition.message)
}

async fn waits_because(namespace: &TestNamespace, stack: &str, why: &str) {
    let says = |status: &UpdateStatus| message(status, "Progressing").contains(why);
    update_status(namespace, stack, says).await;
}

#[tokio::test]
async fn lying_agents_harm_only_their_own_stacks() {
    let program = StandIn::program().display().to_string();
    // So few that an agent that holds one would show.
    let environment = [
        ("PKO_PULUMI", program.as_str()),
        ("MAX_CONCURRENT_RECONCILES", "2"),
    ];
    let mut system = System::without_manager_watching(Watched::Namespaces(2), &environment).await;
    system.use_agent(agent_of_both_kinds(&system.subfolder()));
    system.start_manager();
    let stand_in = system.stand_in(&Script::new());
    let (liars, victims) = (namespace(&system).await, namespace(&system).await);
    let begun = Timestamp::now();
    for lie in [
        "oversized",
        "expanding",
        "times",
        "other-run",
        "silent",
        "false-ends",
        "many-runs",
    ] {
        create_stack(&liars, &system, &stand_in, &format!("liar-{lie}")).await;
    }

    let failed = |status: &UpdateStatus| status.message.is_some();
    let oversized = update_status(&liars, "liar-oversized", failed).await;
    let text = oversized.message.unwrap();
    assert!(text.contains("the limit is: 8388608 bytes"), "{text}");
    let expanding = update_status(&liars, "liar-expanding", failed).await;
    let text = expanding.message.unwrap();
    assert!(text.contains("the limit is 100000"), "{text}");

    let times = update_status(&liars, "liar-times", failed).await;
    assert!(
        message(&times, "Complete").contains("check the clock"),
        "{times:?}"
    );
    let (start, end) = (times.start_time.unwrap().0, times.end_time.unwrap().0);
    // The API server stores whole seconds.
    assert!(begun.as_second() <= start.as_second() && end <= Timestamp::now());
    assert_eq!(times.permalink, None);
    assert_eq!(times.resource_changes, [("same".to_owned(), 1)].into());

    waits_because(&liars, "liar-other-run", "answers for another run").await;
    waits_because(&liars, "liar-silent", "did not respond").await;
    for lie in ["false-ends", "many-runs"] {
        let goes_on = |status: &UpdateStatus| status.workspace_instance.is_some();
        update_status(&liars, &format!("liar-{lie}"), goes_on).await;
    }

    // Beside all of them, in the same namespace and in another one.
    for (namespace, name) in [(&victims, "honest"), (&liars, "neighbor")] {
        create_stack(namespace, &system, &stand_in, name).await;
        ready(namespace, name).await;
    }
    let silent = liars.api::<Stack>().get("liar-silent").await.unwrap();
    let conditions = silent.status.unwrap_or_default().conditions;
    let is_ready = |found: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        found.type_ == "Ready" && found.status == "True"
    };
    assert!(!conditions.iter().any(is_ready));
}
