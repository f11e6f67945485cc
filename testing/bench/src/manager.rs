//! Measures the manager on a control plane of its own, with leader election. The audit log of the
//! API server identifies its requests by its user. Upstream's figures are those of its 2.x,
//! measured the same way.
#![expect(
    clippy::cast_precision_loss,
    reason = "no figure here has more than a few digits"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use pko_testkit::{
    ControlPlane, TestNamespace,
    audit::AuditedRequests,
    checkout::{cargo, target_folder},
    eventually_within,
    progress::Step,
    readiness::check_ready,
};
use tokio::time::sleep;

use super::{
    ManagerArguments, fixtures,
    process::{ServerProcess, free_address},
    report::Figure,
};

/// The manager's user at the API server.
pub(super) const USER: &str = "manager";
/// Enough for a standby to take over with any settings, including upstream's.
pub(super) const TIMEOUT: Duration = Duration::from_mins(3);
/// Until a standby has read the Lease more than once.
const STANDBY_DELAY: Duration = Duration::from_secs(12);

/// Measures a manager, by default ours.
pub(super) async fn measure(arguments: &ManagerArguments) -> anyhow::Result<Vec<Figure>> {
    let manager = match &arguments.manager {
        Some(manager) => manager
            .canonicalize()
            .context("failed to find the manager")?,
        None => build()?,
    };
    let mut figures = vec![size(&manager)?];
    let environment = ManagerEnvironment::new(manager).await?;
    let leader = environment.start_manager().await?;
    figures.extend(memory(&environment, &leader, arguments).await?);
    figures.extend(rest(&environment, &leader, arguments).await?);
    figures.extend(takeovers(&environment, leader).await?);
    Ok(figures)
}

/// Builds the manager in release mode.
pub(super) fn build() -> anyhow::Result<PathBuf> {
    let step = Step::begin("building the manager");
    let arguments = ["build", "--release", "--quiet", "--package", "pko-operator"];
    if !cargo().args(arguments).status()?.success() {
        bail!("the manager does not build");
    }
    println!("  built, {}", step.elapsed());
    Ok(target_folder()?.join("release/manager"))
}

/// A control plane for managers.
struct ManagerEnvironment {
    manager: PathBuf,
    kubeconfig: PathBuf,
    namespace: TestNamespace,
    plane: ControlPlane,
}

impl ManagerEnvironment {
    async fn new(manager: PathBuf) -> anyhow::Result<Self> {
        let step = Step::begin("starting a control plane");
        let plane = ControlPlane::builder().controller_manager(true);
        let plane = plane.start().await?;
        plane.install_crds(&pko_api::crd::all()).await?;
        let namespace = TestNamespace::create(&plane).await?;
        println!("  started, {}", step.elapsed());
        Ok(Self {
            manager,
            kubeconfig: plane.kubeconfig_as(USER, &["system:masters"])?,
            namespace,
            plane,
        })
    }

    /// Starts a manager, the leader or a standby, and waits until it is ready.
    async fn start_manager(&self) -> anyhow::Result<ServerProcess> {
        let health = free_address()?;
        let mut command = Command::new(&self.manager);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--leader-elect", "--workspace-runtime", "pod"])
            .args(["--program-fs-addr", "127.0.0.1:0"])
            .args(["--health-probe-bind-address", &health.to_string()])
            .env("POD_NAMESPACE", "default")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = ServerProcess::start(command, health)?;
        eventually_within(TIMEOUT, "the manager to be ready", async || {
            check_ready(health).await
        })
        .await?;
        Ok(server)
    }
}

fn size(manager: &Path) -> anyhow::Result<Figure> {
    let bytes = fs::metadata(manager)?.len();
    let figure = Figure::new("size of the program", bytes as f64 / 1e6, "MB");
    Ok(figure.of("P15").against(68.9, 0.3))
}

