//! Processes that should be gone, found by what they were started with.

use std::{
    fs, io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

const PAUSE: Duration = Duration::from_millis(50);
/// How long killed processes may take to be gone.
const KILL_DEADLINE: Duration = Duration::from_secs(10);

/// Waits for the end of its standard input, then does what [`kill_processes_of`] does and removes the
/// folder. A process that is being started may appear only in a later round.
const FOLDER_KEEPER: &str = r#"
trap '' HUP INT TERM
while read -r _; do :; done
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
    let folder = folder.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|process| {
            let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            arguments
                .windows(folder.len().max(1))
                .any(|part| part == folder)
        })
        .collect()
}

/// Ends the processes of a folder: asks them to, and kills those that are still there after a while.
pub fn end_processes_of(folder: &Path, patience: Duration) {
    for (signal, patience) in [("-TERM", patience), ("-KILL", Duration::from_secs(5))] {
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

/// Kills all processes with a path below this folder in their arguments or variables, and waits
/// until they are gone. What one of them starts meanwhile is found in the next round.
pub fn kill_processes_of(folder: &Path) {
    let end = Instant::now() + KILL_DEADLINE;
    loop {
        let processes = processes_with(folder);
        if processes.is_empty() || Instant::now() > end {
            return;
        }
        for process in processes {
            let process = i32::try_from(process).ok().and_then(Pid::from_raw);
            // One that has ended by itself is no matter
            let _ = process.map(|process| kill_process(process, Signal::KILL));
        }
        thread::sleep(PAUSE / 5);
    }
}

/// The processes with a path below this folder in their arguments or variables; never this one.
fn processes_with(folder: &Path) -> Vec<u32> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let has_folder = |file: &str| {
        let text = fs::read(file).unwrap_or_default();
        text.windows(folder.len().max(1)).any(|part| part == folder)
    };
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process| *process != std::process::id())
        .filter(|process| {
            has_folder(&format!("/proc/{process}/cmdline"))
                || has_folder(&format!("/proc/{process}/environ"))
        })
        .collect()
}

/// Kills all processes of a folder and removes it when this process has ended, even by SIGKILL,
/// whatever sessions and groups those processes are in.
pub struct FolderKeeper {
    child: Child,
    /// Closed by the end of this process
    lifeline: Option<ChildStdin>,
    folder: PathBuf,
}

impl FolderKeeper {
    /// Starts the keeper of a folder. Its path must not be part of any other.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", FOLDER_KEEPER, "pko-testkit-folder-keeper"])
            .arg(folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let lifeline = child.stdin.take();
        Ok(Self {
            child,
            lifeline,
            folder: folder.to_owned(),
        })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for FolderKeeper {
    /// Does by itself what the keeper is for: a shell takes longer to look at all processes.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.lifeline.take());
        kill_processes_of(&self.folder);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_keeper_ends_processes_of_other_sessions() {
        let folder = tempfile::tempdir().unwrap().keep();
        let mut keeper = FolderKeeper::new(&folder).unwrap();
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
        drop(keeper.lifeline.take());
        keeper.child.wait().unwrap();
        assert!(!folder.exists());
        // Returns only because both were killed
        assert!(!first.wait().unwrap().success());
        assert!(!second.wait().unwrap().success());
    }

    #[test]
    fn kill_processes_of_finds_them_by_their_variables() {
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
    fn a_process_is_found_by_its_folder_and_ended() {
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
