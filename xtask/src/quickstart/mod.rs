//! `cargo xtask quickstart`: the whole system on this machine, with one Stack.

mod manager;
mod story;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use pko_testkit::{Component, Components, ControlPlane, components::ComponentsError, pulumi_cli};
use tokio::signal::unix::{SignalKind, signal};

use crate::{cargo, programs_folder, progress::Step};
use manager::Manager;

/// The example, as it is applied to a cluster, too.
const EXAMPLE: &str = include_str!("../../../examples/hello/stack.yaml");

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// End after the Stack was Ready and is deleted again; fail if it does not get there
    #[arg(long)]
    once: bool,
    /// Run the program with Pulumi's own CLI, which is built first if `PKO_PULUMI` names none,
    /// instead of the embedded engine
    #[arg(long)]
    cli: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Whichever comes first; the parts are ended by their drop in both cases.
    tokio::select! {
        told = told(arguments) => told,
        () = interrupted() => {
            println!("\nending …");
            Ok(())
        }
    }
}

async fn told(arguments: &Arguments) -> anyhow::Result<()> {
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

    // This program may run where there is no checkout.
    let manifest = manager.folder().join("hello.yaml");
    fs::write(&manifest, EXAMPLE)?;
    apply(&plane, &manifest)?;
    let story = story::Story::begin(&plane)?;
    story
        .until_ready()
        .await
        .with_context(|| manager.last_words())?;
    if arguments.once {
        story
            .delete_and_wait()
            .await
            .with_context(|| manager.last_words())?;
        println!("done: created, ready, destroyed, gone");
        return Ok(());
    }
    story::say_what_to_try(&plane, &manager);
    std::future::pending().await
}

/// Builds what is missing of a control plane, all with one `go build`.
fn build_control_plane() -> Result<(), ComponentsError> {
    Components::from_environment()?.prepare(&Component::CONTROL_PLANE)
}

/// A CLI's name and version.
fn version(pulumi: &Path) -> anyhow::Result<String> {
    let output = Command::new(pulumi).arg("version").output();
    let output = output.with_context(|| format!("failed to run {}", pulumi.display()))?;
    let version = String::from_utf8_lossy(&output.stdout);
    Ok(format!("Pulumi's CLI {}", version.trim()))
}

/// The folder that has our programs: `$PKO_BIN_DIR`, or they are built.
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
    programs_folder()
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

/// Comes when the user has had enough.
async fn interrupted() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
}
