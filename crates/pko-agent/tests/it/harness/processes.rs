//! Processes, read from `/proc`.

use std::{collections::BTreeSet, fs};

use rustix::process::Pid;

/// The exited children of a process that it has not reaped.
pub(crate) fn zombies(parent: Pid) -> usize {
    let parent = parent.as_raw_nonzero().to_string();
    let is_zombie = |stat: &String| {
        // The fields follow the name, which is in parentheses and may hold anything.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let mut fields = fields.split_whitespace();
        fields.next() == Some("Z") && fields.next() == Some(&parent)
    };
    every("stat").iter().filter(|stat| is_zombie(stat)).count()
}

/// The children of all threads of a process, including zombies.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().to_string();
    let child = |stat: &String| {
        let (number, _) = stat.split_once(' ')?;
        let (_, fields) = stat.rsplit_once(')')?;
        let is_child = fields.split_whitespace().nth(1) == Some(&parent);
        number.parse().ok().filter(|_| is_child)
    };
    let numbers = every("stat");
    numbers
        .iter()
        .filter_map(child)
        .filter_map(Pid::from_raw)
        .collect()
}

/// The command lines of all processes.
pub(crate) fn command_lines() -> Vec<String> {
    every("cmdline")
}

/// One file of every process.
fn every(file: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap();
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let text = fs::read(entry.ok()?.path().join(file)).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    entries.filter_map(read).collect()
}

/// The open files, sockets and pipes of a process.
pub(crate) fn open_files(process: Pid) -> Vec<String> {
    let folder = format!("/proc/{}/fd", process.as_raw_nonzero());
    let entries = fs::read_dir(folder).unwrap();
    let target = |entry: std::io::Result<fs::DirEntry>| {
        let target = fs::read_link(entry.ok()?.path()).ok()?;
        Some(target.to_string_lossy().into_owned())
    };
    entries.filter_map(target).collect()
}

/// The number of TCP ports that a process listens on.
pub(crate) fn listening_sockets(process: Pid) -> usize {
    let open: BTreeSet<String> = open_files(process).into_iter().collect();
    let tables = ["tcp", "tcp6"].map(|table| {
        let path = format!("/proc/{}/net/{table}", process.as_raw_nonzero());
        fs::read_to_string(path).unwrap_or_default()
    });
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let is_ours = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let inode = fields.get(9).copied().unwrap_or_default();
        // Listening is the state 0A.
        fields.get(3) == Some(&"0A") && open.contains(&format!("socket:[{inode}]"))
    };
    lines.filter(is_ours).count()
}
