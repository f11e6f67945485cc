//! The certain end of a cluster that belongs to a test, also when the test's process is killed.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::Helper;
use super::place::Place;

/// Waits for the end of its standard input, whose other end only this process holds.
const GUARD: &str = r#"
trap '' HUP INT TERM
while read -r _; do :; done
exec "$@"
"#;

/// Takes a cluster down when it is dropped, or when this process ends.
pub(super) struct Guard {
    child: Child,
    lifeline: Option<ChildStdin>,
}

impl Guard {
    /// Starts the guard of a cluster, which need not be up yet.
    pub(super) fn new(place: &Place, helper: &Helper) -> io::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", GUARD, "pko-cluster-guard"])
            .arg(&helper.program)
            .args(&helper.arguments)
            .args(["down", place.name()])
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let lifeline = child.stdin.take();
        Ok(Self { child, lifeline })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.wait();
    }
}
