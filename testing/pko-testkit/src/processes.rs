//! Processes found by a folder in their arguments or environment, and ended.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::lifeline::Lifeline;

const PAUSE: Duration = Duration::from_millis(50);
const KILL_DEADLINE: Duration = Duration::from_secs(10);

/// [`kill_processes_of`] as a script, which then removes the folder. A process that is just being
/// started may appear only in a later round.
const KILL_AND_REMOVE: &str = r#"
for round in 1 2 3 4 5 6 7 8 9 10; do
  found=
  for process in /proc/[0-9]*; do
    id=${process#/proc/}
    [ "$id" = "$$" ] && continue
    if grep -qsF -e "$1" "$process/cmdline" "$process/environ"; then
      found=1
      kill -KILL "$id"
    fi
  done
  [ -z "$found" ] && break
  sleep 0.2
done
rm -rf -- "$1"
"#;

/// The processes with a path below this folder in their arguments.
#[must_use]
pub fn processes_of(folder: &Path) -> Vec<u32> {
    processes_mentioning(folder, &["cmdline"])
}

/// The processes other than this one that mention a folder in one of these files of `/proc/PID`.
fn processes_mentioning(folder: &Path, files: &[&str]) -> Vec<u32> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let mentions = |path: String| {
        let text = fs::read(path).unwrap_or_default();
        text.windows(folder.len().max(1)).any(|part| part == folder)
    };
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process| *process != std::process::id())
        .filter(|process| {
            let mut files = files.iter();
            files.any(|file| mentions(format!("/proc/{process}/{file}")))
        })
        .collect()
}

/// Sends SIGTERM to the processes of a folder, and SIGKILL to those that remain after the grace
/// period.
pub fn end_processes_of(folder: &Path, grace: Duration) {
    for (signal, patience) in [("-TERM", grace), ("-KILL", Duration::from_secs(5))] {
        for process in processes_of(folder) {
            let kill = Command::new("kill")
                .args([signal, &process.to_string()])
                .stderr(Stdio::null())
                .status();
            drop(kill);
        }
        let end = Instant::now() + patience;
        while !processes_of(folder).is_empty() && Instant::now() < end {
            thread::sleep(PAUSE);
        }
    }
}

/// Kills all processes with a path below this folder in their arguments or environment, and waits
/// until they are gone. Their children are found in the next round.
pub fn kill_processes_of(folder: &Path) {
    let end = Instant::now() + KILL_DEADLINE;
    loop {
        let processes = processes_mentioning(folder, &["cmdline", "environ"]);
        if processes.is_empty() || Instant::now() > end {
            return;
        }
        for process in processes {
            let process = i32::try_from(process).ok().and_then(Pid::from_raw);
            // It may have ended since
            let _ = process.map(|process| kill_process(process, Signal::KILL));
        }
        thread::sleep(PAUSE / 5);
    }
}

/// Kills all processes of a folder, in any session or process group, and removes the folder when it
/// is dropped, or when this process ends.
pub struct FolderGuard {
    lifeline: Lifeline,
    folder: PathBuf,
}

impl FolderGuard {
    /// The folder's path must not be part of any other path in use.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let lifeline = Lifeline::start("pko-testkit-folder-guard", KILL_AND_REMOVE, [folder])?;
        Ok(Self {
            lifeline,
            folder: folder.to_owned(),
        })
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for FolderGuard {
    /// Does the work of the script itself: a shell takes longer to read all of `/proc`.
    fn drop(&mut self) {
        self.lifeline.cancel();
        kill_processes_of(&self.folder);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_guard_kills_processes_of_other_sessions() {
        let folder = tempfile::tempdir().unwrap().keep();
        let mut guard = FolderGuard::new(&folder).unwrap();
        let by_argument = format!("exec setsid tail -f {}/file", folder.display());
        fs::write(folder.join("file"), "").unwrap();
        let start = |script: &str, home: &Path| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).env("HOME", home);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.spawn().unwrap()
        };
        let mut first = start(&by_argument, Path::new("/"));
        let mut second = start("exec setsid sleep 600", &folder);
        // As if this process had ended
        guard.lifeline.run();
        assert!(!folder.exists());
        // Returns only because both were killed
        assert!(!first.wait().unwrap().success());
        assert!(!second.wait().unwrap().success());
    }

    #[test]
    fn kill_processes_of_finds_process_by_environment() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep")
            .arg("600")
            .env("HOME", folder.path().join("home"))
            .spawn()
            .unwrap();
        kill_processes_of(folder.path());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn end_processes_of_finds_process_by_argument() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(processes_of(folder.path()).is_empty());
        let mut child = Command::new("tail")
            .arg("-f")
            .arg(&file)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while processes_of(folder.path()).is_empty() {
            thread::sleep(PAUSE);
        }
        assert_eq!(processes_of(folder.path()), [child.id()]);
        let waiting = thread::spawn(move || child.wait());
        end_processes_of(folder.path(), Duration::from_secs(5));
        assert!(processes_of(folder.path()).is_empty());
        waiting.join().unwrap().unwrap();
    }
}
