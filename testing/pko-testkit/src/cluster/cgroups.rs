//! The cgroups of a cluster's pods: one group in each hierarchy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::ClusterError;
use super::cluster_dir::{ClusterDir, attempt};

const MOUNTED: &str = "/sys/fs/cgroup";
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// The weight of all pods together, in each kind of cgroup: that of eight processes. Without it
/// they share the weight of a single one, and starve beside other test suites.
const CPU_WEIGHTS: [(&str, &str); 2] = [("cpu.shares", "8192"), ("cpu.weight", "800")];

/// The group of a cluster, as the kubelet names it.
pub(super) fn name(dir: &ClusterDir) -> String {
    format!("/pko-{}", dir.name())
}

/// Creates the groups, which the kubelet requires.
pub(super) fn create(dir: &ClusterDir) -> Result<(), ClusterError> {
    for hierarchy in hierarchies() {
        let group = within(&hierarchy, dir);
        attempt("create", &group, |path| fs::create_dir_all(path))?;
        // A cgroup v1 cpuset starts without processors, and accepts no process
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if hierarchy.ends_with("cpuset") {
                let allowed = attempt("read", &hierarchy.join(file), |path| fs::read(path))?;
                attempt("write", &group.join(file), |path| fs::write(path, allowed))?;
            }
        }
        for (file, weight) in CPU_WEIGHTS {
            let file = group.join(file);
            if file.exists() {
                attempt("write", &file, |path| fs::write(path, weight))?;
            }
        }
    }
    Ok(())
}

/// Removes them, once those who were in them are gone.
pub(super) fn remove(dir: &ClusterDir) -> Result<(), ClusterError> {
    for hierarchy in hierarchies() {
        let group = within(&hierarchy, dir);
        let end = Instant::now() + PATIENCE;
        while let Err(error) = remove_tree(&group) {
            if Instant::now() > end {
                return attempt("remove", &group, |_| Err(error));
            }
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Files of a group can't be removed and go with it, so only folders are.
fn remove_tree(group: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

fn within(hierarchy: &Path, dir: &ClusterDir) -> PathBuf {
    hierarchy.join(name(dir).trim_start_matches('/'))
}

/// The one of the new kind, or those of the old kind, one for each controller.
fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(MOUNTED);
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    let entries = fs::read_dir(root).into_iter().flatten();
    // A name such as `cpu` may be a link to `cpu,cpuacct`
    let folders = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_type().ok()?.is_dir().then(|| entry.path())
    });
    folders
        .filter(|folder| folder.join("cgroup.procs").exists())
        .collect()
}

pub(super) fn are_mounted() -> bool {
    !hierarchies().is_empty()
}
