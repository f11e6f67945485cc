//! Several managers: one works at a time.

use std::process::Child;

use k8s_openapi::api::coordination::v1::Lease;
use pko_api::{
    Update,
    rbac::{GROUP, LEADER_ELECTION, TOKEN_REQUEST},
};
use pko_testkit::{
    Reply, Script, StandIn, TestNamespace, UpdateBuilder, WorkspaceBuilder, eventually,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    harness::{ManagerProcess, System, Watched},
    rbac::give_in,
    scripted_stacks::wait_for_runs,
};

/// Starts one of several managers whose Lease is in the test's namespace. Its deadline is so long
/// that a leader on a busy machine does not miss it.
fn start(system: &System, namespace: &TestNamespace, name: &str) -> ManagerProcess {
    let election = [
        "--leader-elect",
        "--leader-election-lease-duration=20s",
        "--leader-election-renew-deadline=15s",
        "--leader-election-retry-period=1s",
        "--namespace",
        namespace.name(),
    ];
    system.start_another(name, &election)
}

/// Allows the managers to have their Lease, and their key, in a namespace.
async fn allow_election(system: &System, namespace: &TestNamespace) {
    let client = system.plane.client().unwrap();
    let managers = [json!({ "kind": "User", "name": system.user(), "apiGroup": GROUP })];
    for role in [LEADER_ELECTION, TOKEN_REQUEST] {
        give_in(&client, namespace.name(), role, &managers).await;
    }
}

fn signal(manager: &Child, signal: Signal) {
    let process = i32::try_from(manager.id()).ok().and_then(Pid::from_raw);
    kill_process(process.unwrap(), signal).unwrap();
}

/// The holder of the Lease, if it is held.
async fn holder(namespace: &TestNamespace) -> Option<String> {
    let leases = namespace.api::<Lease>();
    let lease = leases.get_opt("operator.pulumi.com").await.unwrap()?;
    lease.spec?.holder_identity
}

async fn leads(namespace: &TestNamespace, manager: &Child) {
    let mark = format!("_{}-", manager.id());
    eventually("the manager to lead", async || {
        let holder = holder(namespace).await.unwrap_or_default();
        if holder.contains(&mark) {
            Ok(())
        } else {
            Err(holder)
        }
    })
    .await
    .unwrap();
}

async fn exit_code(manager: &mut Child) -> Option<i32> {
    eventually("the manager to end", async || {
        manager.try_wait().unwrap().ok_or("it runs")
    })
    .await
    .unwrap()
    .code()
}

#[tokio::test]
async fn leader_failover_to_another_manager() {
    let system = System::without_manager(&[]).await;
    let namespace = system.namespace().await;
    allow_election(&system, &namespace).await;
    let mut first = start(&system, &namespace, "first");
    leads(&namespace, &first).await;
    let mut second = start(&system, &namespace, "second");
    System::works(&namespace, "one").await;
    leads(&namespace, &first).await;

    // One that slept through its own Lease does nothing more when it wakes up.
    signal(&first, Signal::STOP);
    leads(&namespace, &second).await;
    System::works(&namespace, "two").await;
    signal(&first, Signal::CONT);
    assert_eq!(exit_code(&mut first).await, Some(1));
    leads(&namespace, &second).await;

    // A manager that ends on a signal releases the Lease, so the next one leads at once.
    signal(&second, Signal::TERM);
    assert_eq!(exit_code(&mut second).await, Some(0));
    assert_eq!(holder(&namespace).await.as_deref(), Some(""));
    let third = start(&system, &namespace, "third");
    leads(&namespace, &third).await;
    System::works(&namespace, "three").await;
}

/// A Workspace whose `pulumi` is the stand-in, and an Update of it.
async fn create_run(system: &System, namespace: &TestNamespace, stand_in: &StandIn) {
    let variables = [
        ("PULUMI_BACKEND_URL", system.backend()),
        ("PULUMI_CONFIG_PASSPHRASE", "correct-horse".to_owned()),
        ("PKO_STAND_IN", stand_in.folder().display().to_string()),
    ];
    let project = json!({ "name": "demo", "runtime": "yaml" });
    let workspace = WorkspaceBuilder::new("demo").set("/spec/projectInfo", project);
    let workspace = variables
        .into_iter()
        .fold(workspace, |workspace, (name, value)| {
            workspace.push("/spec/env", json!({ "name": name, "value": value }))
        });
    namespace.create_object(workspace.build()).await.unwrap();
    let update = UpdateBuilder::new("one", "demo", "dev", "up").build();
    namespace.create_object(update).await.unwrap();
}

/// Waits until a condition of an Update is true.
async fn is_true(namespace: &TestNamespace, condition: &str) -> Update {
    eventually(format!("the Update to be {condition}"), async || {
        let update = namespace.api::<Update>().get("one").await.unwrap();
        let status = update.status.clone().unwrap_or_default();
        let mut conditions = status.conditions.iter();
        if conditions.any(|found| found.type_ == condition && found.status == "True") {
            Ok(update)
        } else {
            Err(format!("{:?}", status.conditions))
        }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn leader_suspended_past_its_lease_runs_nothing_twice() {
    let program = StandIn::program().display().to_string();
    let environment = [("PKO_PULUMI", program.as_str())];
    let system = System::in_pods_without_manager(Watched::Namespaces(1), &environment).await;
    let gated = Reply::new().waits_for("gate").run_default();
    let stand_in = system.stand_in(&Script::new().on("up", gated));
    let namespace = system.namespace().await;
    allow_election(&system, &namespace).await;
    let mut first = start(&system, &namespace, "first");
    leads(&namespace, &first).await;
    let second = start(&system, &namespace, "second");
    create_run(&system, &namespace, &stand_in).await;
    wait_for_runs(&stand_in, 1).await;

    signal(&first, Signal::STOP);
    leads(&namespace, &second).await;
    System::works(&namespace, "taken-over").await;
    // Both know of the run now, and one of them thinks that it leads still.
    signal(&first, Signal::CONT);
    assert_eq!(exit_code(&mut first).await, Some(1));
    stand_in.create("gate");
    let update = is_true(&namespace, "Complete").await;
    leads(&namespace, &second).await;

    let ups = stand_in.calls().into_iter().filter(|call| call.is("up"));
    let ends: Vec<_> = ups.map(|call| (call.signals, call.code)).collect();
    assert_eq!(ends, [(Vec::new(), Some(0))], "it ran once, to its end");
    let conditions = update.status.unwrap().conditions;
    let failed = conditions.iter().find(|found| found.type_ == "Failed");
    assert_eq!(failed.unwrap().status, "False");
}

#[test]
fn leader_election_rejects_invalid_timing() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_manager"))
        .args([
            "--leader-elect=true",
            "--leader-election-renew-deadline",
            "1m",
        ])
        .env("KUBECONFIG", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        text.contains("--leader-election-lease-duration must be longer"),
        "{text}"
    );
}
