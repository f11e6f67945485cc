//! What a cluster requires of the machine: root, cgroups, namespaces and system programs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::namespaces::{run, search_path};
use super::{ClusterError, cgroups};

/// System programs of a cluster, and their Debian packages.
const PROGRAMS: [(&str, &str); 8] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
];
const PLUGIN_FOLDERS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];
const PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];
const PLUGIN_PACKAGE: &str = "containernetworking-plugins";

/// The reason why this machine can't run a cluster. Installs nothing.
pub(super) fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("a cluster needs root".to_owned());
    }
    if !cgroups::are_mounted() {
        return Some("no cgroups are mounted at /sys/fs/cgroup".to_owned());
    }
    let missing = missing_packages();
    if !missing.is_empty() && program("apt-get").is_none() {
        let packages = missing.join(", ");
        return Some(format!(
            "these Debian packages are missing, and there is no apt-get: {packages}"
        ));
    }
    if program("unshare").is_some() && try_namespaces().is_err() {
        return Some("this machine does not allow new network and mount namespaces".to_owned());
    }
    None
}

fn try_namespaces() -> Result<(), ClusterError> {
    let mut command = Command::new("unshare");
    command.args([
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "true",
    ]);
    run(&mut command).map(drop)
}

pub(super) fn prepare(say: &dyn Fn(&str)) -> Result<(), ClusterError> {
    if let Some(obstacle) = obstacle() {
        return Err(ClusterError::Impossible(obstacle));
    }
    let missing = missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    say(&format!("installing {}", missing.join(", ")));
    install_packages(&missing)?;
    match missing_packages().as_slice() {
        [] => Ok(()),
        still => Err(ClusterError::Impossible(format!(
            "apt-get installed {}, but their programs are still missing",
            still.join(", ")
        ))),
    }
}

/// Installs Debian packages, as root.
pub fn install_packages(packages: &[&str]) -> Result<(), ClusterError> {
    let apt_get = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        command
    };
    run(apt_get().arg("update"))?;
    let install = ["install", "--yes", "--no-install-recommends"];
    run(apt_get().args(install).args(packages))?;
    Ok(())
}

/// The missing Debian packages of a cluster.
#[must_use]
pub fn missing_packages() -> Vec<&'static str> {
    let programs = PROGRAMS.iter().filter(|(name, _)| program(name).is_none());
    let mut packages: Vec<&str> = programs.map(|(_, package)| *package).collect();
    if plugins().is_none() {
        packages.push(PLUGIN_PACKAGE);
    }
    packages.dedup();
    packages
}

/// The path of a system program.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    env::split_paths(&search_path())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The folder of the CNI plugins.
pub(super) fn plugins() -> Option<&'static Path> {
    PLUGIN_FOLDERS.iter().map(Path::new).find(|folder| {
        let mut plugins = PLUGINS.iter();
        plugins.all(|plugin| folder.join(plugin).is_file())
    })
}
