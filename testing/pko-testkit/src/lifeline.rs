//! Cleanup that runs when this process ends, even by SIGKILL.
//!
//! A shell waits for the end of its standard input. Only this process holds the other end, so the
//! kernel closes it however this process ends. The shell is not in the terminal's foreground
//! process group: Ctrl-C reaches this process first.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

const WAIT: &str = "
trap '' HUP INT TERM
while read -r _; do :; done
";

/// A shell script that runs when this is dropped, or when this process ends.
///
/// The shell leads a process group of its own.
pub(crate) struct Lifeline {
    shell: Child,
    stdin: Option<ChildStdin>,
}

impl Lifeline {
    /// Starts the shell. `name` is its `$0`, `arguments` are its `$1`, `$2` and so on.
    pub(crate) fn start<A: AsRef<OsStr>>(
        name: &str,
        script: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", &format!("{WAIT}{script}"), name])
            .args(arguments)
            .current_dir(Path::new("/"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let stdin = shell.stdin.take();
        Ok(Self { shell, stdin })
    }

    /// The process id of the shell, and of its process group.
    pub(crate) fn id(&self) -> u32 {
        self.shell.id()
    }

    /// Runs the script now and waits for its end. Idempotent.
    pub(crate) fn run(&mut self) {
        drop(self.stdin.take());
        let _ = self.shell.wait();
    }

    /// Ends the shell without running the script.
    pub(crate) fn cancel(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.run();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &str = r#"echo "$2" >"$1""#;

    #[test]
    fn lifeline_runs_script_once_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let arguments = [file.as_os_str(), OsStr::new("text")];
        let mut lifeline = Lifeline::start("test", WRITE, arguments).unwrap();
        assert!(!file.exists());
        lifeline.run();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text\n");
        std::fs::remove_file(&file).unwrap();
        drop(lifeline);
        assert!(!file.exists());
    }

    #[test]
    fn lifeline_canceled_does_not_run_script() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let arguments = [file.as_os_str(), OsStr::new("text")];
        let mut lifeline = Lifeline::start("test", WRITE, arguments).unwrap();
        lifeline.cancel();
        drop(lifeline);
        assert!(!file.exists());
    }
}
