//! Installs and builds what the tests need, with apt-get, pip, npm and go.
//!
//! As root on Debian it installs missing packages. Otherwise it prints what is missing, and the
//! tests that need it skip themselves.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail};
use pko_testkit::{Cluster, Component, Components, PKO_PULUMI, pulumi_cli};

use super::Layer;
use pko_testkit::progress::Step;

/// OpenSSH's server and its Debian package.
const SSHD: (&str, &str) = ("/usr/sbin/sshd", "openssh-server");
/// A server with the API of S3.
const MOTO: &str = "moto[server]==5.2.5";
/// A server with the API of Azure Blob Storage.
const AZURITE: &str = "azurite@3.37.0";

/// Installs what is missing, or prints that it cannot.
pub(super) fn install(layer: Option<Layer>) -> anyhow::Result<()> {
    install_packages(layer)?;
    let cache = pko_testkit::components::cache_folder()?;
    if !cache.join("moto/bin/moto_server").is_file() {
        install_optional("moto, for tests with S3", || {
            install_moto(&cache.join("moto"))
        });
    }
    let azurite = cache.join("azurite");
    let is_wanted = layer != Some(Layer::E2e);
    if is_wanted && !azurite.join("node_modules/.bin/azurite-blob").exists() {
        install_optional("azurite, for tests with Azure Blob Storage", || {
            install_azurite(&azurite)
        });
    }
    Ok(())
}

/// Builds other programs for the tests up front. Otherwise a test would build them silently.
pub(super) fn build(layer: Option<Layer>) -> anyhow::Result<()> {
    let step = Step::begin("Kubernetes and Pulumi");
    let mut wanted = Component::CONTROL_PLANE.to_vec();
    wanted.push(Component::StrategicMerge);
    if layer != Some(Layer::E2e) {
        wanted.push(Component::FakeGcsServer);
    }
    if Cluster::obstacle().is_none() {
        wanted.extend(Component::NODE);
        wanted.push(Component::Pause);
    }
    if std::env::var_os(PKO_PULUMI).is_none() {
        wanted.extend(Component::PULUMI);
    }
    Components::from_environment()?.prepare(&wanted)?;
    let pulumi = pulumi_cli()?;
    if !pulumi.with_file_name("pulumi-language-yaml").is_file() {
        bail!(
            "pulumi-language-yaml is missing beside {}; add it, or unset {PKO_PULUMI} to use the pinned CLI",
            pulumi.display()
        );
    }
    println!("  ready, {}", step.elapsed());
    Ok(())
}

fn install_packages(layer: Option<Layer>) -> anyhow::Result<()> {
    let mut packages = Vec::new();
    if !Path::new(SSHD.0).is_file() {
        packages.push(SSHD.1);
    }
    let obstacle = Cluster::obstacle();
    if layer != Some(Layer::It) && obstacle.is_none() {
        packages.extend(pko_testkit::cluster::missing_packages());
    }
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !rustix::process::geteuid().is_root() || !is_on_path("apt-get") {
        println!(
            "not installed: {list} (needs root and apt-get); tests that need them are skipped"
        );
        return Ok(());
    }
    let step = Step::begin(&format!("installing {list}"));
    pko_testkit::cluster::install_packages(&packages)?;
    println!("  installed, {}", step.elapsed());
    Ok(())
}

/// Installs something that only a few tests need.
fn install_optional(what: &str, install: impl FnOnce() -> anyhow::Result<()>) {
    let step = Step::begin(&format!("installing {what}"));
    match install() {
        Ok(()) => println!("  installed, {}", step.elapsed()),
        Err(error) => println!("  not installed: {error:#}"),
    }
}

fn install_moto(folder: &Path) -> anyhow::Result<()> {
    let is_made = run(Command::new("python3").args(["-m", "venv"]).arg(folder)).is_ok();
    if !is_made {
        // Debian packages the module separately.
        pko_testkit::cluster::install_packages(&["python3-venv"])?;
        run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", MOTO]))
}

fn install_azurite(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let install = ["install", "--no-audit", "--no-fund", "--silent", "--prefix"];
    run(Command::new("npm").args(install).arg(folder).arg(AZURITE))
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder: PathBuf| folder.join(program));
    files.any(|file| file.is_file())
}

/// Runs a command. The error contains the last line of its output.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("failed to run {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    let last = printed.lines().rev().find(|line| !line.trim().is_empty());
    bail!("{program} failed: {}", last.unwrap_or("it printed nothing"));
}