/// Memory without Stacks, then with unrelated objects.
async fn memory(
    environment: &ManagerEnvironment,
    manager: &ServerProcess,
    arguments: &ManagerArguments,
) -> anyhow::Result<Vec<Figure>> {
    let step = Step::begin("letting it settle without Stacks");
    settle(arguments).await;
    let idle = manager.resident()? / 1024.0;
    println!("  settled, {}", step.elapsed());
    let step = Step::begin("adding unrelated objects");
    fixtures::create_unrelated_objects(&environment.namespace, arguments.foreign).await?;
    settle(arguments).await;
    let crowded = manager.resident()? / 1024.0;
    println!("  added and settled, {}", step.elapsed());
    Ok(vec![
        Figure::new("memory, no Stacks", idle, "MiB")
            .of("P1")
            .against(57.0, 0.3),
        Figure::new("memory for foreign pods and Secrets", crowded - idle, "MiB")
            .of("P3")
            .against(17.0, 0.05),
    ])
}

/// Requests and processor time with Stacks at rest.
async fn rest(
    environment: &ManagerEnvironment,
    manager: &ServerProcess,
    arguments: &ManagerArguments,
) -> anyhow::Result<Vec<Figure>> {
    let step = Step::begin("letting it rest with Stacks");
    fixtures::create_stalled_stacks(&environment.namespace, arguments.stacks).await?;
    settle(arguments).await;
    let mark = environment.plane.audit_position().await?;
    let (began, used) = (Instant::now(), manager.processor_time()?);
    sleep(Duration::from_secs(arguments.rest.into())).await;
    let (seconds, used) = (
        began.elapsed().as_secs_f64(),
        manager.processor_time()? - used,
    );
    let requests = environment.plane.requests_since(mark).await?.by_user(USER);
    println!("  rested, {}", step.elapsed());
    print!("{}", requests.counts());
    let mut figures = requests_a_minute(&requests, seconds / 60.0);
    let resident = manager.resident()? / 1024.0;
    figures.push(
        Figure::new(
            "processor time a second at rest",
            used / seconds * 1e3,
            "ms",
        )
        .of("P18"),
    );
    figures.push(Figure::new("memory with Stacks at rest", resident, "MiB"));
    Ok(figures)
}

fn requests_a_minute(requests: &AuditedRequests, minutes: f64) -> Vec<Figure> {
    let rate = |count: usize| count as f64 / minutes;
    let watches = requests.iter().filter(|request| request.verb == "watch");
    let leases = requests.iter();
    let leases = leases.filter(|request| request.resource.starts_with("leases."));
    vec![
        Figure::new("requests a minute at rest", rate(requests.len()), "")
            .of("P8")
            .against(228.0, 0.1),
        Figure::new("of these, watches", rate(watches.count()), ""),
        Figure::new("of these, for the Lease", rate(leases.count()), ""),
    ]
}

/// The gap after a leader is killed, and after one is terminated.
async fn takeovers(
    environment: &ManagerEnvironment,
    leader: ServerProcess,
) -> anyhow::Result<Vec<Figure>> {
    let step = Step::begin("killing the leader, then terminating the next one");
    let second = environment.start_standby().await?;
    let began = Instant::now();
    drop(leader);
    fixtures::create_served_program(&environment.namespace, "after-kill").await?;
    let after_kill = began.elapsed().as_secs_f64();
    let _third = environment.start_standby().await?;
    let began = Instant::now();
    second.terminate()?;
    fixtures::create_served_program(&environment.namespace, "after-end").await?;
    let after_end = began.elapsed().as_secs_f64();
    println!("  taken over twice, {}", step.elapsed());
    Ok(vec![
        Figure::new("leader killed until another writes", after_kill, "s")
            .of("P19")
            .against(60.0, 0.35),
        Figure::new("leader terminated until another writes", after_end, "s")
            .of("P20")
            .against(12.0, 0.25),
    ])
}

impl ManagerEnvironment {
    async fn start_standby(&self) -> anyhow::Result<ServerProcess> {
        let standby = self.start_manager().await?;
        sleep(STANDBY_DELAY).await;
        Ok(standby)
    }
}

async fn settle(arguments: &ManagerArguments) {
    sleep(Duration::from_secs(arguments.settle.into())).await;
}
