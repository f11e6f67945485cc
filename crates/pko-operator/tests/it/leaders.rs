//! Several managers: one works at a time.

use std::process::Child;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use pko_testkit::{TestNamespace, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::system::System;

const ELECTION: [&str; 6] = [
    "--leader-elect",
    "--leader-election-lease-duration=4s",
    "--leader-election-renew-deadline=3s",
    "--leader-election-retry-period=1s",
    "--namespace",
    "default",
];

fn signal(manager: &Child, signal: Signal) {
    let process = i32::try_from(manager.id()).ok().and_then(Pid::from_raw);
    kill_process(process.unwrap(), signal).unwrap();
}

/// The Lease's holder, who may be nobody.
async fn holder(system: &System) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(system.plane.client().unwrap(), "default");
    let lease = leases.get_opt("operator.pulumi.com").await.unwrap()?;
    lease.spec?.holder_identity
}

async fn leads(system: &System, manager: &Child) {
    let mark = format!("_{}-", manager.id());
    eventually("the manager to lead", async || {
        let holder = holder(system).await.unwrap_or_default();
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
async fn one_leads_and_another_takes_over() {
    let system = System::without_manager(&[]).await;
    let namespace = TestNamespace::create(&system.plane).await.unwrap();
    let mut first = system.start_another("first", &ELECTION);
    leads(&system, &first).await;
    let mut second = system.start_another("second", &ELECTION);
    System::works(&namespace, "one").await;
    leads(&system, &first).await;

    // One that slept through its own Lease does nothing more when it wakes up.
    signal(&first, Signal::STOP);
    leads(&system, &second).await;
    System::works(&namespace, "two").await;
    signal(&first, Signal::CONT);
    assert_eq!(exit_code(&mut first).await, Some(1));
    leads(&system, &second).await;

    // One that is told to end lets the next one begin at once.
    signal(&second, Signal::TERM);
    assert_eq!(exit_code(&mut second).await, Some(0));
    assert_eq!(holder(&system).await.as_deref(), Some(""));
    let mut third = system.start_another("third", &ELECTION);
    leads(&system, &third).await;
    System::works(&namespace, "three").await;
    third.kill().unwrap();
    third.wait().unwrap();
}

#[test]
fn times_that_make_no_leader_are_refused() {
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
