//! Processes that should be gone, found by what they were started with.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const PAUSE: Duration = Duration::from_millis(50);

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

#[cfg(test)]
mod tests {
    use super::*;

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
