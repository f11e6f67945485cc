//! The kernel namespaces of a node: network, mount and PID.
//!
//! All processes of a cluster are in one PID namespace. When its first process ends, the kernel
//! kills the others, and mounts, interfaces and addresses disappear with them: no effect outlives
//! the cluster.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::ClusterError;
use super::cluster_dir::{ClusterDir, attempt};
use super::processes::{self, NodeProcess};
use crate::last_lines::last_lines;

/// The name of the first process, by which it is found again.
const FIRST: &str = "node-init";
const PREPARED: &str = "prepared";
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(10);
/// Where programs of the system are, also for those whose PATH has no `sbin`.
const SYSTEM: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Prepares the node's view of the machine, then becomes its first process.
///
/// The kubelet would set some settings of the kernel that belong to the whole machine: it gets
/// copies.
const PREPARE: &str = r#"
set -eu
dir=$1
mount --make-rshared /
resolver=$(readlink -m /etc/resolv.conf)
mount -t tmpfs -o mode=755 tmpfs /run
for folder in lib log; do
  mkdir -p "$dir/var-$folder"
  mount --bind "$dir/var-$folder" "/var/$folder"
done
mkdir -p "$(dirname "$resolver")"
[ -e "$resolver" ] || : >"$resolver"
mount --bind "$dir/resolv.conf" "$resolver"
mkdir /run/settings
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  copy=/run/settings/$(basename "$setting")
  if cat "/proc/sys/$setting" >"$copy" 2>/dev/null; then mount --bind "$copy" "/proc/sys/$setting"; fi
done
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
# Connections between pods by way of a Service need this, and a kernel without bridge filters has no such file
echo 1 2>/dev/null >/proc/sys/net/bridge/bridge-nf-call-iptables || :
: >"$dir/prepared"
exec "$dir/node-init"
"#;

/// The namespaces of a running node, identified by their first process.
#[derive(Clone, Debug)]
pub(super) struct NodeNamespaces {
    first: u32,
}

impl NodeNamespaces {
    /// Makes them, with a program that waits as their first process.
    pub(super) fn start(dir: &ClusterDir, pause: &Path) -> Result<Self, ClusterError> {
        let first = dir.path(FIRST);
        attempt("write", &first, |path| fs::copy(pause, path))?;
        let script = dir.write(&format!("{FIRST}.sh"), PREPARE)?;
        let log = dir.log(FIRST);
        let output = attempt("open", &log, |path| File::create(path))?;
        let errors = attempt("open", &log, |_| output.try_clone())?;
        let mut command = Command::new("setsid");
        command
            .args(["--fork", "unshare", "--net", "--mount", "--pid", "--fork"])
            .args(["--kill-child", "--mount-proc", "sh"])
            .arg(&script)
            .arg(dir.folder())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        set_environment(&mut command, dir);
        run(&mut command)?;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(found) = Self::find(dir).filter(|_| dir.path(PREPARED).exists()) {
                return Ok(found);
            }
            thread::sleep(PAUSE);
        }
        Err(ClusterError::NotReady {
            what: "the node's namespaces".to_owned(),
            missing: "their first process has not come up".to_owned(),
            log: last_lines(&fs::read(log).unwrap_or_default()),
        })
    }

    /// The namespaces of the node in a folder.
    pub(super) fn find(dir: &ClusterDir) -> Option<Self> {
        let first = init_processes(dir)
            .into_iter()
            .find(|process| process.ids.len() == 2 && process.ids.last() == Some(&1))?;
        Some(Self { first: first.id })
    }

    /// The id of the first process, by which others can be put into the same network.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// A command in the namespaces; standard streams, environment and folder are the caller's.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg("--target")
            .arg(self.first.to_string())
            .args(["--net", "--mount", "--root", "--pid", "--"])
            .arg(program);
        command
    }

    /// Starts a program that stays, with its output at the end of a log.
    pub(super) fn spawn(
        &self,
        dir: &ClusterDir,
        wanted: &Command,
        log: &Path,
    ) -> Result<(), ClusterError> {
        let output = attempt("open", log, |path| {
            File::options().create(true).append(true).open(path)
        })?;
        let errors = attempt("open", log, |_| output.try_clone())?;
        let mut command = self.command("setsid");
        command
            .arg("--fork")
            .arg(wanted.get_program())
            .args(wanted.get_args())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        set_environment(&mut command, dir);
        let status = command
            .status()
            .map_err(|source| not_run(&command, source))?;
        if status.success() {
            return Ok(());
        }
        Err(ClusterError::Command {
            command: format!("{wanted:?}"),
            status,
            output: last_lines(&fs::read(log).unwrap_or_default()),
        })
    }

    /// All processes of the node, pods and all.
    pub(super) fn processes(&self) -> Vec<NodeProcess> {
        processes::descendants(self.first)
    }

    /// The processes of a program that are no pod's.
    pub(super) fn running(&self, program: &Path) -> Vec<NodeProcess> {
        let mut running = self.processes();
        running.retain(|process| process.ids.len() == 2 && process.program() == program);
        running
    }

    /// Kills a program, and waits until it is gone.
    pub(super) fn stop(&self, program: &Path) -> Result<(), ClusterError> {
        if processes::kill_all(PATIENCE, || self.running(program)) {
            return Ok(());
        }
        Err(ClusterError::Stays(program.display().to_string()))
    }
}

