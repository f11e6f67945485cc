//! Our programs as static binaries. Does I/O: runs rustup, apt-get and cargo.
//!
//! They are linked against musl: an agent runs in whatever image a user has, where glibc, static or not, would load that
//! image's own modules to look up a name. Where Rust's library for musl can't be had, glibc is linked in statically,
//! which needs nothing of an empty image either.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use clap::ValueEnum;

use super::contents::Programs;
use crate::{cargo, checkout, progress::Step, target_folder};

/// The packages whose programs go into images.
const PACKAGES: [&str; 3] = ["pko-operator", "pko-agent", "pko-engine"];

/// What the images are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    /// x86-64
    Amd64,
    /// 64-bit ARM
    Arm64,
}

impl Architecture {
    /// That of this machine, if it is one of them.
    pub(crate) fn of_this_machine() -> Option<Self> {
        match env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    /// In Go's words, and so in those of images.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// In Rust's and in GNU's words.
    fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// The C compiler, which also links, and Debian's package that has it.
    fn compiler(self) -> (&'static str, &'static str) {
        match self {
            _ if Self::of_this_machine() == Some(self) => ("gcc", "gcc"),
            Self::Amd64 => ("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"),
            Self::Arm64 => ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        }
    }
}

/// Builds the programs.
pub(crate) fn programs(architecture: Architecture, profile: &str) -> anyhow::Result<Programs> {
    let compiler = compiler(architecture)?;
    let target = target(architecture)?;
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
    for (name, value) in variables(&target, compiler) {
        command.env(name, value);
    }
    let built = command.status().context("failed to run cargo")?;
    if !built.success() {
        bail!("our programs do not build for {target}");
    }
    println!("  built, {}", step.elapsed());
    read(&target_folder()?.join(&target).join(folder(profile)))
}

/// Where cargo puts what it builds with a profile.
fn folder(profile: &str) -> &str {
    match profile {
        "dev" => "debug",
        other => other,
    }
}

/// The programs that lie in a folder.
pub(crate) fn read(folder: &Path) -> anyhow::Result<Programs> {
    let program = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).with_context(|| format!("failed to read {}", path.display()))
    };
    Ok(Programs {
        manager: program("manager")?,
        agent: program("agent")?,
        engine: program("pulumi-engine")?,
    })
}

/// What a build needs to be told: the compiler, which links too, and what makes its result the same wherever it is made.
fn variables(target: &str, compiler: &str) -> Vec<(String, String)> {
    let name = target.replace('-', "_");
    let cargos = format!("CARGO_TARGET_{}", name.to_uppercase());
    // Cargo names our own files relative to the checkout. A flag with the checkout's path in it would have every
    // dependency built anew for each checkout.
    let mut flags = vec![format!(
        "--remap-path-prefix={}=/cargo",
        cargo_home().display()
    )];
    if target.ends_with("gnu") {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
    }
    vec![
        (format!("CC_{name}"), compiler.to_owned()),
        // glibc's headers turn some calls into ones that only glibc has; the little C in our programs needs none of that.
        (format!("CFLAGS_{name}"), "-U_FORTIFY_SOURCE".to_owned()),
        (format!("{cargos}_LINKER"), compiler.to_owned()),
        (format!("{cargos}_RUSTFLAGS"), flags.join(" ")),
    ]
}

fn cargo_home() -> PathBuf {
    let home = || env::home_dir().unwrap_or_default().join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// The target that can be built for, with its library.
fn target(architecture: Architecture) -> anyhow::Result<String> {
    let machine = architecture.machine();
    let musl = format!("{machine}-unknown-linux-musl");
    if has_library(&musl)? || add(&musl) {
        return Ok(musl);
    }
    let gnu = format!("{machine}-unknown-linux-gnu");
    if has_library(&gnu)? || add(&gnu) {
        println!("  rustup can't add {musl}: glibc is linked in statically instead");
        return Ok(gnu);
    }
    bail!("Rust's library for {musl} is missing: run `rustup target add {musl}`");
}

/// Whether rustc has the library of a target.
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

/// Asks rustup for the library of a target, of the toolchain of this checkout.
fn add(target: &str) -> bool {
    let added = Command::new("rustup")
        .args(["target", "add", target])
        .current_dir(checkout())
        .output();
    added.is_ok_and(|output| output.status.success())
}

/// The C compiler, from Debian's package where it is missing and root may install it.
fn compiler(architecture: Architecture) -> anyhow::Result<&'static str> {
    let (program, package) = architecture.compiler();
    if on_path(program) {
        return Ok(program);
    }
    if rustix::process::geteuid().is_root() && on_path("apt-get") {
        println!("installing {package} …");
        install(package);
    }
    if !on_path(program) {
        bail!("the C compiler {program} is missing (Debian's package is {package})");
    }
    Ok(program)
}

/// Installs a package with what it recommends, which is where C's headers are; whether it worked is seen by what it
/// brings.
fn install(package: &str) {
    for arguments in [vec!["update", "-qq"], vec!["install", "-y", "-qq", package]] {
        let mut command = Command::new("apt-get");
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        // Its words are for a person who looks into a failure; ours say what is missing.
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
    fn a_program_names_no_folder_of_its_builder() {
        let all = variables("x86_64-unknown-linux-musl", "gcc");
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
    fn glibc_is_linked_in() {
        let all = variables("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc");
        let flags = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS";
        let (_, flags) = all.iter().find(|(name, _)| name == flags).unwrap();
        assert!(flags.ends_with("-Ctarget-feature=+crt-static"), "{flags}");
    }
}
