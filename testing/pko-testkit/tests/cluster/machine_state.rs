//! The state of the machine that a cluster could change.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Excludes the effects of other work on the machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MachineState {
    processes: Vec<String>,
    cgroups: Vec<String>,
    mounts: String,
    named_networks: Vec<String>,
    packet_rules: String,
    settings: Vec<String>,
    folders: Vec<String>,
}

impl MachineState {
    /// Looks for those of a cluster.
    pub(crate) fn of(name: &str) -> Self {
        Self {
            processes: processes(name),
            cgroups: cgroups(name),
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap(),
            named_networks: names_in("/run/netns"),
            packet_rules: run_and_capture("nft", &["list", "ruleset"]),
            settings: settings(),
            folders: folders(),
        }
    }

    /// Checks that nothing of the cluster itself is there.
    pub(crate) fn assert_no_cluster(&self) {
        assert!(self.processes.is_empty(), "{:?}", self.processes);
        assert!(self.cgroups.is_empty(), "{:?}", self.cgroups);
    }
}

/// Processes in a cluster's cgroups, or with its folder among their arguments.
fn processes(name: &str) -> Vec<String> {
    let (folder, cgroup) = (format!("/cluster/{name}/"), format!("/pko-{name}"));
    let mut found = Vec::new();
    for id in names_in("/proc") {
        let path = Path::new("/proc").join(&id);
        let read = |file: &str| fs::read(path.join(file)).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let groups = String::from_utf8_lossy(&read("cgroup")).into_owned();
        let of_it = arguments.contains(&folder) || groups.contains(&cgroup);
        if of_it && id.parse().is_ok_and(runs) {
            found.push(format!("{id} {arguments}"));
        }
    }
    found
}

/// True if a process exists and is not a zombie.
pub(crate) fn runs(id: u32) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(id.to_string()).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

fn cgroups(name: &str) -> Vec<String> {
    let group = format!("pko-{name}");
    let controllers = names_in("/sys/fs/cgroup").into_iter();
    controllers
        .map(|controller| format!("/sys/fs/cgroup/{controller}/{group}"))
        .chain([format!("/sys/fs/cgroup/{group}")])
        .filter(|path| Path::new(path).exists())
        .collect()
}

/// Settings of the machine that a kubelet or a kube-proxy would change.
fn settings() -> Vec<String> {
    let names = [
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys",
        "net/ipv4/ip_forward",
        "net/netfilter/nf_conntrack_max",
    ];
    let value = |name: &str| fs::read_to_string(Path::new("/proc/sys").join(name));
    names
        .iter()
        .map(|name| format!("{name} {}", value(name).unwrap_or_default()))
        .collect()
}

/// The default folders of a node's programs.
fn folders() -> Vec<String> {
    let usual = [
        "/run/containerd",
        "/var/lib/cni",
        "/var/lib/containerd",
        "/var/lib/kubelet",
        "/var/log/pods",
        "/var/log/containers",
        "/etc/cni/net.d",
        "/usr/libexec/kubernetes",
    ];
    let there = usual.iter().filter(|path| Path::new(path).exists());
    there.map(|path| (*path).to_owned()).collect()
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn run_and_capture(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}