/// Ends all processes of the cluster in a folder.
pub(super) fn end(dir: &ClusterDir) -> Result<(), ClusterError> {
    // The kernel takes a moment to end the descendants, and mounts live as long as they do
    let tree: Vec<NodeProcess> = init_processes(dir)
        .iter()
        .flat_map(|process| processes::descendants(process.id))
        .collect();
    let rest = || {
        let mut found = processes::all();
        found.retain(|process| {
            tree.iter()
                .any(|it| it.id == process.id && it.ids == process.ids)
        });
        found
    };
    if processes::kill_all(PATIENCE, || init_processes(dir)) && wait_until_gone(rest) {
        return Ok(());
    }
    Err(ClusterError::Stays(dir.text(FIRST)))
}

fn wait_until_gone(find: impl Fn() -> Vec<NodeProcess>) -> bool {
    let end = Instant::now() + PATIENCE;
    while !find().is_empty() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

/// The first process, at any stage of its start.
fn init_processes(dir: &ClusterDir) -> Vec<NodeProcess> {
    let (program, script) = (dir.text(FIRST), dir.text(&format!("{FIRST}.sh")));
    let mut found = processes::all();
    found.retain(|process| {
        let mut arguments = process.arguments.iter();
        arguments.any(|argument| *argument == program || *argument == script)
    });
    found
}

/// Nothing of the caller's environment is meant for the cluster, least of all its proxies.
fn set_environment(command: &mut Command, dir: &ClusterDir) {
    command
        .env_clear()
        .env("PATH", search_path())
        .env("HOME", dir.path("home"));
}

/// The caller's search path and the system's.
pub(super) fn search_path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(SYSTEM);
    path
}

/// Runs a command. Errors contain its output.
pub(super) fn run(command: &mut Command) -> Result<Output, ClusterError> {
    let output = command
        .output()
        .map_err(|source| not_run(command, source))?;
    if output.status.success() {
        return Ok(output);
    }
    let printed = [output.stdout.as_slice(), &output.stderr].concat();
    Err(ClusterError::Command {
        command: format!("{command:?}"),
        status: output.status,
        output: last_lines(&printed),
    })
}

fn not_run(command: &Command, source: io::Error) -> ClusterError {
    ClusterError::Run {
        program: command.get_program().into(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cluster_dir::HIDDEN;
    use super::*;

    #[test]
    fn hidden_folders_match_the_prepare_script() {
        for folder in HIDDEN {
            let folder = folder.trim_start_matches("/var");
            assert!(PREPARE.contains(folder.trim_start_matches('/')), "{folder}");
        }
    }
}
