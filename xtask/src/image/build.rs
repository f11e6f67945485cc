//! Builds our programs as static binaries.
//!
//! They are linked with musl, because the agent runs in images of users, where glibc, even static,
//! would load the image's own modules for name lookups. If Rust's musl target is not available,
//! glibc is linked statically.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use clap::ValueEnum;

use super::contents::ImagePrograms;
use pko_testkit::{
    checkout::{cargo, checkout, target_folder},
    progress::Step,
};

/// The packages whose programs go into images.
const PACKAGES: [&str; 3] = ["pko-operator", "pko-agent", "pko-engine"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    /// x86-64
    Amd64,
    /// 64-bit ARM
    Arm64,
}

impl Architecture {
    pub(crate) fn of_this_machine() -> Option<Self> {
        match env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    /// Go's name, which OCI images use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Rust's and GNU's name.
    fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// The C compiler, which also links, and its Debian package.
    fn compiler(self) -> (&'static str, &'static str) {
        match self {
            _ if Self::of_this_machine() == Some(self) => ("gcc", "gcc"),
            Self::Amd64 => ("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"),
            Self::Arm64 => ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        }
    }
}

pub(crate) fn build_programs(
    architecture: Architecture,
    profile: &str,
) -> anyhow::Result<ImagePrograms> {
    let compiler = find_compiler(architecture)?;
    let target = select_target(architecture)?;
    let step = Step::begin(&format!(
        "building manager, agent and pulumi-engine for {target}"
    ));
    let mut command = cargo();
    command.args([
        "build",
        "--locked",
        "--quiet",
        "--bins",
        "--profile",
        profile,
    ]);
    command.args(["--target", &target]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    for (name, value) in environment(&target, compiler) {
        command.env(name, value);
    }
    let built = command.status().context("failed to run cargo")?;
    if !built.success() {
        bail!("our programs do not build for {target}");
    }
    println!("  built, {}", step.elapsed());
    read_programs(&target_folder()?.join(&target).join(folder(profile)))
}

/// Cargo's output folder for a profile.
fn folder(profile: &str) -> &str {
    match profile {
        "dev" => "debug",
        other => other,
    }
}

pub(crate) fn read_programs(folder: &Path) -> anyhow::Result<ImagePrograms> {
    let program = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).with_context(|| format!("failed to read {}", path.display()))
    };
    Ok(ImagePrograms {
        manager: program("manager")?,
        agent: program("agent")?,
        engine: program("pulumi-engine")?,
    })
}

/// The compiler, and flags for a reproducible build.
fn environment(target: &str, compiler: &str) -> Vec<(String, String)> {
    let name = target.replace('-', "_");
    let cargos = format!("CARGO_TARGET_{}", name.to_uppercase());
    // Our own paths are already relative. A flag with the checkout's path would rebuild every
    // dependency for each checkout.
    let mut flags = vec![format!(
        "--remap-path-prefix={}=/cargo",
        cargo_home().display()
    )];
    if target.ends_with("gnu") {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
    }
    vec![
        (format!("CC_{name}"), compiler.to_owned()),
        // With _FORTIFY_SOURCE, glibc's headers use functions that musl lacks.
        (format!("CFLAGS_{name}"), "-U_FORTIFY_SOURCE".to_owned()),
        (format!("{cargos}_LINKER"), compiler.to_owned()),
        (format!("{cargos}_RUSTFLAGS"), flags.join(" ")),
    ]
}

fn cargo_home() -> PathBuf {
    let home = || env::home_dir().unwrap_or_default().join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// The target to build for, whose library is installed if necessary.
fn select_target(architecture: Architecture) -> anyhow::Result<String> {
    let machine = architecture.machine();
    let musl = format!("{machine}-unknown-linux-musl");
    if has_library(&musl)? || install_target(&musl) {
        return Ok(musl);
    }
    let gnu = format!("{machine}-unknown-linux-gnu");
    if has_library(&gnu)? || install_target(&gnu) {
        println!("  rustup can't add {musl}: glibc is linked in statically instead");
        return Ok(gnu);
    }
    bail!("Rust's library for {musl} is missing: run `rustup target add {musl}`");
}

fn has_library(target: &str) -> anyhow::Result<bool> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", target])
        .current_dir(checkout())
        .output()
        .context("failed to run rustc")?;
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success() && fs::read_dir(folder).is_ok())
}

/// Installs a target with rustup.
fn install_target(target: &str) -> bool {
    let added = Command::new("rustup")
        .args(["target", "add", target])
        .current_dir(checkout())
        .output();
    added.is_ok_and(|output| output.status.success())
}

/// Finds the C compiler, and installs it as root on Debian.
fn find_compiler(architecture: Architecture) -> anyhow::Result<&'static str> {
    let (program, package) = architecture.compiler();
    if on_path(program) {
        return Ok(program);
    }
    if rustix::process::geteuid().is_root() && on_path("apt-get") {
        println!("installing {package} …");
        install_package(package);
    }
    if !on_path(program) {
        bail!("the C compiler {program} is missing (Debian's package is {package})");
    }
    Ok(program)
}

/// Installs a package with its recommendations, which include the C headers.
fn install_package(package: &str) {
    for arguments in [vec!["update", "-qq"], vec!["install", "-y", "-qq", package]] {
        let mut command = Command::new("apt-get");
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        // The caller checks for the program and reports what is missing.
        let _ = command.output();
    }
}

fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_flags_contain_no_local_path() {
        let all = environment("x86_64-unknown-linux-musl", "gcc");
        let (_, flags) = all
            .iter()
            .find(|(name, _)| name.ends_with("_RUSTFLAGS"))
            .unwrap();
        assert!(
            flags.contains(&format!("{}=/cargo", cargo_home().display())),
            "{flags}"
        );
        let checkout = checkout().display().to_string();
        assert!(
            !flags.contains(&checkout),
            "each checkout is the same: {flags}"
        );
        assert!(
            !flags.contains("crt-static"),
            "musl is static by itself: {flags}"
        );
    }

    #[test]
    fn glibc_is_linked_statically() {
        let all = environment("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc");
        let flags = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS";
        let (_, flags) = all.iter().find(|(name, _)| name == flags).unwrap();
        assert!(flags.ends_with("-Ctarget-feature=+crt-static"), "{flags}");
    }
}
