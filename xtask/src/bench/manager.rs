//! The manager under measurement: on a control plane of its own, with leader election, under a name by which the
//! API server's audit log tells its requests from others'. Upstream's figures are those of its 2.x on such a plane.
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
use pko_testkit::{ControlPlane, TestNamespace, audit::AuditedRequests, eventually_within};
use tokio::time::sleep;

use super::{
    ManagerArguments, crowd,
    process::{Server, free_address},
    report::Figure,
};
use crate::{cargo, progress::Step, ready::is_ready};

/// Who a manager is to the API server.
pub(super) const USER: &str = "manager";
/// Long enough for a standby to take over with anybody's settings, upstream's included.
pub(super) const PATIENCE: Duration = Duration::from_mins(3);
/// Until a standby has seen the Lease more than once.
const STANDBY_SETTLES: Duration = Duration::from_secs(12);

/// All figures of a manager; of ours if no other is named.
pub(super) async fn measure(arguments: &ManagerArguments) -> anyhow::Result<Vec<Figure>> {
    let manager = match &arguments.manager {
        Some(manager) => manager
            .canonicalize()
            .context("failed to find the manager")?,
        None => build()?,
    };
    let mut figures = vec![size(&manager)?];
    let place = Place::new(manager).await?;
    let leader = place.start_manager().await?;
    figures.extend(memory(&place, &leader, arguments).await?);
    figures.extend(rest(&place, &leader, arguments).await?);
    figures.extend(takeovers(&place, leader).await?);
    Ok(figures)
}

/// Ours, as it is shipped.
pub(super) fn build() -> anyhow::Result<PathBuf> {
    let step = Step::begin("building the manager");
    let arguments = ["build", "--release", "--quiet", "--package", "pko-operator"];
    if !cargo().args(arguments).status()?.success() {
        bail!("the manager does not build");
    }
    println!("  built, {}", step.elapsed());
    Ok(crate::target_folder()?.join("release/manager"))
}

/// Where a manager is measured.
struct Place {
    manager: PathBuf,
    kubeconfig: PathBuf,
    namespace: TestNamespace,
    plane: ControlPlane,
}

impl Place {
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
    async fn start_manager(&self) -> anyhow::Result<Server> {
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
        let server = Server::start(command, health)?;
        eventually_within(PATIENCE, "the manager to be ready", async || {
            is_ready(health).await
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

/// With nothing to do, and among objects that are none of its business.
async fn memory(
    place: &Place,
    manager: &Server,
    arguments: &ManagerArguments,
) -> anyhow::Result<Vec<Figure>> {
    let step = Step::begin("letting it settle without Stacks");
    settle(arguments).await;
    let idle = manager.resident()? / 1024.0;
    println!("  settled, {}", step.elapsed());
    let step = Step::begin("adding objects that are none of its business");
    crowd::foreign(&place.namespace, arguments.foreign).await?;
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

/// What it costs while there are Stacks, but nothing to do for them.
async fn rest(
    place: &Place,
    manager: &Server,
    arguments: &ManagerArguments,
) -> anyhow::Result<Vec<Figure>> {
    let step = Step::begin("letting it rest with Stacks");
    crowd::stalled_stacks(&place.namespace, arguments.stacks).await?;
    settle(arguments).await;
    let mark = place.plane.audit_position().await?;
    let (began, used) = (Instant::now(), manager.processor_time()?);
    sleep(Duration::from_secs(arguments.rest.into())).await;
    let (seconds, used) = (
        began.elapsed().as_secs_f64(),
        manager.processor_time()? - used,
    );
    let requests = place.plane.requests_since(mark).await?.by_user(USER);
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

/// How long nobody works when a leader is killed, and when one is told to end.
async fn takeovers(place: &Place, leader: Server) -> anyhow::Result<Vec<Figure>> {
    let step = Step::begin("killing the leader, then telling the next one to end");
    let second = place.start_standby().await?;
    let began = Instant::now();
    drop(leader);
    crowd::served_program(&place.namespace, "after-kill").await?;
    let after_kill = began.elapsed().as_secs_f64();
    let _third = place.start_standby().await?;
    let began = Instant::now();
    second.terminate()?;
    crowd::served_program(&place.namespace, "after-end").await?;
    let after_end = began.elapsed().as_secs_f64();
    println!("  taken over twice, {}", step.elapsed());
    Ok(vec![
        Figure::new("leader killed until another writes", after_kill, "s")
            .of("P19")
            .against(60.0, 0.35),
        Figure::new("leader told to end until another writes", after_end, "s")
            .of("P20")
            .against(12.0, 0.25),
    ])
}

impl Place {
    async fn start_standby(&self) -> anyhow::Result<Server> {
        let standby = self.start_manager().await?;
        sleep(STANDBY_SETTLES).await;
        Ok(standby)
    }
}

async fn settle(arguments: &ManagerArguments) {
    sleep(Duration::from_secs(arguments.settle.into())).await;
}
