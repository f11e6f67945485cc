//! `cargo xtask quickstart`: the whole system on this machine, with one Stack.

mod manager;
mod walkthrough;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use pko_testkit::{Component, Components, ControlPlane, components::ComponentsError, pulumi_cli};
use tokio::signal::unix::{SignalKind, signal};

use manager::Manager;
use pko_testkit::{
    checkout::{cargo, programs_folder},
    progress::Step,
};
use walkthrough::Walkthrough;

/// The example of the documentation.
const EXAMPLE: &str = include_str!("../../../examples/hello/stack.yaml");

#[derive(clap::Args)]
pub(crate) struct QuickstartArguments {
    /// Exit after the Stack became Ready and was deleted; fail if that does not happen
    #[arg(long)]
    once: bool,
    /// Use Pulumi's own CLI instead of the embedded engine; it is built unless `PKO_PULUMI` is set
    #[arg(long)]
    cli: bool,
}

pub(crate) async fn run(arguments: &QuickstartArguments) -> anyhow::Result<()> {
    // Dropping the demo ends all of its processes.
    tokio::select! {
        result = run_demo(arguments) => result,
        () = wait_for_interrupt() => {
            println!("\nending …");
            Ok(())
        }
    }
}

async fn run_demo(arguments: &QuickstartArguments) -> anyhow::Result<()> {
    let programs = programs()?;
    let mut pulumi = None;
    if arguments.cli {
        pulumi = Some(tokio::task::spawn_blocking(pulumi_cli).await??);
    }
    tokio::task::spawn_blocking(build_control_plane).await??;
    let step = Step::begin("starting a control plane");
    let plane = ControlPlane::builder()
        .controller_manager(true)
        .start()
        .await?;
    plane.install_crds(&pko_api::crd::all()).await?;
    println!(
        "  etcd, kube-apiserver and kube-controller-manager, {}",
        step.elapsed()
    );

    let step = Step::begin("starting the manager");
    let manager = Manager::start(&programs, &plane, pulumi.as_deref()).await?;
    match &pulumi {
        Some(pulumi) => println!("  ready, with {}, {}", version(pulumi)?, step.elapsed()),
        None => println!("  ready, {}", step.elapsed()),
    }

    // This executable may run without a checkout.
    let manifest = manager.folder().join("hello.yaml");
    fs::write(&manifest, EXAMPLE)?;
    apply(&plane, &manifest)?;
    let walkthrough = Walkthrough::begin(&plane)?;
    walkthrough
        .until_ready()
        .await
        .with_context(|| manager.log_tail())?;
    if arguments.once {
        walkthrough
            .delete_and_wait()
            .await
            .with_context(|| manager.log_tail())?;
        println!("done: created, ready, destroyed, gone");
        return Ok(());
    }
    walkthrough::print_next_steps(&plane, &manager);
    std::future::pending().await
}

/// Builds missing parts of the control plane with one `go build`.
fn build_control_plane() -> Result<(), ComponentsError> {
    Components::from_environment()?.prepare(&Component::CONTROL_PLANE)
}

fn version(pulumi: &Path) -> anyhow::Result<String> {
    let output = Command::new(pulumi).arg("version").output();
    let output = output.with_context(|| format!("failed to run {}", pulumi.display()))?;
    let version = String::from_utf8_lossy(&output.stdout);
    Ok(format!("Pulumi's CLI {}", version.trim()))
}

/// The folder of our programs: `PKO_BIN_DIR`, or they are built.
fn programs() -> anyhow::Result<PathBuf> {
    if let Some(folder) = std::env::var_os("PKO_BIN_DIR") {
        return Ok(folder.into());
    }
    let step = Step::begin("building");
    let built = cargo()
        .args(["build", "--quiet", "--workspace", "--bins"])
        .status()
        .context("failed to run cargo")?;
    if !built.success() {
        bail!("manager, agent and pulumi-engine do not build");
    }
    println!("  manager, agent and pulumi-engine, {}", step.elapsed());
    Ok(programs_folder()?)
}

fn apply(plane: &ControlPlane, manifest: &Path) -> anyhow::Result<()> {
    println!("kubectl apply -f examples/hello/stack.yaml");
    let output = plane
        .kubectl()?
        .arg("apply")
        .arg("-f")
        .arg(manifest)
        .output()?;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        println!("  {line}");
    }
    if !output.status.success() {
        bail!(
            "kubectl apply failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// Waits for SIGINT or SIGTERM.
async fn wait_for_interrupt() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
}
